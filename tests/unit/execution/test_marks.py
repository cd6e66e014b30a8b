"""Processes are found by the mark of their driver, and a dead driver's are leftovers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import is_running, private_runtime, wait_until
from tuner.execution import marks
from tuner.execution.leftovers import leftovers, run_folder
from tuner.execution.marks import MARK_VARIABLE, driver_mark, driver_of, is_dead, marked_processes, trial_mark
from tuner.execution.orphans import end_orphans
from tuner.execution.protocol import ExecutionError


@pytest.fixture(autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


def dead_mark() -> str:
    """The mark of a process that has ended."""
    ask = "from tuner.execution.marks import driver_mark; print(driver_mark())"
    return subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()


def sleeper(mark: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["sleep", "60"], env={MARK_VARIABLE: mark, "PATH": os.environ["PATH"]})
    assert wait_until(lambda: process.pid in list(marked_processes(mark.__eq__)))
    return process


def test_a_driver_that_lives_is_not_dead_and_one_that_ended_is() -> None:
    assert not is_dead(driver_mark())
    assert is_dead(dead_mark())
    assert is_dead(trial_mark(dead_mark(), "m1"))


def test_a_process_number_that_was_given_again_does_not_bring_a_driver_back() -> None:
    place, pid, ticks = driver_mark().rsplit(":", 2)
    assert is_dead(f"{place}:{pid}:{int(ticks) - 1}")


@pytest.mark.parametrize("mark", ["", "nonsense", "a:b:c"])
def test_a_mark_of_another_place_is_nobody_s_to_judge(mark: str) -> None:
    assert not is_dead(mark)
    assert not is_dead("another-boot/4026531836:1:1")


def test_a_dead_driver_s_process_and_folder_are_named_and_ended_and_no_other(runtime: Path) -> None:
    left, alive = sleeper(trial_mark(dead_mark(), "m1")), sleeper(driver_mark())
    folder = runtime / "run-dead"
    folder.mkdir()
    (folder / "driver").write_text(dead_mark())
    with run_folder() as mine:
        found = leftovers()
        assert [item.pid for item in found if item.pid] == [left.pid]
        assert [item.folder for item in found if item.folder] == [folder]
        assert any("sleep 60" in item.what for item in found)
        for item in found:
            item.end()
        assert left.wait(timeout=5) == -9
        assert alive.poll() is None
        assert mine.exists()
    assert not folder.exists()
    alive.kill()
    alive.wait()


def test_the_folder_of_a_run_goes_with_the_run(runtime: Path) -> None:
    with pytest.raises(KeyError), run_folder() as folder:
        (folder / "something").write_text("")
        raise KeyError
    assert list(runtime.iterdir()) == []


def test_orphans_are_ended_by_their_exact_mark() -> None:
    mark = driver_mark()
    one, other = sleeper(trial_mark(mark, "m1")), sleeper(trial_mark(mark, "m2"))
    assert end_orphans(trial_mark(mark, "m1").__eq__) == []
    assert not is_running(one.pid)
    assert is_running(other.pid)
    assert end_orphans(lambda found: driver_of(found) == mark) == []
    assert [one.wait(), other.wait()] == [-9, -9]


def test_a_runtime_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="TUNER_RUNTIME_DIR"):
        marks.runtime_dir()


def test_a_runtime_folder_too_long_for_sockets_is_refused_with_the_way_out(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_RUNTIME_DIR", str(runtime / ("x" * 40)))
    with pytest.raises(ExecutionError, match=r"too long a path.*TUNER_RUNTIME_DIR"), run_folder():
        pass
    assert list((runtime / ("x" * 40)).iterdir()) == []
