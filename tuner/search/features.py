"""Configurations as vectors: ordered axes by their coordinate, unordered choices one column each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tuner.search.axes import Axis
from tuner.search.pool import Candidate
from tuner.space.space import Config, config_key

REMEMBERED = 50_000  # vectors; what was forgotten is computed again
_CHOSEN = 0.5**0.5  # so that two different choices are at distance 1, as the two ends of a range are


class FeatureMap:
    """Vectors of configurations, remembered. ``group[c]`` is the axis that column c belongs to."""

    def __init__(self, axes: tuple[Axis, ...]) -> None:
        self._axes = axes
        self._widths = [1 if axis.is_ordered else len(axis.values or ()) for axis in axes]
        self.group = np.repeat(np.arange(len(axes)), self._widths)
        self._starts = np.cumsum([0, *self._widths])
        self._seen: dict[str, NDArray[np.float64]] = {}

    def of_candidates(self, candidates: Iterable[Candidate]) -> NDArray[np.float64]:
        """(n, columns)."""
        return np.array([self._row(c.key, c.config) for c in candidates]).reshape(-1, len(self.group))

    def of_configs(self, configs: Iterable[Config]) -> NDArray[np.float64]:
        """(n, columns)."""
        return np.array([self._row(config_key(c), c) for c in configs]).reshape(-1, len(self.group))

    def _row(self, key: str, config: Config) -> NDArray[np.float64]:
        if key not in self._seen:
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[key] = self._encoded(config)
        return self._seen[key]

    def _encoded(self, config: Config) -> NDArray[np.float64]:
        """An inactive parameter stands in the middle of its range, or at none of its choices."""
        row = np.zeros(len(self.group))
        for axis, start in zip(self._axes, self._starts[:-1], strict=True):
            if axis.is_ordered:
                row[start] = axis.coordinate(config[axis.name]) if axis.name in config else 0.5
            elif axis.name in config:
                row[start + axis.index_of(config[axis.name])] = _CHOSEN
        return row
