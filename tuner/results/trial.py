"""Judging one trial: what its runs say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trials.contract import FailureKind, Outcome, Purpose
from tuner.comparison import (
    Difference,
    Estimate,
    LimitStatus,
    Spread,
    gain_over_baseline,
    pool,
    spread_between,
)
from tuner.objectives import Bound
from tuner.records.rows import MeasurementRecord, StudyRecord, TrialRecord
from tuner.results.limits import Examples, bounds_of, judge_limit, on_same_examples
from tuner.results.model import BASELINE, LimitResult, TrialResult
from tuner.results.runs import changes, is_confirmation, runs_behind, valid_runs, why_no_values


@dataclass(frozen=True)
class Yardstick:
    """What every trial is judged by: limits, and the baseline with its spreads (empty until measured)."""

    study: StudyRecord
    bounds: tuple[Bound, ...]
    examples: Examples
    config: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[MeasurementRecord, ...] = ()
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    estimates: Mapping[str, Estimate] = field(default_factory=dict)

    @classmethod
    def of(cls, study: StudyRecord, examples: Examples) -> Yardstick:
        """The yardstick of a study."""
        bare = cls(study, bounds_of(study), examples)
        baseline = next((trial for trial in study.trials if trial.number == BASELINE), None)
        if baseline is None:
            return bare
        everything = valid_runs(baseline, study)
        found = {key: spread_between(everything, key) for key in _metrics(everything)}
        spreads = {key: spread for key, spread in found.items() if spread is not None}
        runs = runs_behind(baseline, study)
        estimates = _estimates(runs, spreads)
        return replace(bare, config=baseline.config, runs=tuple(runs), spreads=spreads, estimates=estimates)


def judge_one(trial: TrialRecord, yardstick: Yardstick) -> TrialResult:
    """A trial by itself; whether it is on the front is decided among all."""
    study = yardstick.study
    runs = runs_behind(trial, study)
    is_confirmed = is_confirmation(runs)
    estimates = _estimates(runs, yardstick.spreads)
    limits = tuple(
        judge_limit(bound, _limited(bound, estimates, runs, yardstick), by_interval=is_confirmed)
        for bound in yardstick.bounds
    )
    outcome, kind, message, shown = _ending(trial, runs, study)
    return TrialResult(
        number=trial.number,
        config=trial.config,
        proposed_by=trial.proposed_by,
        outcome=outcome,
        failure_kind=kind,
        message=message,
        estimates=estimates,
        losses=tuple(o.loss(estimates[o.metric].value) for o in study.objectives) if runs else None,
        limits=limits if runs else (),
        is_feasible=_is_feasible(trial.number, limits) if runs else None,
        is_confirmed=is_confirmed,
        is_reliable=_is_reliable(trial, runs),
        changes=changes(trial.config, yardstick.config),
        gain=_gain(trial.number, estimates, yardstick),
        phases=shown.phases if shown else {},
        log_dir=shown.log_dir if shown else "",
        measurements=trial.measurements,
    )


def _is_feasible(number: int, limits: Sequence[LimitResult]) -> bool:
    """By the value; the noise of the baseline alone does not make it break a limit that was drawn from it."""
    if number == BASELINE:
        return all(limit.status is not LimitStatus.NOT_MET for limit in limits)
    return all(limit.gap <= 0 for limit in limits)


def _metrics(runs: Sequence[MeasurementRecord]) -> list[str]:
    return list(dict.fromkeys(key for run in runs for key in run.metrics))


def _estimates(runs: Sequence[MeasurementRecord], spreads: Mapping[str, Spread]) -> dict[str, Estimate]:
    found = {key: pool(runs, key, spreads.get(key)) for key in _metrics(runs)}
    return {key: estimate for key, estimate in found.items() if estimate is not None}


def _ending(
    trial: TrialRecord, runs: Sequence[MeasurementRecord], study: StudyRecord
) -> tuple[Outcome | None, FailureKind | None, str, MeasurementRecord | None]:
    """Outcome, failure kind, message, and the measurement that shows it."""
    if runs:
        return Outcome.COMPLETE, None, "", runs[0]
    ended = [r for r in trial.measurements if r.outcome is not None and not r.is_discarded]
    ended = ended or [r for r in trial.measurements if r.outcome not in (None, Outcome.COMPLETE)]
    if not ended:
        return None, None, "", trial.measurements[-1] if trial.measurements else None
    last = ended[-1]
    if last.outcome is not Outcome.COMPLETE:
        return last.outcome, last.failure_kind, last.message, last
    kind, message = why_no_values(last, study) or (None, last.message)
    return Outcome.FAILED, kind, message, last


def _is_reliable(trial: TrialRecord, runs: Sequence[MeasurementRecord]) -> bool:
    """False when confirming failed at least as often as it worked (an interruption is nobody's fault)."""
    failed = sum(
        run.purpose is Purpose.CONFIRM
        and run.outcome is Outcome.FAILED
        and not run.is_discarded
        and run.failure_kind is not FailureKind.INTERRUPTED
        for run in trial.measurements
    )
    return failed == 0 or sum(run.purpose is Purpose.CONFIRM for run in runs) > failed


def _gain(number: int, estimates: Mapping[str, Estimate], yardstick: Yardstick) -> dict[str, Difference]:
    if number == BASELINE:
        return {}
    return {
        o.metric: gain_over_baseline(estimates[o.metric], yardstick.estimates[o.metric])
        for o in yardstick.study.objectives
        if o.metric in estimates and o.metric in yardstick.estimates
    }


def _limited(
    bound: Bound, estimates: Mapping[str, Estimate], runs: Sequence[MeasurementRecord], yardstick: Yardstick
) -> Estimate | None:
    """What a limit is held against: the estimate, or its distance from the baseline on the same examples."""
    estimate = estimates.get(bound.metric)
    if estimate is None or not yardstick.examples or not is_confirmation(runs):
        return estimate
    constraint = next((c for c in yardstick.study.constraints if c.formula == bound.formula), None)
    if constraint is None or not constraint.kind.needs_baseline:
        return estimate
    return on_same_examples(bound, constraint, estimate, runs, yardstick.runs, yardstick.examples)
