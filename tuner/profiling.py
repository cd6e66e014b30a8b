"""Where the time of the baseline goes, without a study: one cold run, then one with a profiled pass behind it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from trials.contract import Measurement, Outcome, Purpose
from tuner.aside import run_aside
from tuner.execution.protocol import ExecutionError
from tuner.launch import TRIALS_FOLDER, slots_of
from tuner.loop.tickets import Ticket, trial_spec
from tuner.results.model import BASELINE
from tuner.space.model import StudyFile

PROGRAM = "trials"


class ProfileError(Exception):
    """The baseline could not be measured; the message says why."""


def profile_baseline(file: StudyFile, folder: Path) -> Measurement:
    """The measurement of the file's baseline; its facts hold ``breakdown``, ``bottleneck``, ``knobs_to_search``.

    Trial folders go below ``folder``; nothing is recorded. ProfileError where it fails.
    """
    trials = folder / TRIALS_FOLDER / file.name / time.strftime("profile-%Y%m%d-%H%M%S")
    try:
        _run(file, trials / "1", is_cold=True)
        return _run(file, trials / "2", is_cold=False)
    except ExecutionError as problem:
        raise ProfileError(str(problem)) from problem


def _run(file: StudyFile, folder: Path, *, is_cold: bool) -> Measurement:
    ticket = Ticket(BASELINE, Purpose.BASELINE, file.search.seed, is_cold=is_cold)
    spec = trial_spec(file, ticket, file.baseline, f"profile-{folder.name}", folder)
    run = run_aside(PROGRAM, spec, replace(slots_of(file), count=1))
    if run.outcome is not Outcome.COMPLETE:
        raise ProfileError(f"the baseline failed: {run.failure_kind}: {run.message}; log: {folder}")
    return run
