"""How much a candidate is expected to add to the front.

The gain in hypervolume is the mean, over random directions, of the gain in the distance that the front
reaches along a direction (Zhang and Golovin 2020, arXiv 2006.04655). It needs no partition of the dominated
space, holds for any number of objectives, and is the expected improvement where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]


def expected_gain(
    samples: Sequence[Floats], front: Floats, reference: Floats, directions: int, rng: np.random.Generator
) -> Floats:
    """Expected gain of each candidate, up to a constant factor.

    ``samples`` holds for each of m objectives (candidates, samples) possible losses; ``front`` (f, m) and
    ``reference`` (m,) are losses in the same units; ``directions`` is how many to average over.
    """
    m = len(reference)
    reached = np.maximum(reference - front, 0.0)
    span = np.maximum(reached.max(axis=0, initial=0.0), 1e-12)
    # one array for each objective: reductions over a last axis of two are slow
    room = [np.maximum((reference[i] - samples[i]) / span[i], 0.0) for i in range(m)]
    gain = np.zeros(len(samples[0]))
    for direction in _directions(directions, m, rng):
        best = (reached / span / direction).min(axis=1).max(initial=0.0)
        along = reduce(np.minimum, [room[i] / direction[i] for i in range(m)])
        gain += np.maximum(along**m - best**m, 0.0).mean(axis=1)
    return gain


def probability_met(means: Floats, stds: Floats) -> Floats:
    """(n,) probability that a normal violation is <= 0."""
    return np.asarray(ndtr(-means / stds))


def _directions(count: int, m: int, rng: np.random.Generator) -> Floats:
    """Unit vectors of the positive orthant, never along an axis exactly."""
    if m == 1:
        return np.ones((1, 1))
    raw = np.abs(rng.standard_normal((count, m))) + 1e-3
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def normals(count: int, m: int, rng: np.random.Generator) -> Floats:
    """Standard normal samples, evenly spread in each dimension."""
    strata = np.stack([rng.permutation(count) for _ in range(m)], axis=1)
    return np.asarray(ndtri((strata + rng.random((count, m))) / count))
