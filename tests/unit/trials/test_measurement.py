import os
import subprocess
import sys

from trials.measurement import environment, load, peaks
from trials.measurement.load import LoadSample


def at(seconds, busy, own, cores=2):
    return LoadSample(at_s=seconds, busy_s=busy, own_s=own, cores=cores)


def test_our_own_work_is_not_foreign_load():
    assert load.contamination(at(0, 0, 0), at(10, 20, 20)) is None


def test_foreign_load_above_the_limit_contaminates_and_says_how_much():
    reason = load.contamination(at(0, 0, 0), at(10, 20, 15))
    assert reason is not None
    assert "25%" in reason


def test_a_tick_of_rounding_does_not_contaminate_a_short_window():
    assert load.contamination(at(0, 0, 0), at(0.05, 0.11, 0.09)) is None


def test_foreign_load_is_never_negative():
    assert load.foreign_share(at(0, 0, 0), at(10, 5, 6)) == 0


def test_work_of_this_process_counts_as_its_own():
    begin = load.load_now()
    sum(index * index for index in range(2_000_000))
    end = load.load_now()
    assert end.own_s > begin.own_s
    assert end.busy_s >= begin.busy_s
    assert end.cores == len(os.sched_getaffinity(0))


_PARENT_OF_ONE = """
import subprocess, sys
from trials.measurement import memory
seen = memory.HostMemory()
seen.sample()
alone = seen.peak_bytes
hungry = "block = b'x' * (128 * 2**20); print('ready', flush=True); input()"
with subprocess.Popen([sys.executable, "-c", hungry], stdin=-1, stdout=-1, text=True) as child:
    child.stdout.readline()
    assert child.pid in memory.process_tree()
    seen.sample()
    child.communicate("\\n")
with_child = seen.peak_bytes
seen.sample()
print(alone, with_child, seen.peak_bytes)
"""


def test_memory_of_children_is_counted_and_the_peak_is_kept():
    # in a process of its own: other tests' servers are children of this one, and end when they like
    told = subprocess.run([sys.executable, "-c", _PARENT_OF_ONE], check=True, capture_output=True, text=True)
    alone, with_child, after = map(int, told.stdout.split())
    assert with_child > alone + 100 * 2**20
    assert after >= with_child


def test_the_fingerprint_names_processor_cores_and_memory():
    found = environment.machine()
    assert found["cores_held"] == sorted(os.sched_getaffinity(0))
    assert found["memory_gib"] > 0.1
    assert found["cpu_model"]


def test_peaks_are_dense_and_unknown_devices_have_none():
    assert peaks.peak_flops_per_s("NVIDIA H100 PCIe", "bfloat16") == 756e12
    assert peaks.peak_flops_per_s("NVIDIA H100 80GB HBM3", "bfloat16") == 989.4e12
    assert peaks.peak_flops_per_s("NVIDIA L40S", "float32") == 91.6e12
    assert peaks.peak_flops_per_s("cpu", "bfloat16") is None
