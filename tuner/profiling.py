"""Where the time of the baseline goes, without a study: one cold run, then one with a profiled pass behind it."""

from __future__ import annotations

import time
from pathlib import Path

from trials.contract import Measurement, Outcome, Purpose
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import ExecutionError, Executor, Job, Signal
from tuner.launch import TRIALS_FOLDER, slots_of
from tuner.loop.tickets import Ticket, trial_spec
from tuner.results.model import BASELINE
from tuner.space.model import StudyFile

RUNS = 2


class ProfileError(Exception):
    """The baseline could not be measured; the message says why."""


def profile_baseline(file: StudyFile, folder: Path, executor: Executor | None = None) -> Measurement:
    """The measurement of the file's baseline; its facts hold ``breakdown``, ``bottleneck``, ``knobs_to_search``.

    Trial folders go below ``folder``; nothing is recorded. ProfileError where it fails.
    """
    source = _Runs(file, folder / TRIALS_FOLDER / file.name / time.strftime("profile-%Y%m%d-%H%M%S"))
    try:
        (executor or LocalExecutor()).run(source, slots_of(file))
    except ExecutionError as problem:
        raise ProfileError(str(problem)) from problem
    run = source.measured
    if run is None or run.outcome is not Outcome.COMPLETE:
        why = "it was interrupted" if run is None else f"{run.failure_kind}: {run.message}"
        raise ProfileError(f"the baseline failed: {why}; log: {source.folder}")
    return run


class _Runs:
    """The same run twice, as a source of jobs: caches are cold in the first one."""

    def __init__(self, file: StudyFile, folder: Path) -> None:
        self._file, self.folder = file, folder
        self._given = 0
        self.measured: Measurement | None = None

    def next_job(self, running: int) -> Job | Signal:
        if running:
            return Signal.WAIT
        has_failed = self.measured is not None and self.measured.outcome is not Outcome.COMPLETE
        if self._given >= RUNS or has_failed:
            return Signal.FINISHED
        self._given += 1
        ticket = Ticket(BASELINE, Purpose.BASELINE, self._file.search.seed, is_cold=self._given == 1)
        folder = self.folder / str(self._given)
        return Job(trial_spec(self._file, ticket, self._file.baseline, f"profile-{self._given}", folder))

    def on_result(self, job: Job, measurement: Measurement) -> None:
        self.measured = measurement

    def must_stop(self) -> bool:
        return False

    def look(self) -> None:
        """Two runs are followed by nobody."""
