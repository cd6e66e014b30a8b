"""Part (c): what a study needs goes away for a while: its records, room on the disk, MLflow, Ray."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.faults.processes import processes_of_driver, wait_until
from tests.faults.test_mlflow_away import free_port, served
from tests.long.ground import Ground, Row, ground, runs, wrong_in_the_end

TRIALS = 30
FAULT_AT = 5  # trials that have begun when the fault comes
AWAY_S = 10.0
RUN_WITHIN_S = 600.0
SMALL_DISK_MIB = 8

Fault = Callable[[Ground, subprocess.Popen[bytes]], None]


class _Broken(BaseHTTPRequestHandler):
    """A server that answers every request with status 500."""

    def do_GET(self) -> None:
        self.send_error(500)

    do_POST = do_GET  # noqa: N815 - the name that http.server wants

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class _Slow(_Broken):
    """A server that takes its time to do so."""

    def do_GET(self) -> None:
        time.sleep(30)

    do_POST = do_GET  # noqa: N815 - the name that http.server wants


def outages() -> Iterator[Row]:
    """Every outage, one study each. Those of the disk need root, for a small disk of their own."""
    yield study_with(f"records locked for {AWAY_S:g} s", locked_records)
    yield study_with("Ray's head killed", ray_gone, is_run_again=True)
    if os.geteuid() == 0:
        yield from full_disks()
    yield mlflow_at(f"http://127.0.0.1:{free_port()}", "MLflow down")
    for handler, what in ((_Broken, "MLflow answers 500"), (_Slow, "MLflow is slow")):
        with served(handler) as uri:
            yield mlflow_at(uri, what)


def full_disks() -> Iterator[Row]:
    """The disk of the records, of the trials' folders, of MLflow's database: full for a while."""
    yield study_with("disk of the records full", full("records"), disk="records")
    yield study_with("disk of the trials full", full("tuner-trials"), disk="tuner-trials", may_fail=True)
    store = {"mlflow": "sqlite:///mlflow/m.db"}
    yield study_with("disk of MLflow full", full("mlflow"), disk="mlflow", tracking=store)


def mlflow_at(uri: str, what: str) -> Row:
    """A study that logs to a server that is of no use."""
    return study_with(what, lambda *_: None, tracking={"mlflow": uri}, says="tuner log")


def study_with(
    what: str,
    fault: Fault,
    disk: str | None = None,
    may_fail: bool = False,
    is_run_again: bool = False,
    says: str = "",
    **changed: Any,
) -> Row:
    """A study with one fault in its middle. ``may_fail``: trials may end as failures, typed. ``is_run_again``: the run
    may fail, and the next one must finish. ``says``: words that the program must say.
    """
    with ground() as place, _small_disk(place, disk):
        place.write_space(TRIALS, **changed)
        records = "records/tuner.db" if disk == "records" else "tuner.db"
        driver = place.start("--records", records)
        wait_until(lambda: place.last_trial() >= FAULT_AT or driver.poll() is not None, RUN_WITHIN_S)
        fault(place, driver)
        status = driver.wait(RUN_WITHIN_S)
        typed, left = f"exit {status}", place.left()
        if is_run_again and status != 0:
            status = place.run("--records", records, timeout_s=RUN_WITHIN_S)
            typed += f", run again: exit {status}"
        study = place.record(records)
        lost = wrong_in_the_end(study, TRIALS)
        failures = [str(r.failure_kind) for r in runs(study) if r.failure_kind not in (None, "interrupted")]
        if failures:
            typed += f", {len(failures)} trials {', '.join(sorted(set(failures)))}"
        if failures and not may_fail:
            lost.append(f"{len(failures)} trials failed")
        if status != 0 or says not in place.said():
            lost.append(f"exit status {status}, said: {place.said()[-400:]}")
        return Row(what, typed, tuple(lost), left)


def locked_records(place: Ground, _: subprocess.Popen[bytes]) -> None:
    """Another process has the write lock of the records for a while."""
    with closing(sqlite3.connect(place.folder / "tuner.db", isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(AWAY_S)
        other.execute("ROLLBACK")


def ray_gone(_: Ground, driver: subprocess.Popen[bytes]) -> None:
    """SIGKILL for Ray's head processes of this driver."""
    for pid in processes_of_driver(driver.pid):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"gcs_server" in command.split(b"\0")[0] or b"raylet/raylet" in command.split(b"\0")[0]:
            os.kill(pid, signal.SIGKILL)


def full(disk: str) -> Fault:
    """The fault of a disk that is full for a while."""

    def fill(place: Ground, driver: subprocess.Popen[bytes]) -> None:
        ballast = place.folder / disk / "ballast"
        until = time.monotonic() + AWAY_S
        with ballast.open("ab", buffering=0) as stream:
            while time.monotonic() < until and driver.poll() is None:
                _fill(stream.fileno())  # again and again: what others give back must not help
                time.sleep(0.05)
        ballast.unlink()

    return fill


def _fill(fd: int) -> None:
    for size in (2**16, 2**12):
        try:
            while os.write(fd, b"x" * size):
                pass
        except OSError:
            continue  # full, for pieces of this size


@contextmanager
def _small_disk(place: Ground, name: str | None) -> Iterator[None]:
    """A disk of a few MiB as that folder of the study; None: no such disk."""
    if name is None:
        yield
        return
    folder = place.folder / name
    folder.mkdir()
    size = f"size={SMALL_DISK_MIB}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)
