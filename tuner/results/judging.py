"""Judging a study: every trial by itself, then all of them against each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from trials.contract import Outcome
from tuner.comparison import Difference, noise_floor
from tuner.pareto import copies, front_indices, hypervolume, hypervolume_history
from tuner.records.rows import StudyRecord
from tuner.results.insight import failure_patterns, failure_table, influences
from tuner.results.limits import Examples
from tuner.results.model import BASELINE, NearestMiss, StudyResult, TrialResult
from tuner.results.recommend import recommend
from tuner.results.remarks import remarks
from tuner.results.runs import search_losses, valid_runs
from tuner.results.saved import cut_short
from tuner.results.ties import Layouts, layouts_of, ties
from tuner.results.trial import Yardstick, judge_one
from tuner.space.model import Selection

NOT_MEASURED = "running"
"""How `StudyResult.counts` calls a trial without an outcome."""


def judge(
    study: StudyRecord, examples: Examples | None = None, selection: Selection | None = None
) -> StudyResult:
    """The verdicts on a study as recorded.

    ``examples`` are per-example qualities of measurements, where they were kept. ``selection`` is the rule
    of the recommendation, by default the one noted with the study. ValueError where that rule cannot be
    read.
    """
    yardstick = Yardstick.of(study, examples or {})
    trials = [judge_one(trial, yardstick) for trial in study.trials]
    front = _front(trials)
    trials = _compared(study, trials, front)
    result = StudyResult(
        record=study,
        bounds=yardstick.bounds,
        trials=tuple(trials),
        front=tuple(trials[index].number for index in front),
        copies=_copies([trials[index] for index in front]),
        counts=dict(Counter(trial.outcome or NOT_MEASURED for trial in trials)),
        failures=dict(Counter(trial.failure_kind for trial in trials if trial.failure_kind)),
        noise_floor=_noise_floor(study),
        hypervolume=_hypervolume(study, [trials[index] for index in front]),
        history=_history(study, yardstick),
        nearest_miss=_nearest_miss(trials),
        influences=influences(trials, study.objectives),
        failure_patterns=failure_patterns(trials),
        failure_table=failure_table(trials),
        warnings=remarks(study, trials),
        cut_short=cut_short(study, trials),
    )
    return replace(result, recommended=recommend(result, selection))


def judge_trial(study: StudyRecord, number: int) -> TrialResult:
    """One trial without the others: quick, but whether it is on the front stays open. KeyError if unknown."""
    trial = next((trial for trial in study.trials if trial.number == number), None)
    if trial is None:
        raise KeyError(f"study {study.name} has no trial {number}")
    return judge_one(trial, Yardstick.of(study, {}))


def _front(trials: Sequence[TrialResult]) -> list[int]:
    """Positions of the front's members."""
    able = [index for index, trial in enumerate(trials) if trial.may_be_on_front]
    losses = [trials[index].point for index in able]
    return [able[i] for i in front_indices(losses, [trials[index].is_confirmed for index in able])]


def _copies(members: Sequence[TrialResult]) -> tuple[tuple[int, ...], ...]:
    groups = copies([member.point for member in members])
    return tuple(tuple(members[i].number for i in group) for group in groups if len(group) > 1)


def _compared(study: StudyRecord, trials: list[TrialResult], front: Sequence[int]) -> list[TrialResult]:
    """Marks the front and its ties, and takes gains from the interleaved rounds where there are any."""
    layouts = layouts_of(study)
    judged = list(trials)
    for index in front:
        judged[index] = replace(judged[index], on_front=True)
    for index, trial in enumerate(judged):
        if trial.is_confirmed and trial.number != BASELINE:
            judged[index] = replace(trial, gain=_paired_gain(trial, layouts))
    tied = ties(judged, layouts)
    return [replace(t, is_tied_with=tuple(tied[t.number])) if t.number in tied else t for t in judged]


def _paired_gain(trial: TrialResult, layouts: Layouts) -> dict[str, Difference]:
    paired = {o.metric: layout.difference(trial.number, BASELINE) for o, layout in layouts.items()}
    return {key: paired.get(key) or unpaired for key, unpaired in trial.gain.items()}


def _noise_floor(study: StudyRecord) -> dict[str, float]:
    baseline = next((trial for trial in study.trials if trial.number == BASELINE), None)
    return noise_floor(valid_runs(baseline, study)) if baseline else {}


def _reference(study: StudyRecord) -> list[float] | None:
    point = study.reference_point
    return [o.loss(point[o.metric]) for o in study.objectives] if point else None


def _hypervolume(study: StudyRecord, members: Sequence[TrialResult]) -> float | None:
    reference = _reference(study)
    return None if reference is None else hypervolume([member.point for member in members], reference)


def _history(study: StudyRecord, yardstick: Yardstick) -> tuple[tuple[int, float], ...]:
    reference = _reference(study)
    if reference is None:
        return ()
    losses = [search_losses(trial, study, yardstick.bounds) for trial in study.trials]
    numbers = [trial.number for trial in study.trials]
    return tuple(zip(numbers, hypervolume_history(losses, reference), strict=True))


def _nearest_miss(trials: Sequence[TrialResult]) -> NearestMiss | None:
    """The trial whose worst limit is broken least, as a share of it; None where something is feasible."""
    complete = [trial for trial in trials if trial.outcome is Outcome.COMPLETE]
    if not complete or any(trial.is_feasible for trial in complete):
        return None
    worst = {
        t.number: max(t.limits, key=lambda limit: _share(limit.gap, limit.bound.value)) for t in complete
    }
    nearest = min(worst, key=lambda number: (_share(worst[number].gap, worst[number].bound.value), number))
    return NearestMiss(nearest, worst[nearest])


def _share(gap: float, bound: float) -> float:
    return gap / abs(bound) if bound and math.isfinite(gap) else gap
