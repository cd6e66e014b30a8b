"""Cores are held by locks, among all processes of a user."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import private_runtime
from tuner.execution import placement
from tuner.execution.placement import Holding, free_order, refuse_what_does_not_fit, shortage, usable_gpus
from tuner.execution.protocol import ExecutionError, Slots


@pytest.fixture(autouse=True)
def _runtime() -> Iterator[None]:
    with private_runtime():
        yield


def test_two_slots_never_hold_the_same_core() -> None:
    one, other = Holding("core", "0123"), Holding("core", "0123")
    assert one.take(3) == ("0", "1", "2")
    assert other.take(3) == ("3",)
    one.release()
    assert set(other.take(3)) == {"3", "0", "1"}
    other.release()


def test_a_slot_that_asks_again_keeps_what_it_holds() -> None:
    holding = Holding("core", "0123")
    assert holding.take(2) == holding.take(2)
    holding.release()


def test_cores_and_devices_of_the_same_number_are_different_things() -> None:
    cores, gpus = Holding("core", "0"), Holding("gpu", "0")
    assert cores.take(1) == gpus.take(1) == ("0",)
    cores.release()
    gpus.release()


def test_the_kernel_gives_back_what_a_killed_process_held() -> None:
    hold = (
        "import time; from tuner.execution.placement import Holding\n"
        "held = Holding('core', '0'); held.take(1); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        mine = Holding("core", "0")
        assert mine.take(1) == ()
        other.kill()
        other.wait()
        assert mine.take(1) == ("0",)
        mine.release()


def test_the_threads_of_one_physical_core_come_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        placement, "_physical", lambda core: (0, core % 4)
    )  # 8 threads on 4 cores, as numbered by Linux
    assert free_order(range(8)) == [0, 4, 1, 5, 2, 6, 3, 7]


def test_devices_are_read_from_the_environment_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, GPU-abc")
    assert usable_gpus() == ["1", "GPU-abc"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert usable_gpus() == []


def test_a_shortage_is_said_and_enough_is_not() -> None:
    assert shortage("core", 2, ("0", "1")) is None
    assert (shortage("core", 2, ("0",)) or "").startswith("wanted 2 cores for itself, 1 free")


@pytest.mark.parametrize("slots", [Slots(1, cpus=5), Slots(1, cpus=1, gpus=3)])
def test_a_slot_that_does_not_fit_is_refused_with_what_would(slots: Slots) -> None:
    with pytest.raises(
        ExecutionError, match=r"resources\.(cpus=5|gpus=3), but here has (4|2); use at most (4|2)"
    ):
        refuse_what_does_not_fit(slots, 4, 2, "here")


def test_the_runtime_folder_is_private_to_the_user() -> None:
    from tuner.execution.marks import runtime_dir

    folder = runtime_dir() / "new"
    os.environ["TUNER_RUNTIME_DIR"] = str(folder)
    assert Path(runtime_dir()).stat().st_mode & 0o077 == 0
