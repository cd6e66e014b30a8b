"""What the tests of processes share: a private runtime folder, jobs for the fake trial, and looking for
survivors.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trials.contract import Purpose, TrialSpec
from tuner.execution.marks import RUNTIME_VARIABLE, driver_of, marked_processes
from tuner.execution.protocol import Job

FAKE_TRIAL = (sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_trial.py")))


@contextmanager
def private_runtime() -> Iterator[Path]:
    """A runtime folder of the test's own, with a path short enough for Ray's sockets."""
    folder = tempfile.mkdtemp(prefix="tt-", dir="/tmp")
    before = os.environ.get(RUNTIME_VARIABLE)
    os.environ[RUNTIME_VARIABLE] = folder
    try:
        yield Path(folder)
    finally:
        os.environ.pop(RUNTIME_VARIABLE)
        if before is not None:
            os.environ[RUNTIME_VARIABLE] = before
        shutil.rmtree(folder, ignore_errors=True)


def job(folder: Path, number: int, do: str, **details: Any) -> Job:
    """A job for the fake trial; ``timeout_s``, ``memory_limit_gib``, ``wanted``, ``report_at`` go to the spec."""
    of_spec = ("timeout_s", "memory_limit_gib", "wanted", "report_at")
    limits = {key: details.pop(key) for key in of_spec if key in details}
    spec = TrialSpec(
        study="faults",
        trial_number=number,
        measurement_id=f"m{number}",
        purpose=Purpose.SEARCH,
        workload={"kind": "fake"},
        config={"do": do, **details},
        seed=0,
        trial_dir=folder / str(number),
        cache_dir=folder / "cache",
        **{"wanted": ("score",), "timeout_s": 60.0, **limits},
    )
    return Job(spec)


def wait_until(is_true: Callable[[], Any], timeout_s: float = 20.0) -> bool:
    """Poll; False when it did not become true in time."""
    give_up_at = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.02)
    return True


def processes_of_driver(pid: int) -> list[int]:
    """Everything that carries the mark of the driver with this process number."""
    return list(marked_processes(lambda mark: driver_of(mark).split(":")[1] == str(pid)))


def is_running(pid: int) -> bool:
    """True for a process that is there and more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def ends(pid: int, timeout_s: float = 20.0) -> bool:
    """Wait until the process is no more; False when it still runs then."""
    return wait_until(lambda: not is_running(pid), timeout_s)
