"""A judged study as plain JSON values: what ``tuner show --json`` prints. Keys are public API.

JSON has no NaN: such a number is null, and the metric carries the flag ``not_finite``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from trials.contract import MetricValue
from tuner.comparison import Difference, Estimate
from tuner.records.rows import CONCURRENT, CONTAMINATED, MeasurementRecord
from tuner.results.model import BASELINE, LimitResult, NearestMiss, Recommendation, StudyResult, TrialResult

SCHEMA_VERSION = 1
NOT_FINITE = "not_finite"


def as_json(result: StudyResult) -> dict[str, Any]:
    """The study as maps, lists, strings and finite numbers."""
    record = result.record
    plain = {
        "schema_version": SCHEMA_VERSION,
        "study": result.name,
        "generation": record.generation,
        "created_at": record.created_at.isoformat(),
        "updated_at": record.updated_at.isoformat(),
        "objectives": [{"metric": o.metric, "direction": str(o.direction)} for o in result.objectives],
        "limits": [{"formula": b.formula, "metric": b.metric, "bound": b.value} for b in result.bounds],
        "baseline": BASELINE if result.has_baseline else None,
        "trials": (),  # below, one at a time: made safe all at once, 10,000 of them would take a GiB more
        "front": list(result.front),
        "copies": [list(group) for group in result.copies],
        "recommended": _recommended(result.recommended),
        "nearest_miss": _nearest_miss(result.nearest_miss),
        "counts": {str(outcome): n for outcome, n in result.counts.items()},
        "failures": {str(kind): n for kind, n in result.failures.items()},
        "rejected": dict(record.rejected),
        "noise_floor": dict(result.noise_floor),
        "hypervolume": result.hypervolume,
        "hypervolume_history": [list(point) for point in result.history],
        "reference_point": dict(record.reference_point) if record.reference_point else None,
        "influences": [_influence(item) for item in result.influences],
        "failure_patterns": [
            {"values": dict(p.values), "failed": p.failed, "n": p.n} for p in result.failure_patterns
        ],
        "failure_table": None if result.failure_table is None else asdict(result.failure_table),
        "warnings": list(result.warnings),
        "cut_short": asdict(result.cut_short),
        "stopped_because": record.stopped_because,
    }
    safe: dict[str, Any] = json_safe(plain)
    safe["trials"] = [json_safe(_trial(trial)) for trial in result.trials]
    return safe


def _trial(trial: TrialResult) -> dict[str, Any]:
    return {
        "number": trial.number,
        "outcome": _word(trial.outcome),
        "failure_kind": _word(trial.failure_kind),
        "message": trial.message,
        "proposed_by": trial.proposed_by,
        "is_feasible": trial.is_feasible,
        "is_confirmed": trial.is_confirmed,
        "on_front": trial.on_front,
        "is_tied_with": list(trial.is_tied_with),
        "config": dict(trial.config),
        "changes_from_baseline": list(trial.changes),
        "metrics": {key: plain_estimate(estimate) for key, estimate in trial.estimates.items()},
        "limits": [_limit(limit) for limit in trial.limits],
        "gain": {key: _difference(gain) for key, gain in trial.gain.items()},
        "measurements": [_measurement(run) for run in trial.measurements],
        "phases": dict(trial.phases),
        "log_dir": trial.log_dir,
    }


def plain_estimate(estimate: Estimate) -> dict[str, Any]:
    """A value with its interval, as ``show --json`` and an export write it."""
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "unit": estimate.unit,
        "n_runs": estimate.n_runs,
        "method": estimate.method,
        "flags": list(estimate.flags),
    }


def _measurement(run: MeasurementRecord) -> dict[str, Any]:
    return {
        "measurement_id": run.measurement_id,
        "purpose": str(run.purpose),
        "outcome": _word(run.outcome),
        "failure_kind": _word(run.failure_kind),
        "message": run.message,
        "seed": run.seed,
        "round": run.round_number,
        "is_discarded": run.is_discarded,
        "metrics": {key: _value(metric) for key, metric in run.metrics.items()},
        "phases": dict(run.phases),
        "warnings": list(run.warnings),
        "contaminated": run.facts.get(CONTAMINATED),
        "concurrent_trials": run.facts.get(CONCURRENT, 1),
        "log_dir": run.log_dir,
        "started_at": run.started_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
    }


def _value(metric: MetricValue) -> dict[str, Any]:
    flags = [*metric.flags, *([] if metric.is_finite else [NOT_FINITE])]
    return {
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "n": metric.n,
        "unit": metric.unit,
        "method": metric.method,
        "flags": flags,
    }


def _limit(limit: LimitResult) -> dict[str, Any]:
    return {
        "limit": str(limit.bound),
        "formula": limit.bound.formula,
        "status": str(limit.status),
        "value": limit.value,
        "gap": limit.gap,
    }


def _difference(gain: Difference) -> dict[str, Any]:
    return {
        "kind": "ratio" if gain.is_ratio else "difference",
        "value": gain.value,
        "low": gain.low,
        "high": gain.high,
        "is_beyond_noise": gain.is_beyond_noise,
        "method": gain.method,
    }


def _recommended(found: Recommendation | None) -> dict[str, Any] | None:
    return (
        None
        if found is None
        else {
            "trial": found.trial,
            "reason": found.reason,
            "gives_up": list(found.gives_up),
            "left_out": list(found.left_out),
            "nearest": list(found.nearest),
        }
    )


def _nearest_miss(found: NearestMiss | None) -> dict[str, Any] | None:
    return None if found is None else {"trial": found.trial, "text": str(found), **_limit(found.limit)}


def _influence(item: Any) -> dict[str, Any]:
    return {
        "parameter": item.parameter,
        "metric": item.metric,
        "share": item.share,
        "n": item.n,
        "levels": [{"label": lv.label, "mean": lv.mean, "n": lv.n} for lv in item.levels],
        "rank_correlation": item.rank_correlation,
    }


def _word(value: Any) -> str | None:
    return None if value is None else str(value)


def json_safe(value: Any) -> Any:
    """The same structure without NaN and infinities (null), and with plain keys and lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    return value
