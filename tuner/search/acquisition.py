"""How much a candidate is expected to add to the front.

The gain in hypervolume is the mean, over random directions, of the gain in the distance that the front
reaches along a direction (Zhang and Golovin 2020, arXiv 2006.04655). It needs no partition of the dominated
space, holds for any number of objectives, and is the expected improvement where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
_HOPE = 3.0  # standard deviations that a candidate may be better than expected
_LEAST_ROOM, _FAR = 0.01, 100.0  # spans, of what the gain is integrated over


class Monotone(Protocol):
    """An increasing scale of losses."""

    def apply(self, losses: Floats) -> Floats:
        """The scaled losses."""
        ...

    def invert(self, scaled: Floats) -> Floats:
        """The losses of scaled ones."""
        ...


def expected_gain(
    means: Floats, stds: Floats, scales: Sequence[Monotone], front: Floats, reference: Floats,
    sizes: tuple[int, int], rng: np.random.Generator,
) -> Floats:  # fmt: skip
    """(n,) expected gain of each candidate, up to a constant factor.

    ``means``, ``stds`` (n, m) are normal beliefs about the scaled losses, ``scales`` how a loss is scaled; ``front``
    (f, m) and ``reference`` (m,) are losses. ``sizes``: how many directions, and steps along each. The integral is
    over the probability of reaching beyond the front, which is exact in the tails: where every gain is small, the
    largest is still found.
    """
    m = len(reference)
    reached = np.maximum(reference - front, 0.0)
    span = np.maximum(reached.max(axis=0, initial=0.0), 1e-12)
    directions = _directions(sizes[0], m, rng)
    along = _along(directions, reached / span, _farthest(means, stds, scales, reference, span), sizes[1])
    chance = np.ones((len(means), along.size))
    for i, scale in enumerate(scales):
        beyond = scale.apply((reference[i] - along * directions[:, [i]] * span[i]).ravel())
        chance *= ndtr((beyond - means[:, [i]]) / stds[:, [i]])
    # trapezoids: half of each step goes to either end
    widths = np.diff(along**m, axis=1) / 2
    weights = np.pad(widths, ((0, 0), (0, 1))) + np.pad(widths, ((0, 0), (1, 0)))
    return np.asarray(chance @ weights.ravel())


def _along(directions: Floats, reached: Floats, farthest: Floats, steps: int) -> Floats:
    """(directions, steps + 1) distances from the reference: where the front is, and further out."""
    fronts = [(reached / direction).min(axis=1).max(initial=0.0) for direction in directions]
    room = np.maximum((farthest / directions).min(axis=1) - fronts, _LEAST_ROOM)
    # closer together near the front, where most gains lie
    outwards = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, steps)])
    return np.asarray(np.array(fronts)[:, None] + room[:, None] * outwards)


def _farthest(
    means: Floats, stds: Floats, scales: Sequence[Monotone], reference: Floats, span: Floats
) -> Floats:
    """(m,) how far from the reference the most hopeful candidate may lie, in spans."""
    hopeful = (means - _HOPE * stds).min(axis=0)
    losses = [float(scale.invert(hopeful[[i]])[0]) for i, scale in enumerate(scales)]
    return np.asarray(np.minimum((reference - np.array(losses)) / span, _FAR))


def probability_met(means: Floats, stds: Floats) -> Floats:
    """(n,) probability that a normal violation is <= 0."""
    return np.asarray(ndtr(-means / stds))


def _directions(count: int, m: int, rng: np.random.Generator) -> Floats:
    """Unit vectors of the positive orthant, never along an axis exactly."""
    if m == 1:
        return np.ones((1, 1))
    raw = np.abs(rng.standard_normal((count, m))) + 1e-3
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))
