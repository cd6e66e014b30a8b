"""Which configurations the measurements do not tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from trials.contract import Purpose
from tuner.comparison import gain_over_baseline
from tuner.objectives import Objective
from tuner.records.rows import StudyRecord
from tuner.results.model import BASELINE, TrialResult
from tuner.results.runs import is_confirmation, runs_behind
from tuner.rounds import Rounds

_MOST_COMPARED = 60
"""Ties are looked for among so many trials at most: every pair is compared."""
Layouts = Mapping[Objective, Rounds]
"""By objective, its values in the interleaved rounds."""


def layouts_of(study: StudyRecord) -> Layouts:
    """Each objective's values in the interleaved rounds of a study."""
    return {objective: _rounds(study, objective) for objective in study.objectives}


def ties(trials: Sequence[TrialResult], layouts: Layouts) -> dict[int, list[int]]:
    """Pairs that no objective tells apart, among the confirmed, the front and the baseline."""
    able = [t for t in trials if t.may_be_on_front and (t.is_confirmed or t.on_front or t.number == BASELINE)]
    able.sort(key=lambda trial: (not trial.is_confirmed, trial.number))
    found: dict[int, list[int]] = {}
    for one, other in combinations(sorted(able[:_MOST_COMPARED], key=lambda t: t.number), 2):
        if is_tie(one, other, layouts):
            found.setdefault(one.number, []).append(other.number)
            found.setdefault(other.number, []).append(one.number)
    return found


def is_tie(one: TrialResult, other: TrialResult, layouts: Layouts) -> bool:
    """True when no objective tells two complete trials apart."""
    return not any(_differ(one, other, objective, layout) for objective, layout in layouts.items())


def _differ(one: TrialResult, other: TrialResult, objective: Objective, layout: Rounds) -> bool:
    ours, theirs = one.estimates[objective.metric], other.estimates[objective.metric]
    difference = layout.difference(one.number, other.number) or gain_over_baseline(ours, theirs)
    if difference.low is None:  # nothing is known about noise: only equal values are a tie
        return ours.value != theirs.value
    return difference.is_beyond_noise


def _rounds(study: StudyRecord, objective: Objective) -> Rounds:
    """By confirmed trial, the objective's value in each interleaved round (by seed where none is noted)."""
    values: dict[int, dict[int, float]] = {}
    for trial in study.trials:
        runs = (
            runs_behind(trial, study) if any(r.purpose is Purpose.CONFIRM for r in trial.measurements) else []
        )
        if is_confirmation(runs):
            values[trial.number] = {
                run.seed if run.round_number is None else run.round_number: run.metrics[
                    objective.metric
                ].value
                for run in runs
            }
    return Rounds(values)
