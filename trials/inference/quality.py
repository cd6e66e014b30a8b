"""Quality of the outputs that were timed, and how much of the float32 reference's it keeps, on the same examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.measurement.statistics import SAME_EXAMPLES, mean_of, recovery, wilson
from trials.metrics import CATALOGUE, Direction, Key, unit_of

RECOVERY = "_recovery_pct"


def scores_of(task: Any, outputs: Mapping[str, np.ndarray], examples: int) -> dict[str, np.ndarray]:
    """Metric key -> one number per example; TrialFailure naming the method where it gives something else."""
    found = task.score(outputs)
    wanted = f"a dict of metric -> array with one number for each of the {examples} examples"
    if not isinstance(found, Mapping) or not found:
        raise _wrong(task, f"returned {type(found).__name__}; it must return {wanted}")
    scores = {str(key): np.asarray(values, dtype=np.float64) for key, values in found.items()}
    for key, values in scores.items():
        if values.shape != (examples,):
            raise _wrong(task, f"returned shape {values.shape} for {key}; it must return {wanted}")
        if not np.isfinite(values).all():
            raise TrialFailure(FailureKind.NON_FINITE, f"{key} is not finite for some examples")
    return scores


def qualities(scores: Mapping[str, np.ndarray]) -> dict[str, MetricValue]:
    """The means of the scores."""
    return {
        key: mean_of(values.tolist(), unit_of(key), "evaluation examples") for key, values in scores.items()
    }


def recoveries(
    scores: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> dict[str, MetricValue]:
    """``<metric>_recovery_pct`` of every score that is better when larger."""
    return {
        f"{key}{RECOVERY}": recovery(values.tolist(), reference[key].tolist())
        for key, values in scores.items()
        if key in reference and not (key in CATALOGUE and CATALOGUE[key].direction is Direction.MINIMIZE)
        if reference[key].mean() > 0
    }


def agreement(
    task: Any, outputs: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> MetricValue:
    """Share of the examples with the same answer as the reference."""
    same = np.asarray(_predictions(task, outputs)) == np.asarray(_predictions(task, reference))
    share, n = float(np.mean(same)), len(same)
    low, high = wilson(share, n)
    key = Key.PREDICTION_AGREEMENT_PCT
    method = f"share of {n} examples answered as the float32 reference does; Wilson interval"
    return MetricValue(100 * share, unit_of(key), n, 100 * low, 100 * high, method, (SAME_EXAMPLES,))


def _predictions(task: Any, outputs: Mapping[str, np.ndarray]) -> Any:
    if hasattr(task, "predictions"):
        return task.predictions(outputs)
    first = next(iter(outputs.values()))
    return first.argmax(axis=-1) if first.ndim > 1 else first


def _wrong(task: Any, what: str) -> TrialFailure:
    return TrialFailure(FailureKind.CRASH, f"{type(task).__name__}.score {what}")
