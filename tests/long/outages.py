"""Part (c): what a study needs goes away for a while: its records, room on the disk, MLflow, Ray."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.faults.processes import processes_of_driver, wait_until
from tests.faults.test_mlflow_away import free_port, served
from tests.long.full_disk import AWAY_S, Filler, small_disk
from tests.long.ground import Ground, Row, ground, runs, wrong_in_the_end

TRIALS = 30
FAULT_AT = 5  # trials that have begun when the fault comes
RUN_WITHIN_S = 600.0

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


def outages(only: str = "") -> Iterator[Row]:
    """Every outage with ``only`` in its name, one study each. Full disks need root, for a small disk of their own."""
    for what, run in _outages().items():
        if only in what:
            yield run(what)


def _outages() -> dict[str, Callable[[str], Row]]:
    disk = {
        "disk of the records full": lambda what: full_disk(what, Filler("records", "records")),
        "disk of the trials full": lambda what: full_disk(
            what, Filler("tuner-trials", "trials"), may_fail=True
        ),
        "disk of MLflow full": lambda what: full_disk(
            what, Filler("mlflow", "mlflow"), tracking={"mlflow": "sqlite:///mlflow/m.db"}
        ),
    }
    return {
        f"records locked for {AWAY_S:g} s": lambda what: study_with(what, locked_records),
        "Ray's head killed": lambda what: study_with(what, ray_gone, is_run_again=True),
        **(disk if os.geteuid() == 0 else {}),
        "MLflow down": lambda what: mlflow_at(f"http://127.0.0.1:{free_port()}", what),
        "MLflow answers 500": lambda what: mlflow_served(_Broken, what),
        "MLflow is slow": lambda what: mlflow_served(_Slow, what),
    }


def full_disk(what: str, filler: Filler, **changed: Any) -> Row:
    """A study with a disk that is full for a while; the row says it where the study never met that."""
    return study_with(what, filler, disk=filler.name, missed=filler.missed, **changed)


def mlflow_served(handler: type[BaseHTTPRequestHandler], what: str) -> Row:
    """A study that logs to a server that answers as ``handler`` does."""
    with served(handler) as uri:
        return mlflow_at(uri, what)


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
    missed: Callable[[Ground, str], list[str]] = lambda place, records: [],
    **changed: Any,
) -> Row:
    """A study with one fault in its middle. ``may_fail``: trials may end as failures, typed. ``is_run_again``: the run
    may fail, and the next one must finish. ``says``: words that the program must say. ``missed``: what shows that the
    fault never reached the study.
    """
    with ground() as place, small_disk(place, disk):
        place.write_space(TRIALS, **changed)
        records = "records/tuner.db" if disk == "records" else "tuner.db"
        driver = place.start("--records", records)
        wait_until(lambda: place.last_trial() >= FAULT_AT or driver.poll() is not None, RUN_WITHIN_S)
        has_begun = driver.poll() is None
        fault(place, driver)
        status = driver.wait(RUN_WITHIN_S)
        typed, left = f"exit {status}", place.left()
        if is_run_again and status != 0:
            status = place.run("--records", records, timeout_s=RUN_WITHIN_S)
            typed += f", run again: exit {status}"
        study = place.record(records)
        lost = [*wrong_in_the_end(study, TRIALS), *missed(place, records)]
        lost += [] if has_begun else [f"the study ended before its trial {FAULT_AT}, and before the fault"]
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
