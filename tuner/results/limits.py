"""Judging one limit on one trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from trials.contract import is_comparable
from tuner.comparison import Estimate, LimitStatus, limit_status, paired_difference
from tuner.objectives import Bound, Constraint, LimitKind
from tuner.records.rows import MeasurementRecord, StudyRecord
from tuner.results.model import LimitResult

Examples = Mapping[str, Mapping[str, Sequence[float]]]
"""Measurement id -> metric -> one number per example, in a fixed order."""


def bounds_of(study: StudyRecord) -> tuple[Bound, ...]:
    """The frozen limits; before the baseline is known, those that do not need it."""
    if study.bounds is not None:
        return study.bounds
    return tuple(c.freeze(None) for c in study.constraints if not c.kind.needs_baseline)


def judge_limit(bound: Bound, estimate: Estimate | None, *, by_interval: bool) -> LimitResult:
    """By the interval of a confirmed value, by the point value before."""
    if estimate is None:
        return LimitResult(bound, LimitStatus.NOT_MET, None, bound.violation(None))
    gap = bound.violation(estimate.value)
    by_point = LimitStatus.MET if gap <= 0 else LimitStatus.NOT_MET
    return LimitResult(bound, limit_status(bound, estimate) if by_interval else by_point, estimate.value, gap)


def on_same_examples(
    bound: Bound,
    constraint: Constraint,
    estimate: Estimate,
    ours: Sequence[MeasurementRecord],
    theirs: Sequence[MeasurementRecord],
    examples: Examples,
) -> Estimate:
    """Where both sides kept per-example results: the frozen baseline plus the paired difference.

    Runs are paired by seed. The interval is the wider of the one over examples and the one over runs: a
    limit that so few examples cannot decide stays undecided. Without such pairs the estimate itself.
    """
    by_seed = {run.seed: examples.get(run.measurement_id, {}).get(bound.metric) for run in theirs}
    pairs = [(examples.get(run.measurement_id, {}).get(bound.metric), by_seed.get(run.seed)) for run in ours]
    same = [(a, b) for a, b in pairs if a and b and len(a) == len(b) and all(map(is_comparable, (*a, *b)))]
    if not same or estimate.low is None or estimate.high is None:
        return estimate
    found = paired_difference(_mean_of([a for a, _ in same]), _mean_of([b for _, b in same]))
    over_examples = 0.0 if found.high is None else found.high - found.value
    reach = max((estimate.high - estimate.low) / 2, over_examples)
    value = _frozen_baseline(bound, constraint) + found.value
    return replace(
        estimate,
        value=value,
        low=value - reach,
        high=value + reach,
        method=f"paired with the baseline, {found.method}",
    )


def _mean_of(runs: Sequence[Sequence[float]]) -> list[float]:
    """Each example's mean over the runs."""
    return [fmean(column) for column in zip(*runs, strict=True)]


def _frozen_baseline(bound: Bound, constraint: Constraint) -> float:
    if constraint.kind in (LimitKind.MAX_RELATIVE, LimitKind.MIN_RELATIVE):
        return bound.value / constraint.amount if constraint.amount else bound.value
    return bound.value - constraint.amount * (1 if constraint.kind is LimitKind.MAX_INCREASE else -1)
