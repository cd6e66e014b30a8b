"""The configurations that may be proposed: all of them where they can be listed, else a seeded sample."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.search.axes import axes_of
from tuner.space.space import Config, Space, config_key

ENUMERATE_AT_MOST = 100_000  # configurations before rules that are looked at, one by one or drawn
SAMPLE_SIZE = 3_000  # valid ones of a space that is not listed
DRAWS = 2_000  # in search of one more valid configuration
SCAN_AT_MOST = 1_000_000  # looked at in file order when draws find nothing: valid points may be very rare


@dataclass(frozen=True)
class Candidate:
    """A valid configuration and its key."""

    key: str
    config: Config


class Pool:
    """Valid configurations of a space. ``is_complete``: every one is in ``candidates``.

    A function of (space, seed) alone, so that a resumed study sees the same pool.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.axes = space, axes_of(space)
        self.candidates: list[Candidate] = []
        self.rejected: Counter[str] = Counter()
        self._row_of: dict[str, int] = {}
        self._judged: set[str] = set()
        self._scan: Iterator[Config] | None = None
        self.is_finite = all(axis.parameter.domain.count() is not None for axis in self.axes)
        size = space.size() if self.is_finite else None
        self.is_complete = size is not None and size <= ENUMERATE_AT_MOST
        for config in space.configs() if self.is_complete else self._sample(seed):
            self.admit(config)
            if len(self.candidates) == SAMPLE_SIZE and not self.is_complete:
                break

    def row(self, key: str) -> int | None:
        """Where a configuration stands in ``candidates``."""
        return self._row_of.get(key)

    def admit(self, config: Config) -> Candidate | None:
        """The configuration as a candidate, or None where a rule rejects it (counted once)."""
        key = config_key(config)
        if key in self._row_of:
            return self.candidates[self._row_of[key]]
        candidate = self._valid(key, config)
        if candidate is not None:
            self._row_of[key] = len(self.candidates)
            self.candidates.append(candidate)
        return candidate

    def judge(self, config: Config) -> Candidate | None:
        """As ``admit``, but the pool does not grow."""
        key = config_key(config)
        row = self._row_of.get(key)
        return self.candidates[row] if row is not None else self._valid(key, config)

    def is_placeable(self, config: Mapping[str, Any]) -> bool:
        """Whether a told configuration lies on the axes; a baseline off the grid does not."""
        return self.space.contains(config) and all(
            a.holds(config[a.name]) for a in self.axes if a.name in config
        )

    def draw(self, rng: np.random.Generator) -> Config:
        """A configuration by chance, rules aside."""
        return self.space.configure({axis.name: axis.draw(rng) for axis in self.axes})

    def draw_new(self, is_new: Callable[[Candidate], bool], rng: np.random.Generator) -> Candidate | None:
        """A new valid configuration where the pool is not complete; None where none is found."""
        for _ in range(DRAWS):
            candidate = self.judge(self.draw(rng))
            if candidate is not None and is_new(candidate):
                return candidate
        return self.next_in_order(is_new) if self.is_finite else None

    def next_in_order(self, is_new: Callable[[Candidate], bool]) -> Candidate | None:
        """The next new valid configuration in the order of the file, or None after ``SCAN_AT_MOST``."""
        if self._scan is None:
            self._scan = itertools.islice(self.space.configs(), SCAN_AT_MOST)
        for config in self._scan:
            candidate = self.judge(config)
            if candidate is not None and is_new(candidate):
                return candidate
        return None

    def neighbours(self, config: Mapping[str, Any], rng: np.random.Generator) -> list[Candidate]:
        """Valid configurations that differ in one parameter (and what hangs on it), in the file's order."""
        filled = {axis.name: config.get(axis.name, axis.draw(rng)) for axis in self.axes}
        found: dict[str, Candidate] = {}
        for axis in self.axes:
            for value in axis.neighbours(config[axis.name], rng) if axis.name in config else ():
                candidate = self.judge(self.space.configure({**filled, axis.name: value}))
                if candidate is not None:
                    found.setdefault(candidate.key, candidate)
        return list(found.values())

    def _sample(self, seed: int) -> Iterator[Config]:
        rng = np.random.default_rng((seed, 0x5EED))
        return (self.draw(rng) for _ in range(ENUMERATE_AT_MOST))

    def _valid(self, key: str, config: Config) -> Candidate | None:
        rejection = self.space.rejection(config)
        if rejection is None:
            return Candidate(key, config)
        if key not in self._judged:
            self._judged.add(key)
            self.rejected[rejection.rule] += 1
        return None
