"""Small studies of known truth, as records: for tests that judge, show or export results."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from trials.contract import FailureKind, MetricValue, Outcome, Purpose
from trials.metrics import Direction, unit_of
from tuner.objectives import Constraint, LimitKind, Objective
from tuner.pareto import reference_point
from tuner.records.rows import MeasurementRecord, StudyRecord, TrialRecord

THROUGHPUT, LOSS = "tokens_per_s", "val_loss_nats"
OBJECTIVES = (Objective(THROUGHPUT, Direction.MAXIMIZE), Objective(LOSS, Direction.MINIMIZE))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

_ids = itertools.count()


def objective(metric: str, direction: str = "maximize") -> Objective:
    return Objective(metric, Direction(direction))


def limit(metric: str, kind: str, amount: float) -> Constraint:
    return Constraint(metric, LimitKind(kind), amount)


def metrics(values: Mapping[str, float | tuple[float, float, float]]) -> dict[str, MetricValue]:
    """Plain numbers, or (value, low, high) where a run knows its interval."""
    made = {}
    for key, given in values.items():
        value, low, high = given if isinstance(given, tuple) else (given, None, None)
        made[key] = MetricValue(value, unit_of(key), n=50, low=low, high=high, method="built")
    return made


def measurement(
    values: Mapping[str, float | tuple[float, float, float]] | None = None,
    purpose: Purpose | str = Purpose.SEARCH,
    *,
    seed: int = 0,
    outcome: Outcome | str | None = Outcome.COMPLETE,
    kind: FailureKind | str | None = None,
    message: str = "",
    round_number: int | None = None,
    is_discarded: bool = False,
) -> MeasurementRecord:
    """One run; by default a complete one of the search."""
    number = next(_ids)
    return MeasurementRecord(
        measurement_id=f"m{number}",
        trial_number=0,
        purpose=Purpose(purpose),
        seed=seed,
        outcome=None if outcome is None else Outcome(outcome),
        failure_kind=None if kind is None else FailureKind(kind),
        message=message,
        metrics=metrics(values or {}),
        phases={"startup_s": 1.0, "measured_s": 5.0},
        proof={},
        facts={},
        environment={"hostname": "builder"},
        warnings=(),
        log_dir=f"/trials/m{number}",
        started_at=NOON,
        ended_at=None if outcome is None else NOON,
        is_discarded=is_discarded,
        round_number=round_number,
    )


def failed(kind: str = "crash", message: str = "exit status 9", **known: Any) -> MeasurementRecord:
    """A run that failed."""
    return measurement(known.pop("values", None), outcome="failed", kind=kind, message=message, **known)


def repeats(
    values: Mapping[str, Sequence[float]], purpose: Purpose | str = Purpose.CONFIRM, first_round: int = 0
) -> list[MeasurementRecord]:
    """Runs with seeds 0, 1, ...; confirmations get round numbers."""
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    is_confirm = Purpose(purpose) is Purpose.CONFIRM
    return [
        measurement(row, purpose, seed=seed, round_number=first_round + seed if is_confirm else None)
        for seed, row in enumerate(rows)
    ]


def trial(
    number: int, *runs: MeasurementRecord, config: Mapping[str, Any] | None = None, by: str = "tpe"
) -> TrialRecord:
    """A configuration with its runs; the default configuration is ``{"x": number}``."""
    owned = tuple(replace(run, trial_number=number) for run in runs)
    return TrialRecord(number, {"x": number} if config is None else dict(config), by, owned)


def baseline(
    values: Mapping[str, Sequence[float]], *more: MeasurementRecord, config: Mapping[str, Any] | None = None
) -> TrialRecord:
    """Trial 0: a discarded cold run, repeats with these values, and further runs."""
    cold = measurement({key: column[0] for key, column in values.items()}, "baseline", is_discarded=True)
    return trial(0, cold, *repeats(values, "baseline"), *more, config=config, by="baseline")


def study(
    *trials: TrialRecord,
    objectives: Sequence[Objective] = OBJECTIVES,
    constraints: Sequence[Constraint] = (),
    is_frozen: bool = True,
    **changed: Any,
) -> StudyRecord:
    """A study whose limits and reference point are frozen at the mean of the baseline's repeats."""
    made = StudyRecord(
        name="built",
        generation=1,
        created_at=NOON,
        updated_at=NOON,
        file_text="study: built\n",
        file_path="/spaces/space.yaml",
        definition={},
        objectives=tuple(objectives),
        constraints=tuple(constraints),
        bounds=None,
        reference_point=None,
        rejected={},
        stopped_because=None,
        trials=trials,
    )
    if is_frozen and trials:
        runs = [
            run for run in trials[0].measurements if run.purpose is Purpose.BASELINE and not run.is_discarded
        ]
        keys = {key for run in runs for key in run.metrics}
        means = {key: sum(run.metrics[key].value for run in runs) / len(runs) for key in keys}
        bounds = tuple(c.freeze(means.get(c.metric)) for c in constraints)
        made = replace(made, bounds=bounds, reference_point=reference_point(means, objectives))
    return replace(made, **changed)
