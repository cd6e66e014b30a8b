"""The real program in a process of its own, on tiny studies of a command that does next to nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.faults.processes import wait_until
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord

PROGRAM = (sys.executable, "-c", "from tuner.cli import main; main()")
REPOSITORY = Path(__file__).resolve().parents[3]


def write_space(folder: Path, body: str = "", **changed: Any) -> Path:
    """A study ``tiny`` over x = 1..6: speed grows with x, cost grows faster. ``body`` is Python that a trial runs
    first.
    """
    code = f"{body}\nprint('speed =', 10 + {{x}})\nprint('cost =', {{x}} ** 2)"
    space = {
        "study": "tiny",
        "workload": {
            "kind": "command",
            "run": ["{python}", "-c", code],
            "metrics": {"patterns": {"speed": r"speed = ([0-9.]+)", "cost": r"cost = ([0-9.]+)"}},
        },
        "parameters": {"x": {"min": 1, "max": 6}},
        "objectives": [
            {"metric": "speed", "direction": "maximize"},
            {"metric": "cost", "direction": "minimize"},
        ],
        "budget": {"trials": 3},
        "confirm": {"finalists": 1, "repeats": 2, "baseline_repeats": 2},
        "search": {"sampler": "random"},
        "resources": {"cpus": 1},
        "tracking": {"mlflow": None},
        **changed,
    }
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(space, sort_keys=False))
    return path


def hangs_until_told(folder: Path) -> str:
    """The body of a trial that hangs after the baseline, until the file ``go`` is there; it says so in ``middle``."""
    return (
        "import pathlib, time\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "if {x} > 1 and not (folder / 'go').exists():\n"
        "    (folder / 'middle').touch()\n"
        "    time.sleep(300)"
    )


def environment() -> dict[str, str]:
    """This process's, without what would change the program's answers."""
    kept = {
        key: value for key, value in os.environ.items() if key not in ("TUNER_RECORDS", "COLUMNS", "NO_COLOR")
    }
    return {**kept, "PYTHONPATH": str(REPOSITORY)}


def tuner(folder: Path, *arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True, text=True, cwd=folder, env=environment(), timeout=timeout_s, check=False,
    )  # fmt: skip


class Running:
    """The program while it runs, in a session of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=folder, env=environment(), start_new_session=True,
        )  # fmt: skip

    def wait_for(self, file: str, timeout_s: float = 120) -> None:
        """Until a trial has written that file, which says that it is in the middle."""
        path = self.folder / file
        assert wait_until(path.exists, timeout_s), (self.process.poll(), self.end())

    def press_ctrl_c(self, number: int = signal.SIGINT) -> float:
        """As a terminal does: every process of the group is told. Returns the moment."""
        os.killpg(self.process.pid, number)
        return time.monotonic()

    def end(self, timeout_s: float = 120) -> tuple[str, str]:
        """Wait; what it said."""
        try:
            return self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def recorded(folder: Path, study: str = "tiny") -> StudyRecord:
    """The study in the folder's records."""
    with Records.open(folder / "tuner.db", must_exist=True) as records:
        return records.study(study)


def searched(study: StudyRecord) -> list[int]:
    """How many times each trial after the baseline was searched to an end of its own."""
    return [
        sum(
            run.purpose == "search" and run.outcome is not None and run.failure_kind != "interrupted"
            for run in trial.measurements
        )
        for trial in study.trials[1:]
    ]
