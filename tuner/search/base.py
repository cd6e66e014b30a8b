"""What all samplers share: nothing twice, nothing that a rule rejects, all if the rest fits the budget.

A sampler adds only how it picks. Whatever it does is a function of the seed, the number asked for, what was
told and what is pending, so that another process proposes the same after the same tells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trials.contract import FailureKind, Outcome
from tuner.search.pool import Candidate, Pool
from tuner.search.protocol import Expected, Observation, Proposal, SearchProblem
from tuner.space.space import Config, config_key

# Says nothing about the configuration: somebody stopped the run, or something killed it.
UNINFORMATIVE = frozenset({FailureKind.INTERRUPTED, FailureKind.KILLED})


@dataclass(frozen=True)
class Pick:
    """A candidate, why it was taken, and what was expected of it, as shown by ``show``."""

    candidate: Candidate
    reason: str
    expected: Mapping[str, Expected] | None = None
    probability_ok: float | None = None


class BaseSampler(ABC):
    """A Sampler without its choice: subclasses pick one of the candidates that are left."""

    def __init__(self, problem: SearchProblem) -> None:
        self.problem = problem
        self.seed = problem.seed % 2**63
        self._known: set[str] = set()
        self._unseen: dict[str, Candidate] | None = None  # of a complete pool, by key
        self._baseline: Config | None = None
        self.baseline_values: tuple[float, ...] | None = None
        self._usable: dict[int, Observation] = {}

    @cached_property
    def pool(self) -> Pool:
        """The candidates; listed when first needed."""
        return Pool(self.problem.space, self.seed)

    def tell(self, observation: Observation) -> None:
        """Learn a result; a trial told again (its confirmed values) replaces what was known of it."""
        self._learn_of(config_key(observation.config))
        if observation.number == 0 and observation.values and all(map(math.isfinite, observation.values)):
            self.baseline_values = observation.values
        if not self.pool.is_placeable(observation.config):
            return
        if observation.number == 0:
            self._baseline = observation.config
        is_told = observation.outcome is not Outcome.PRUNED or None not in (observation.partial or (None,))
        if observation.failure_kind not in UNINFORMATIVE and is_told:
            self._usable[observation.number] = observation

    def ask(self, number: int, pending: Sequence[Config]) -> Proposal | None:
        """The configuration for trial ``number``; None when nothing valid is left."""
        for config in pending:
            self._learn_of(config_key(config))
        rng = np.random.default_rng((self.seed, number))
        left = self._left()
        if left is not None and not left:
            return None
        is_last_lap = left is not None and len(left) <= self.problem.budget_trials - number
        picked = (
            self.pick_of_last(left, pending, rng) if left and is_last_lap else self.pick(left, pending, rng)
        )
        picked = picked or self._by_chance(left, rng)
        if picked is None:
            return None
        self._learn_of(picked.candidate.key)
        reason = "exhaustive" if is_last_lap else picked.reason
        return Proposal(picked.candidate.config, reason, picked.expected, picked.probability_ok)

    def rejected(self) -> Mapping[str, int]:
        """How many configurations each rule kept from being proposed, each counted once."""
        return dict(self.pool.rejected)

    @abstractmethod
    def pick(
        self, left: list[Candidate] | None, pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """One that is valid and not known. ``left`` is all there are, or None where they cannot be listed.

        None asks for one by chance.
        """

    def pick_of_last(
        self, left: list[Candidate], pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """One when all that is left will be tried: by chance, the baseline's neighbours first."""
        keys = {candidate.key for candidate in self.around_baseline(rng)}
        near = [candidate for candidate in left if candidate.key in keys]
        return Pick(one_of(near or left, rng), "exhaustive")

    def is_new(self, candidate: Candidate) -> bool:
        """Whether it was never told, proposed or pending."""
        return candidate.key not in self._known

    def around_baseline(self, rng: np.random.Generator) -> list[Candidate]:
        """New candidates one change away from trial 0; none where its configuration is off the grid."""
        if self._baseline is None:
            return []
        return [c for c in self.pool.neighbours(self._baseline, rng) if self.is_new(c)]

    def usable(self) -> list[Observation]:
        """What models may learn from, by number: inside the space, and telling of the configuration."""
        return [self._usable[number] for number in sorted(self._usable)]

    def _learn_of(self, key: str) -> None:
        self._known.add(key)
        if self._unseen is not None:
            self._unseen.pop(key, None)

    def _left(self) -> list[Candidate] | None:
        if not self.pool.is_complete:
            return None
        if self._unseen is None:
            self._unseen = {c.key: c for c in self.pool.candidates if self.is_new(c)}
        return list(self._unseen.values())

    def _by_chance(self, left: list[Candidate] | None, rng: np.random.Generator) -> Pick | None:
        candidate = one_of(left, rng) if left is not None else self.pool.draw_new(self.is_new, rng)
        return None if candidate is None else Pick(candidate, "random")


def one_of(candidates: list[Candidate], rng: np.random.Generator) -> Candidate:
    """One of them, by chance."""
    return candidates[int(rng.integers(len(candidates)))]
