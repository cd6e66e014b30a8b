"""Dominance, the front, its hypervolume and its knee, over losses (smaller is better in every column).

Dominance is strict: a point dominates another when it is nowhere worse and somewhere better, so a tie on one
objective keeps no dominated point, and exact copies are all kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trials.contract import is_comparable
from tuner.objectives import Objective

Losses = NDArray[np.float64]


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """True when ``one`` is nowhere worse and somewhere better than ``other``."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def front_indices(losses: ArrayLike, confirmed: Sequence[bool] | None = None) -> list[int]:
    """The rows that no other row dominates, ascending. Losses must be finite.

    With ``confirmed``, an unconfirmed row never dominates a confirmed one: a lucky single run does not push
    out a point that was measured again.
    """
    rows = _rows(losses)
    if len(rows) == 0:
        return []
    kept = _undominated(rows)
    if confirmed is not None:
        sure = np.flatnonzero(np.asarray(confirmed, dtype=bool))
        kept[sure] = _undominated(rows[sure]) if len(sure) else kept[sure]
    return [int(index) for index in np.flatnonzero(kept)]


def copies(losses: ArrayLike) -> list[tuple[int, ...]]:
    """Groups of rows with exactly the same losses, in order of their first row (most hold one row)."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for index, row in enumerate(_rows(losses)):
        groups.setdefault(tuple(map(float, row)), []).append(index)
    return [tuple(group) for group in groups.values()]


def hypervolume(losses: ArrayLike, reference: ArrayLike) -> float:
    """The exact volume between points and reference; points that do not beat it everywhere add nothing.

    Slices along the last objective and recurses: exact, and quick enough for fronts of up to four objectives.
    """
    rows, corner = _rows(losses), np.asarray(reference, dtype=float)
    if len(rows) == 0:
        return 0.0
    rows = rows[(rows < corner).all(axis=1)]
    return _volume(rows, corner) if len(rows) else 0.0


class FrontTracker:
    """A front and its hypervolume, point by point: each new point costs its own exclusive volume only."""

    def __init__(self, reference: Sequence[float]) -> None:
        self._corner = np.asarray(reference, dtype=float)
        self._members = np.empty((0, len(self._corner)))
        self.hypervolume = 0.0

    def add(self, losses: Sequence[float]) -> float:
        """Take a point in and return the hypervolume; a point outside the reference changes nothing."""
        point = np.asarray(losses, dtype=float)
        near, kept_before, kept_after = self._around(point)
        if (point < self._corner).all() and not (near <= point).all(axis=1).any():
            covered = hypervolume(np.maximum(near, point), self._corner)
            self.hypervolume += float(np.prod(self._corner - point)) - covered
            self._members = np.concatenate([kept_before, point[np.newaxis], kept_after])
        return self.hypervolume

    def copy(self) -> FrontTracker:
        """Another tracker that goes on from here."""
        other = FrontTracker(self._corner.tolist())
        other._members, other.hypervolume = self._members.copy(), self.hypervolume
        return other

    def _around(self, point: Losses) -> tuple[Losses, Losses, Losses]:
        """The members that share volume with the point, and those that stay before and after it.

        Two objectives make a staircase, kept sorted: only steps under the point and the two beside it matter.
        """
        members = self._members
        if members.shape[1] != 2:
            return members, members[~(point <= members).all(axis=1)], members[:0]
        left = int(np.searchsorted(members[:, 0], point[0]))
        right = int(np.searchsorted(members[:, 0], point[0], side="right"))
        after = int(np.searchsorted(-members[:, 1], -point[1], side="right"))
        return members[max(0, right - 1) : max(right, after) + 1], members[:left], members[after:]


def hypervolume_history(losses: Sequence[Sequence[float] | None], reference: Sequence[float]) -> list[float]:
    """The hypervolume after each point in turn; None (failed, infeasible) leaves it as it was."""
    tracker = FrontTracker(reference)
    return [tracker.hypervolume if loss is None else tracker.add(loss) for loss in losses]


def reference_point(
    baseline_values: Mapping[str, float], objectives: Sequence[Objective]
) -> dict[str, float]:
    """The worst corner that still counts, by metric, in the metric's unit; recorded once, never moved.

    Rule: the baseline made worse by its own magnitude. A throughput or accuracy to maximise gives 0, a
    latency or loss to minimise twice the baseline, -3 to maximise gives -6, and a baseline of 0 is made
    worse by 1. So the baseline always contributes, and so does all that is better than nothing on one axis.
    ValueError where the baseline has no finite value of an objective.
    """
    point = {}
    for objective in objectives:
        value = baseline_values.get(objective.metric, math.nan)
        if not is_comparable(value):
            raise ValueError(
                f"the baseline has no finite {objective.metric}: there is no reference for hypervolume"
            )
        point[objective.metric] = value + objective.direction.sign * (abs(value) or 1.0)
    return point


def knee_order(losses: ArrayLike, resolution: Sequence[float] | None = None) -> list[float]:
    """A score per row, smallest at the knee: distance to the ideal point, objectives scaled by their span.

    ``resolution`` is the smallest span that means something, by objective, so that noise on a flat axis is
    not blown up to the size of a real trade-off. Where two points are the whole front both lie at distance
    1: scores that agree to nine digits are told apart by what the point gives up relative to the best
    value.
    """
    rows = _rows(losses)
    if len(rows) == 0:
        return []
    ideal = rows.min(axis=0)
    away = rows - ideal
    span = away.max(axis=0)
    if resolution is not None:
        span = np.maximum(span, np.asarray(resolution, dtype=float))
    distance = np.sqrt(((away / np.where(span > 0, span, 1.0)) ** 2).sum(axis=1))
    size = np.maximum(np.abs(rows), np.abs(ideal))
    given_up = (away / np.where(size > 0, size, 1.0)).sum(axis=1)
    return [float(value) for value in np.round(distance, 9) + 1e-9 * given_up / (2.0 * rows.shape[1] + 1.0)]


def _rows(losses: ArrayLike) -> Losses:
    rows = np.asarray(losses, dtype=float)
    return rows if rows.ndim == 2 else rows.reshape(len(rows), -1 if rows.size else 0)


def _undominated(rows: Losses) -> NDArray[np.bool_]:
    """A mask; copies share their fate. In lexicographic order only an earlier row can dominate."""
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    kept = np.zeros(len(distinct), dtype=bool)
    if rows.shape[1] == 1:
        kept[0] = True
    elif rows.shape[1] == 2:
        best_before = np.concatenate([[np.inf], np.minimum.accumulate(distinct[:, 1])[:-1]])
        kept = distinct[:, 1] < best_before
    else:
        members = np.empty_like(distinct)
        count = 0
        for index, row in enumerate(distinct):
            if not (members[:count] <= row).all(axis=1).any():
                members[count], kept[index], count = row, True, count + 1
    result: NDArray[np.bool_] = kept[which.reshape(-1)]
    return result


def _volume(rows: Losses, corner: Losses) -> float:
    """Volume of rows that all lie inside the corner."""
    dimensions = rows.shape[1]
    if dimensions == 1:
        return float(corner[0] - rows.min())
    rows = np.unique(rows[_undominated(rows)], axis=0)
    if dimensions == 2:
        heights = np.concatenate([[corner[1]], rows[:-1, 1]]) - rows[:, 1]
        return float(((corner[0] - rows[:, 0]) * heights).sum())
    rows = rows[np.argsort(rows[:, -1], kind="stable")]
    edges = np.append(rows[1:, -1], corner[-1])
    total = 0.0
    for index, depth in enumerate(edges - rows[:, -1]):
        if depth > 0:
            total += float(depth) * _volume(rows[: index + 1, :-1], corner[:-1])
    return total
