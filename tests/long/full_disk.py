"""A small disk that is full for a while, and the proof that it was."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from tests.long.ground import Ground, runs
from tuner.launch import TRIALS_FOLDER

SIZE_MIB = 8
AWAY_S = 10.0
ROOM_BYTES = 64 * 1024  # what may be free for a moment, where others give back what they wrote
FULL_SHARE = 0.9  # of the looks must find less room than that


@dataclass
class Filler:
    """The fault: fills the disk under ``name`` of a study's folder again and again, then gives it back.

    ``shows`` says in what the study must have met it: ``records`` (the program says so and waits), ``trials`` (runs
    that end as a crash for want of space), ``mlflow`` (nothing is added to its database meanwhile).
    """

    name: str
    shows: str
    looks: int = 0
    full_looks: int = 0
    trials_begun: int = 0
    logged: tuple[int, int] = (0, 0)

    def __call__(self, place: Ground, driver: subprocess.Popen[bytes]) -> None:
        ballast = place.folder / self.name / "ballast"
        until, begun, logged = time.monotonic() + AWAY_S, place.last_trial(), None
        with ballast.open("ab", buffering=0) as stream:
            while time.monotonic() < until and driver.poll() is None:
                _fill(stream.fileno())  # again and again: what others give back must not help
                self._look(place)
                logged = _logged(place) if logged is None else logged
                time.sleep(0.05)
        self.logged = (logged or 0, _logged(place))
        self.trials_begun = place.last_trial() - begun
        ballast.unlink()

    def _look(self, place: Ground) -> None:
        disk = os.statvfs(place.folder / self.name)
        self.looks += 1
        self.full_looks += disk.f_bavail * disk.f_frsize <= ROOM_BYTES

    def missed(self, place: Ground, records: str) -> list[str]:
        """What shows that the study never met a full disk; empty where it did."""
        missed = []
        if not self.looks or self.full_looks < FULL_SHARE * self.looks:
            missed.append(f"the disk was full in {self.full_looks} of {self.looks} looks only")
        if self.shows == "records" and "the disk is full; free some space" not in place.said():
            missed.append("the program never said that the records' disk is full")
        if self.shows == "trials":
            short = [run for run in runs(place.record(records)) if "No space left" in run.message]
            missed += [] if short else ["no trial ended for want of space"]
        if self.shows == "mlflow":
            if self.trials_begun < 2:
                missed.append(f"only {self.trials_begun} trials began meanwhile")
            if self.logged[0] != self.logged[1]:
                missed.append(f"MLflow's database grew from {self.logged[0]} to {self.logged[1]} runs")
        return missed


def _fill(fd: int) -> None:
    for size in (2**16, 2**12):
        try:
            while os.write(fd, b"x" * size):
                pass
        except OSError:
            continue  # full, for pieces of this size


def _logged(place: Ground) -> int:
    """Runs in MLflow's database; 0 where there is none, or it cannot be read now."""
    file = place.folder / "mlflow" / "m.db"
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
    return 0


@contextmanager
def small_disk(place: Ground, name: str | None) -> Iterator[None]:
    """A disk of a few MiB as that folder of the study (needs root); None: no such disk.

    Trial folders lie beside the records; they stay on the large disk all the same, so that one fault comes at a time.
    """
    if name is None:
        yield
        return
    folder = place.folder / name
    folder.mkdir()
    size = f"size={SIZE_MIB}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        if name == "records":
            (place.folder / TRIALS_FOLDER).mkdir()
            (folder / TRIALS_FOLDER).symlink_to(place.folder / TRIALS_FOLDER)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)
