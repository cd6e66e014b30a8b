"""MLflow down, slow, broken or locked: the study goes on in bounded time, and a replay shows it later."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.unit.tracking import example
from tests.unit.tracking.mlflow_store import EXPERIMENT, new_store, runs
from tuner.results import StudyResult, judge
from tuner.tracking import MlflowTracker, TrackingError, replay

FLUSH_S, FINISH_S = 0.5, 3.0
SLACK_S = 8.0  # for starting and ending the process on a busy machine


@pytest.fixture(scope="module")
def result() -> StudyResult:
    return judge(example.study())


@pytest.fixture(autouse=True)
def short_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for MLflow's start is cut: these stores never start."""
    monkeypatch.setattr("tuner.tracking.tracker.START_TIMEOUT_S", 2.0)


class _Broken(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(500, "the database is on fire")

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class _Slow(_Broken):
    def do_GET(self) -> None:
        time.sleep(30)

    do_POST = do_GET  # noqa: N815


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def goes_through(uri: str, result: StudyResult) -> tuple[list[str], float]:
    """A whole study against ``uri``: the warnings, and the seconds that it cost."""
    said: list[str] = []
    begin = time.monotonic()
    tracker = MlflowTracker(uri, EXPERIMENT, warn=said.append)
    tracker.start(result.record)
    tracker.flush(FLUSH_S)
    for trial in result.trials:
        tracker.trial(trial, 1.0)
        tracker.flush(FLUSH_S)
    assert not tracker.finish(result, {"report.html": "x"}, FINISH_S)
    return said, time.monotonic() - begin


@pytest.mark.parametrize("fault", ["down", "slow", "broken"])
def test_a_server_that_is_away_costs_one_warning_and_a_bounded_time(
    fault: str, result: StudyResult, tmp_path: Path
) -> None:
    if fault == "down":
        said, took_s = goes_through(f"http://127.0.0.1:{free_port()}", result)
    else:
        with served(_Slow if fault == "slow" else _Broken) as uri:
            said, took_s = goes_through(uri, result)
    assert len(said) == 1 and "tuner log lm-training" in said[0]
    assert took_s < 2.0 + FINISH_S + SLACK_S, "one start, one end, and nothing for each of 14 trials"
    store = new_store(tmp_path)
    replay(result.record, result, store, EXPERIMENT)
    assert len(runs(store)) == 15


def test_a_replay_to_a_server_that_is_away_says_so_in_one_line(result: StudyResult) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TrackingError) as caught:
        replay(result.record, result, uri, EXPERIMENT)
    assert str(caught.value).startswith(f"MLflow at {uri}: ") and "\n" not in str(caught.value)


def test_a_database_that_is_locked_for_a_while_gets_everything_in_the_end(
    result: StudyResult, tmp_path: Path
) -> None:
    store, said = new_store(tmp_path), []
    tracker = MlflowTracker(store, EXPERIMENT, warn=said.append)
    tracker.start(result.record)
    assert tracker.flush(120)
    with closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        tracker.trial(result.trial(0))
        begin = time.monotonic()
        assert not tracker.flush(FLUSH_S)
        for trial in result.trials[1:]:
            tracker.trial(trial)
            tracker.flush(FLUSH_S)
        assert time.monotonic() - begin < 2 * FLUSH_S + 2.0, "late once, waited for once"
        lock.execute("ROLLBACK")
    assert tracker.finish(result, timeout_s=120)
    assert len(runs(store)) == 15 and len(said) == 1


def test_a_full_queue_never_blocks_the_study(result: StudyResult) -> None:
    with served(_Slow) as uri:
        tracker = MlflowTracker(uri, EXPERIMENT, warn=lambda line: None)
        tracker.start(result.record)
        longest_s = 0.0
        for _ in range(100):  # some megabytes, far more than a pipe holds
            for trial in result.trials:
                begin = time.monotonic()
                assert tracker.trial(trial)
                longest_s = max(longest_s, time.monotonic() - begin)
        tracker.close()
    assert longest_s < 10  # the server takes 30 s for one answer


def test_a_bad_address_is_said_before_anything_runs() -> None:
    with pytest.raises(TrackingError, match=r"sqlite:///mlflow\.db"):
        MlflowTracker("./mlruns", EXPERIMENT)


def test_the_logger_dies_with_its_driver(tmp_path: Path) -> None:
    program = (
        "import sys, time; from tests.unit.tracking import example\n"
        "from tuner.tracking import MlflowTracker\n"
        "t = MlflowTracker(sys.argv[1], 'e'); t.start(example.study()); t.flush(60)\n"
        "print(t._link._process.pid, flush=True); time.sleep(600)"
    )
    store = new_store(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", program, store], stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        logger = int(driver.stdout.readline())
        assert Path(f"/proc/{logger}").exists()
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    deadline = time.monotonic() + SLACK_S
    while _lives(logger) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(logger)
    assert [run.info.status for run in runs(store, "e")] == ["KILLED"], "no run looks as if it went on"


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
