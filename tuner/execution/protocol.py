"""Where trials run: an executor pulls jobs from a source, runs each once, and hands the measurement back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from trials.contract import Measurement, TrialSpec


@dataclass(frozen=True)
class Job:
    """One measurement to take. The executor fills in the spec's cpus and gpus and writes the spec file."""

    spec: TrialSpec


class Signal(Enum):
    """What a source says instead of a job."""

    WAIT = "nothing now, ask again after a running job ends"  # never while nothing runs
    FINISHED = "no more jobs"


class JobSource(Protocol):
    """The study, as an executor sees it. All calls come from the driver's main thread."""

    def next_job(self, running: int) -> Job | Signal:
        """The next job, given how many run now."""
        ...

    def on_result(self, job: Job, measurement: Measurement) -> None:
        """Called once per job, however it ended; the result is recorded when this returns."""
        ...

    def must_stop(self) -> bool:
        """True when running jobs must be cut now (interrupted, wall time over)."""
        ...

    def look(self) -> None:
        """Called about once a second while jobs run: the moment to see how they go."""
        ...


@dataclass(frozen=True)
class Slots:
    """Constant resources: ``count`` trials at once, each with at most ``cpus`` cores, ``gpus`` devices."""

    count: int
    cpus: int
    gpus: int = 0
    accelerator: str | None = None


class Executor(Protocol):
    """Runs jobs until the source has no more. Leaves no process behind, whatever happens."""

    def run(self, source: JobSource, slots: Slots) -> None:
        """Returns when the source said FINISHED and nothing runs, or after ``must_stop``.

        A job cut by ``must_stop`` or Ctrl-C is handed back as failed/interrupted. Raises ExecutionError
        (one line, way out) when the place cannot run jobs at all (no such cluster, resources that no node
        has).
        """
        ...

    def interrupt(self) -> None:
        """Cut what runs (from a signal handler); ``run`` then returns soon."""
        ...


class ExecutionError(Exception):
    """The place where trials run cannot do so; the message says why and what to do."""
