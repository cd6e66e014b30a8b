"""Which runs of a trial may speak for it, and what sets its configuration apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from trials.contract import FailureKind, Outcome, Purpose
from tuner.objectives import Bound, why_invalid
from tuner.records.rows import MeasurementRecord, StudyRecord, TrialRecord

RUNS_TO_CONFIRM = 2


def valid_runs(trial: TrialRecord, study: StudyRecord) -> list[MeasurementRecord]:
    """The runs that may speak for a trial: complete, kept, every objective finite, not a later verify."""
    return [
        run
        for run in trial.measurements
        if run.outcome is Outcome.COMPLETE
        and not run.is_discarded
        and run.purpose is not Purpose.VERIFY
        and why_no_values(run, study) is None
    ]


def runs_behind(trial: TrialRecord, study: StudyRecord) -> list[MeasurementRecord]:
    """The runs that give a trial's values: the confirmations alone once there are enough of them.

    The search run was picked for being good, so it flatters.
    """
    runs = valid_runs(trial, study)
    confirmations = [run for run in runs if run.purpose is Purpose.CONFIRM]
    return confirmations if len(confirmations) >= RUNS_TO_CONFIRM else runs


def is_confirmation(runs: Sequence[MeasurementRecord]) -> bool:
    """Whether these runs confirm a value."""
    return len(runs) >= RUNS_TO_CONFIRM and all(run.purpose is Purpose.CONFIRM for run in runs)


def search_values(trial: TrialRecord, study: StudyRecord) -> dict[str, float] | None:
    """Point values before any confirmation, for the hypervolume's history. None unless complete."""
    runs = [run for run in valid_runs(trial, study) if run.purpose is not Purpose.CONFIRM]
    if not runs:
        return None
    wanted = [o.metric for o in study.objectives] + [c.metric for c in study.constraints]
    found = {
        key: [r.metrics[key].value for r in runs if key in r.metrics and r.metrics[key].is_finite]
        for key in wanted
    }
    return {key: fmean(values) for key, values in found.items() if values}


def search_losses(
    trial: TrialRecord, study: StudyRecord, bounds: Sequence[Bound]
) -> tuple[float, ...] | None:
    """The objectives before any confirmation, smaller is better; None unless complete and within ``bounds``."""
    values = search_values(trial, study)
    if values is None or any(bound.violation(values.get(bound.metric)) > 0 for bound in bounds):
        return None
    return tuple(objective.loss(values[objective.metric]) for objective in study.objectives)


def changes(config: Mapping[str, Any], baseline: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the parameters that differ; 1, 1.0 and true are three values, inactive is one as well."""
    names = [*baseline, *(name for name in config if name not in baseline)]
    return tuple(name for name in names if level(config, name) != level(baseline, name))


def level(config: Mapping[str, Any], name: str) -> tuple[str, Any]:
    """A parameter's value as a hashable key that keeps 1, 1.0 and true apart."""
    if name not in config:
        return ("inactive", None)
    value = config[name]
    if isinstance(value, list | tuple | dict):
        return ("json", json.dumps(value, sort_keys=True, default=str))
    return (type(value).__name__, value)


def why_no_values(run: MeasurementRecord, study: StudyRecord) -> tuple[FailureKind, str] | None:
    """Why a run has no objective values although it ended well; None where it has."""
    return why_invalid(study.objectives, {key: metric.value for key, metric in run.metrics.items()})
