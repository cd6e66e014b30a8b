"""What ``--more N`` makes of the budget."""

from __future__ import annotations

from dataclasses import replace

from tuner.cli.text import plural, shown_duration
from tuner.space.model import StudyFile


def with_more(file: StudyFile, known: int, more: int, spent: float = 0.0) -> tuple[StudyFile, str]:
    """The file with ``more`` trials to run on top of the ``known``, and what that means, in one line.

    They get the file's wall time once more, whatever the ``spent`` seconds were: a share of it might not hold
    one trial and its confirmation. ``no_gain`` is left aside, since it may be why the study ended.
    """
    budget = file.budget
    left_aside = "; budget.no_gain does not end them" if budget.no_gain is not None else ""
    said = "without a limit in time"
    limit_s = None
    if budget.wall_time_s is not None:
        limit_s = spent + budget.wall_time_s
        said = f"in at most {shown_duration(budget.wall_time_s)} (budget.wall_time once more)"
    longer = replace(budget, trials=known + more, wall_time_s=limit_s, no_gain=None)
    return replace(file, budget=longer), f"--more {more}: {plural(more, 'further trial')} {said}{left_aside}"
