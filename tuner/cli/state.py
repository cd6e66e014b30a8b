"""Whether a study runs now, has stopped, or was interrupted: what ``show`` says last, and ``list`` beside each."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.records.owner import Owner
    from tuner.records.rows import StudyRecord


def state_of(study: StudyRecord, runner: Owner | None) -> str:
    """One line; ``runner`` is the process that runs the study now, None where none does."""
    open_runs = [run for trial in study.trials for run in trial.measurements if run.outcome is None]
    names = ", ".join(f"trial {run.trial_number} ({run.purpose})" for run in open_runs)
    if runner is not None:
        return f"{running_by(runner)}{f'; under way: {names}' if names else ''}"
    if study.stopped_because is not None:
        return f"stopped: {study.stopped_because}"
    how = (
        f"interrupted: {names} under way when its run ended"
        if names
        else "not finished, and no process runs it"
    )
    return f"{how}; go on with: tuner run {shlex.quote(study.file_path)}"


def running_by(runner: Owner) -> str:
    """``running now: process 17 on node3, started ...``, as far as that can be seen from here."""
    doubt = "" if runner.is_gone() is False else ", which cannot be seen from here"
    return f"running now: {runner}{doubt}"
