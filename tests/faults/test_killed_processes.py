"""Whatever is killed, no process stays behind, and what can go on goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.executor_suite import ListSource
from tests.faults.processes import (
    FAKE_TRIAL,
    ends,
    is_running,
    job,
    private_runtime,
    processes_of_driver,
    wait_until,
)
from trials.contract import FailureKind, Outcome
from tuner.execution import guardian, supervisor
from tuner.execution.leftovers import leftovers
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import Slots

HANG, COMPLETE = {"do": "hang"}, {"do": "complete"}


class Driver:
    """A driver process with jobs for the fake trial."""

    def __init__(self, where: str, folder: Path, jobs: list[dict[str, Any]]) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.driver", where, str(folder), json.dumps(jobs)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )

    def wait_for_daemon(self, number: int) -> int:
        """Wait until a hanging trial has forked its daemon, the last thing that it does; returns its
        number.
        """
        file = self.folder / str(number) / "daemon.pid"
        assert wait_until(lambda: file.exists() and file.read_text(), timeout_s=90), self.process.poll()
        return int(file.read_text())

    def find(self, words: str) -> int:
        """The one process of this driver that has ``words`` in its command line."""
        found = [pid for pid in processes_of_driver(self.process.pid) if words in _command(pid)]
        assert len(found) == 1, [_command(pid) for pid in processes_of_driver(self.process.pid)]
        return found[0]

    def trial(self, number: int) -> int:
        """The process number of a hanging trial: the child of its guardian."""
        return next(
            pid for pid in guardian.children(self.find("guardian.py")) if pid != self.wait_for_daemon(number)
        )

    def results(self, timeout_s: float = 60) -> list[dict[str, Any]]:
        """Wait for the end; what it said."""
        out, err = self.process.communicate(timeout=timeout_s)
        assert err == ""
        return [json.loads(line) for line in out.splitlines()]

    def nothing_left(self, timeout_s: float) -> bool:
        """True when no process with this driver's mark is left in time."""
        return wait_until(lambda: not processes_of_driver(self.process.pid), timeout_s)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture(autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    drivers: list[Driver] = []

    def starter(where: str, jobs: list[dict[str, Any]]) -> Driver:
        drivers.append(Driver(where, tmp_path, jobs))
        return drivers[-1]

    yield starter
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()
        for pid in processes_of_driver(driver.process.pid):
            guardian.kill(pid)


@pytest.mark.parametrize(("where", "within_s"), [("local", 5.0), ("ray", 10.0)])
def test_the_driver_s_death_leaves_no_process_and_the_next_run_finds_its_folder(
    start: Any, where: str, within_s: float, runtime: Path
) -> None:
    driver = start(where, [HANG])
    daemon = driver.wait_for_daemon(0)
    trial = driver.trial(0)
    os.kill(driver.process.pid, signal.SIGKILL)
    assert ends(daemon, timeout_s=5)
    assert ends(trial, timeout_s=5)
    driver.process.wait()
    assert driver.nothing_left(within_s), [_command(pid) for pid in processes_of_driver(driver.process.pid)]
    for left in leftovers():
        left.end()
    assert not list(runtime.glob("run-*"))


@pytest.mark.parametrize("where", ["local", "ray"])
def test_ctrl_c_hands_the_running_job_back_as_interrupted_and_leaves_nothing(
    start: Any, where: str, runtime: Path
) -> None:
    driver = start(where, [HANG, COMPLETE])
    daemon = driver.wait_for_daemon(0)
    pressed_at = time.monotonic()
    os.killpg(driver.process.pid, signal.SIGINT)  # the terminal sends it to the whole foreground group
    results = driver.results(timeout_s=30)
    assert time.monotonic() - pressed_at < 10
    assert driver.process.returncode == 130
    assert [(result["number"], result["kind"]) for result in results] == [(0, "interrupted")]
    assert not is_running(daemon)
    assert driver.nothing_left(5)
    assert not list(runtime.glob("run-*"))


def _kill_each_in_turn(driver: Driver, targets: dict[int, str]) -> None:
    for number, target in targets.items():
        daemon = driver.wait_for_daemon(number)
        guard = driver.find("guardian.py")
        pid = {"trial": driver.trial(number), "guardian": guard, "actor": _parent(guard)}[target]
        os.kill(pid, signal.SIGKILL)
        assert ends(pid), target
        assert ends(daemon), target


def test_a_killed_trial_or_guardian_ends_as_killed_and_the_run_goes_on(start: Any) -> None:
    driver = start("local", [HANG, COMPLETE, HANG, COMPLETE])
    _kill_each_in_turn(driver, {0: "trial", 2: "guardian"})
    assert [result["kind"] for result in driver.results()] == ["killed", None, "killed", None]


def test_a_killed_trial_guardian_or_actor_ends_as_killed_and_the_run_goes_on(start: Any) -> None:
    driver = start("ray", [HANG, COMPLETE, HANG, COMPLETE, HANG, COMPLETE])
    _kill_each_in_turn(driver, {0: "trial", 2: "guardian", 4: "actor"})
    assert [result["kind"] for result in driver.results()] == ["killed", None, "killed", None, "killed", None]
    assert driver.nothing_left(5)


def test_a_stopped_guardian_is_ended_after_its_grace_with_all_that_it_guarded_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_GUARDIAN_GRACE_S", 0.5)
    source = ListSource([job(tmp_path, 0, "hang", timeout_s=1.0), job(tmp_path, 1, "complete")])
    daemon = tmp_path / "0" / "daemon.pid"
    stopped: list[int] = []

    def stop() -> None:
        assert wait_until(lambda: daemon.exists() and daemon.read_text(), timeout_s=60)
        stopped.extend(pid for pid in guardian.children(os.getpid()) if "guardian.py" in _command(pid))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    stopper = threading.Thread(target=stop)
    stopper.start()
    LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=1))
    stopper.join()
    assert len(stopped) == 1 and not is_running(stopped[0])
    assert not is_running(int(daemon.read_text()))
    assert source.measurement(0).failure_kind is FailureKind.KILLED
    assert source.measurement(1).outcome is Outcome.COMPLETE
    assert not [pid for pid in guardian.descendants(os.getpid()) if "fake_trial" in _command(pid)]
