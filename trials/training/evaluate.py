"""Held-out quality of the model that was trained and timed, in the same precision, one number per sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.measurement.statistics import mean_of
from trials.metrics import unit_of
from trials.training.data import batches_in_order, to_device
from trials.training.precision import Precision
from trials.training.task import Task, wrong_return
from trials.training.world import World


def score_all(
    task: Task,
    model: nn.Module,
    world: World,
    precision: Precision,
    batch_size: int,
    data: Any,
    at_most: int | None,
) -> dict[str, list[float]]:
    """Metric key -> the score of each held-out sample of ``data``, in its order.

    The eager module is asked even where its compiled twin was trained: the weights are the same, and other
    shapes would be compiled anew.
    """
    scores: dict[str, list[float]] = {}
    model.eval()
    with torch.inference_mode():
        for batch, count in batches_in_order(task, data, batch_size, at_most):
            moved = to_device(batch, world.device, precision.batch_dtype)
            with precision.casting(world.device_type):
                found = task.score(model, moved)
            for key, values in _checked(task, found, count).items():
                scores.setdefault(key, []).extend(values)
    model.train()
    return scores


def quality(task: Task, scores: Mapping[str, list[float]]) -> dict[str, MetricValue]:
    """Means of the scores with intervals, and what the task's ``summary`` adds; ``non_finite`` where one is
    not.
    """
    found = {key: mean_of(values, unit_of(key), "held-out samples") for key, values in scores.items()}
    if hasattr(task, "summary"):
        added = task.summary({key: torch.tensor(values) for key, values in scores.items()})
        n = len(next(iter(scores.values())))
        found |= {
            key: MetricValue(float(value), unit_of(key), n, method="summary by the task")
            for key, value in added.items()
        }
    for key, metric in found.items():
        if not math.isfinite(metric.value):
            raise TrialFailure(FailureKind.NON_FINITE, f"{key} is {metric.value} on the held-out samples")
    return found


def _checked(task: Task, found: Any, count: int) -> dict[str, list[float]]:
    """Scores as plain numbers; a failure that names the method where it is no mapping or has other
    lengths.
    """
    wanted = f"a dict of metric -> tensor with one number for each of the {count} samples of the batch"
    if not isinstance(found, Mapping) or not found:
        raise wrong_return(task, "score", found, wanted)
    for values in found.values():
        if not isinstance(values, Tensor) or values.shape != (count,):
            raise wrong_return(task, "score", values, wanted)
    return {str(key): values.double().tolist() for key, values in found.items()}
