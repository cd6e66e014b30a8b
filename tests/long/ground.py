"""Where a campaign's study runs: a folder of its own, the real program in it, and what is left there afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.faults.processes import processes_of_driver, wait_until
from tests.long import fates
from tests.unit.cli.program import environment
from tuner.execution.leftovers import RUN_PREFIX
from tuner.execution.marks import RUNTIME_VARIABLE
from tuner.records.errors import RecordsError
from tuner.records.repository import Records
from tuner.records.rows import MeasurementRecord, StudyRecord

TUNER = (sys.executable, "-m", "tuner")
STUDY = "campaign"
GONE_WITHIN_S = 60.0
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Row:
    """A line of the table. ``lost`` and ``left`` say what went wrong; empty where nothing did.

    ``is_final`` False: there was no time for more, and the next call goes on.
    """

    injected: str
    typed_as: str
    lost: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    is_final: bool = True

    @property
    def is_clean(self) -> bool:
        """True where nothing was lost and nothing left behind."""
        return not self.lost and not self.left

    def __str__(self) -> str:
        cells = (self.injected, self.typed_as, _cell(self.lost), _cell(self.left))
        return f"| {' | '.join(cells)} |"


def _cell(found: tuple[str, ...]) -> str:
    return "0" if not found else f"{len(found)}: " + "; ".join(found[:8]).replace("|", "/").replace("\n", " ")


@dataclass
class Ground:
    """One study's folder. ``runtime`` holds what must be empty in the end: locks, Ray's folder, temporary files."""

    folder: Path
    runtime: Path
    shared_memory_before: frozenset[str]
    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write_space(self, trials: int, *, is_faulty: bool = False, **changed: Any) -> None:
        """A study of no-op trials over x, all fine unless ``is_faulty``; ``changed`` replaces sections of the file."""
        command = [
            "{python}",
            "-I",
            "-S",
            fates.__file__,
            "{x}",
            "{trial_dir}",
            *([] if is_faulty else ["fine"]),
        ]
        goals = [
            {"metric": "speed", "direction": "maximize"},
            {"metric": "cost", "direction": "minimize"},
        ]
        fine = next(fates.xs_of("fine"))
        space = {
            "study": STUDY,
            "workload": {"kind": "command", "run": command, "metrics": {"file": "metrics.json"}},
            "parameters": {"x": {"min": 1, "max": 10**6}},
            "baseline": {"x": fine},
            "objectives": goals,
            "budget": {"trials": trials, "trial_timeout": "60 s", "failures_in_a_row": trials},
            "confirm": {"finalists": 1, "repeats": 1, "baseline_repeats": 1},
            "search": {"sampler": "random", "seed": 0},
            "resources": {"cpus": 1},
            "tracking": {"mlflow": None},
            **changed,
        }
        (self.folder / "space.yaml").write_text(yaml.safe_dump(space, sort_keys=False))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """``tuner run`` in a session of its own; its talk goes to ``said.txt``."""
        with (self.folder / "said.txt").open("ab") as said:
            driver = subprocess.Popen(
                [*TUNER, "run", "space.yaml", *arguments],
                stdout=said, stderr=said, cwd=self.folder, env=self._environment(), start_new_session=True,
            )  # fmt: skip
        self.drivers.append(driver)
        return driver

    def run(self, *arguments: str, timeout_s: float = 3600) -> int:
        """``tuner run`` to its end; the exit status."""
        return self.start(*arguments).wait(timeout_s)

    def shown(self) -> dict[str, Any]:
        """What ``tuner show --json`` prints."""
        done = subprocess.run(
            [*TUNER, "show", STUDY, "--json"],
            cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def said(self) -> str:
        """What the program has said so far."""
        return (self.folder / "said.txt").read_text(errors="replace")

    def record(self, file: str = "tuner.db") -> StudyRecord | None:
        """The study as recorded; None while there is none."""
        try:
            with Records.open(self.folder / file, must_exist=True) as records:
                return records.study(STUDY)
        except (RecordsError, LookupError):
            return None

    def last_trial(self) -> int:
        """The number of the last trial that has begun, from the folders: cheap to ask while the study runs."""
        folders = self.folder.glob("tuner-trials/*/g*/[0-9]*")
        return max((int(folder.name.partition("-")[0]) for folder in folders), default=0)

    def left(self) -> tuple[str, ...]:
        """Processes, temporary folders and shared memory that are still there after a while."""
        wait_until(lambda: not self._left(), GONE_WITHIN_S)
        return tuple(self._left())

    def end(self) -> None:
        """Kill the drivers that still run (a campaign that was cut), and wait for what they started."""
        running = [driver for driver in self.drivers if driver.poll() is None]
        for driver in running:
            driver.kill()
            driver.wait()
        if running:
            self.left()

    def _left(self) -> list[str]:
        marked = [pid for driver in self.drivers for pid in processes_of_driver(driver.pid)]
        pids = {*marked, *self._processes()}
        folders = [*self.runtime.glob(f"{RUN_PREFIX}*"), *(self.runtime / "tmp").iterdir()]
        shared = _shared_memory() - self.shared_memory_before
        return [*(_named(pid) for pid in pids), *map(str, folders), *(f"/dev/shm/{name}" for name in shared)]

    def _processes(self) -> Iterator[int]:
        """Everything that has this ground in its environment or as its place, zombies excepted."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                names_us = str(self.runtime).encode() in (entry / "environ").read_bytes()
                if names_us or (entry / "cwd").readlink().is_relative_to(self.folder):
                    yield int(entry.name)
            except OSError:
                continue  # it ended meanwhile

    def _environment(self) -> dict[str, str]:
        ours = {RUNTIME_VARIABLE: str(self.runtime), "TMPDIR": str(self.runtime / "tmp")}
        return {**environment(), **ours}


@contextmanager
def ground(folder: Path | None = None) -> Iterator[Ground]:
    """A place for one study, its path short enough for Ray's sockets. A given ``folder`` is gone on with, and
    stays; otherwise it is a new one, removed in the end.
    """
    runtime = folder or Path(tempfile.mkdtemp(prefix="tt-", dir="/tmp"))
    try:
        for name in ("tmp", "study"):
            (runtime / name).mkdir(parents=True, exist_ok=True)
        place = Ground(runtime / "study", runtime, frozenset(_shared_memory()))
        try:
            yield place
        finally:
            place.end()
    finally:
        if folder is None:
            shutil.rmtree(runtime, ignore_errors=True)


def runs(study: StudyRecord | None) -> list[MeasurementRecord]:
    """All measurements of a study."""
    return [run for trial in study.trials for run in trial.measurements] if study else []


def wrong_in_the_end(study: StudyRecord | None, budget: int) -> list[str]:
    """What does not add up in a study that is done."""
    if study is None:
        return ["the study is not in the records"]
    wrong = [f"{run.measurement_id} never ended" for run in runs(study) if run.outcome is None]
    if len(study.trials) != budget:
        wrong.append(f"{len(study.trials)} trials instead of {budget}")
    configs = Counter(json.dumps(dict(trial.config), sort_keys=True) for trial in study.trials)
    wrong += [f"{config} is {n} trials" for config, n in configs.items() if n > 1]
    for trial in study.trials:
        ended = [r for r in trial.measurements if r.purpose == "search" and r.failure_kind != "interrupted"]
        if len(ended) != (trial.number > 0):
            wrong.append(f"trial {trial.number} was searched {len(ended)} times")
    return wrong


def _shared_memory() -> set[str]:
    """The objects in shared memory; folders there are somebody's files."""
    if not SHARED_MEMORY.is_dir():
        return set()
    return {entry.name for entry in SHARED_MEMORY.iterdir() if not entry.is_dir()}


def _named(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        command = "gone meanwhile"
    return f"process {pid} {command[:80]}"
