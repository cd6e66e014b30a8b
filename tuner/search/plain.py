"""Samplers without a model: by chance, and in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.search.base import BaseSampler, Pick
from tuner.search.pool import Candidate
from tuner.search.protocol import SearchProblem
from tuner.space.space import Config


class RandomSampler(BaseSampler):
    """Every valid configuration equally likely, none twice."""

    def pick(
        self, left: list[Candidate] | None, pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """Leaves it to chance."""
        return None


class GridSampler(BaseSampler):
    """In the order of the file, the last parameter changing fastest."""

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        endless = [p.name for p in problem.space.parameters if p.domain.count() is None]
        if endless:
            raise ValueError(
                f"search.sampler=grid needs a finite space, and {', '.join(endless)} is continuous; "
                "give it a step or choices, or use sampler: auto"
            )

    def pick(
        self, left: list[Candidate] | None, pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """The first that is left."""
        first = left[0] if left is not None else self.pool.next_in_order(self.is_new)
        return None if first is None else Pick(first, "grid")

    def pick_of_last(
        self, left: list[Candidate], pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """The first that is left: a grid keeps its order."""
        return Pick(left[0], "grid")
