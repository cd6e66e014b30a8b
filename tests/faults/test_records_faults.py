"""What happens to the records when the power goes, the disk is full, or somebody else holds the lock."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from tests.contracts.records_suite import complete, create, measure
from trials.contract import Measurement, Outcome, Purpose
from tuner.records.database import _ONE_WAIT_S, SAY_AFTER_S
from tuner.records.errors import RecordsUnavailable
from tuner.records.owner import Owner
from tuner.records.repository import Records

WRITER = """
import sys
from trials.contract import Measurement, MetricValue, Outcome, Purpose
from tuner.records.repository import Records
with Records.open(sys.argv[1]) as records:
    records.claim("lm")
    while True:
        number = records.add_trial("lm", {"x": len(records.study("lm").trials)}, "tpe")
        print("added", number, flush=True)
        name = records.start_measurement("lm", number, Purpose.SEARCH, 0, f"/runs/{number}")
        print("started", number, flush=True)
        metrics, examples = {"x": MetricValue(number, "s")}, {"accuracy": (float(number),) * 50}
        records.finish_measurement(name, Measurement(Outcome.COMPLETE, metrics=metrics, examples=examples))
        print("finished", number, flush=True)
"""


@pytest.mark.parametrize("lines", [4, 17, 32])
def test_after_a_kill_everything_whose_call_returned_is_there(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path) as records:
        create(records)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout
    said = [writer.stdout.readline().split() for _ in range(lines)]
    writer.send_signal(signal.SIGKILL)
    said += [line.split() for line in writer.stdout if line.endswith("\n")]
    writer.stdout.close()
    writer.wait()

    with Records.open(path, must_exist=True) as records:
        records.claim("lm")  # the dead one's claim does not stand in the way
        cut = records.close_interrupted("lm")
        trials = records.study("lm").trials
        last = {int(number): word for word, number in said}
        for number, word in last.items():
            ended = trials[number].measurements
            if word == "finished":
                assert ended[0].outcome is Outcome.COMPLETE
                assert ended[0].metrics["x"].value == number
                assert records.examples(ended[0].measurement_id) == {"accuracy": (float(number),) * 50}
            elif word == "started":
                assert len(ended) == 1
        assert len(trials) - len(last) in (0, 1)  # the one in flight may have made it, but nothing else
        assert all(m.outcome is not None for trial in trials for m in trial.measurements)
        assert len(cut) <= 1
        assert records.add_trial("lm", {"x": "next"}, "tpe") == len(trials)
    assert _integrity(path) == "ok"


def test_a_lock_held_for_seconds_delays_a_finished_measurement_and_does_not_lose_it(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path) as records:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        measurement_id = records.start_measurement("lm", 0, Purpose.SEARCH, 0, "/runs")
        holder = _hold(path, for_s=2.0)
        began_s = time.monotonic()
        assert records.study("lm").trials[0].measurements[0].outcome is None  # readers do not wait
        read_s = time.monotonic() - began_s
        records.finish_measurement(measurement_id, complete(1.0))
        waited_s = time.monotonic() - began_s
        holder.join()
        assert read_s < 1.0 < waited_s
        assert records.study("lm").trials[0].measurements[0].outcome is Outcome.COMPLETE


def test_waiting_goes_beyond_the_driver_s_own_patience(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path, busy_timeout_s=1.0) as records:
        create(records)
        holder = _hold(path, for_s=1.5)
        assert records.add_trial("lm", {"x": 1}, "baseline") == 0
        holder.join()


def test_a_lock_that_is_never_given_back_is_said_and_the_measurement_can_be_written_later(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path, busy_timeout_s=0.1) as records:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        measurement_id = records.start_measurement("lm", 0, Purpose.SEARCH, 0, "/runs")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordsUnavailable, match="stay locked by another process"):
            records.finish_measurement(measurement_id, complete(1.0))
        other.execute("ROLLBACK")
        other.close()
        records.finish_measurement(measurement_id, complete(1.0))
        assert records.study("lm").trials[0].measurements[0].outcome is Outcome.COMPLETE


def test_whoever_waits_for_a_lock_is_told_why_and_how_long_before_it_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path, busy_timeout_s=1.0) as records:
        create(records)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordsUnavailable):
            records.add_trial("lm", {"x": 1}, "baseline")
        other.close()
    (said,) = caplog.records
    assert said.getMessage() == f"the records at {path} are locked by another process: waiting up to 2 s"
    assert SAY_AFTER_S + _ONE_WAIT_S <= 2


def test_a_file_that_is_locked_before_it_holds_records_is_waited_for_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.records.database.BUSY_TIMEOUT_S", 1.0)
    path = tmp_path / "tuner.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(RecordsUnavailable):
        Records.open(path, busy_timeout_s=1.0)
    other.close()
    assert "locked by another process: waiting up to" in caplog.text


def test_records_can_be_opened_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path) as records:
        create(records)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Records.open(path, must_exist=True, busy_timeout_s=0.1) as reader:
        assert [study.name for study in reader.studies()] == ["lm"]
    with Records.open(path, busy_timeout_s=0.1) as reader:
        assert reader.study("lm").trials == ()
    other.close()


def test_many_processes_may_create_the_same_records_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    program = "import sys; from tuner.records.repository import Records; Records.open(sys.argv[1]).close()"
    started = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert _integrity(path) == "ok"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 1 MiB of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk could not be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_what_was_there_stays_and_writing_goes_on_when_there_is_room(
    small_disk: Path,
) -> None:
    path, ballast = small_disk / "tuner.db", small_disk / "ballast"
    with Records.open(path) as records:
        create(records)
        records.add_trial("lm", {"x": 0}, "baseline")
        measurement_id = records.start_measurement("lm", 0, Purpose.SEARCH, 0, "/runs")
        _fill(ballast)
        with pytest.raises(RecordsUnavailable, match="disk") as refused:
            records.finish_measurement(measurement_id, _large())
        assert "\n" not in str(refused.value)
        assert records.study("lm").trials[0].measurements[0].outcome is None
        ballast.unlink()
        records.finish_measurement(measurement_id, _large())
        assert records.study("lm").trials[0].measurements[0].outcome is Outcome.COMPLETE
        assert records.examples(measurement_id) == dict(_large().examples)
    assert _integrity(path) == "ok"


def test_a_database_that_may_not_grow_is_said_and_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path) as records:
        create(records)
        for x in range(3):
            measure(records, records.add_trial("lm", {"x": x}, "tpe"))

    def cap(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # at most as large as it is

    event.listen(Engine, "connect", cap)
    try:
        with (
            Records.open(path) as records,
            pytest.raises(RecordsUnavailable, match="the disk is full; free some"),
        ):
            for x in range(3, 500):
                records.add_trial("lm", {"x": x, "text": "x" * 2000}, "tpe")
    finally:
        event.remove(Engine, "connect", cap)
    with Records.open(path) as records:
        known = records.study("lm").trials
        assert [trial.number for trial in known] == list(range(len(known)))
        assert records.add_trial("lm", {"x": "after"}, "tpe") == len(known)
    assert _integrity(path) == "ok"


def test_a_second_run_of_another_process_is_refused_while_it_lives_only(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with Records.open(path) as records:
        create(records)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout
    writer.stdout.readline()
    with Records.open(path) as records:
        with pytest.raises(Exception, match=f"is being run by process {writer.pid} on "):
            records.claim("lm")
        writer.kill()
        writer.stdout.close()
        writer.wait()
        records.claim("lm")
        assert Owner.current().is_gone() is False


def _large() -> Measurement:
    noise = tuple(float.fromhex(f"0x1.{index * 2654435761 % 2**52:013x}p0") for index in range(20_000))
    return Measurement(Outcome.COMPLETE, examples={"loss": noise})


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"x" * 4096)
        except OSError:
            return


def _hold(path: Path, for_s: float) -> threading.Thread:
    """Another connection takes the write lock and gives it back after a while; returns once it is taken."""
    taken = threading.Event()

    def hold() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        taken.set()
        time.sleep(for_s)
        connection.execute("COMMIT")
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(10)
    return thread


def _integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()
