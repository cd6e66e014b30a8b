"""Interleaved rounds A B C A B C: who differs from whom, and whether anyone won."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from tuner import student_t
from tuner.comparison import Difference, difference_of, log_ratio, standard_deviation
from tuner.objectives import Objective

_FOREIGN_PAIR = 1.8
"""A pair this many times noisier than all pairs together is judged by its own scatter alone."""


@dataclass(frozen=True)
class Verdict:
    """Who won: ``winner`` is None for a tie; ``best`` has the best mean; ``tied`` cannot be told from it."""

    winner: int | None
    best: int
    tied: tuple[int, ...]
    p_values: Mapping[int, float]


class Rounds:
    """Interleaved rounds: by trial, its value in each round it took part in.

    Values of one round share seed and time of day, so they are compared within the round. The scatter of
    those differences is pooled over all pairs of trials (three rounds of two trials alone would leave two
    degrees of freedom), unless a pair is much noisier than the others. Positive values are compared as
    ratios.
    """

    def __init__(self, values: Mapping[int, Mapping[int, float]]) -> None:
        self._values = values
        self.is_ratio = all(value > 0 for by_round in values.values() for value in by_round.values())
        self._pairs = {(a, b): self._between(a, b) for a, b in combinations(sorted(values), 2)}
        usable = [pair for pair in self._pairs.values() if len(pair) >= 2]
        weight = sum(len(pair) - 1 for pair in usable)
        self._variance = (
            sum(standard_deviation(p) ** 2 * (len(p) - 1) for p in usable) / weight if weight else None
        )
        # all pairs of k trials in r rounds hold (k - 1)(r - 1) independent differences
        self._degrees = weight * 2 / len(values) if weight else 0.0

    def difference(self, ours: int, theirs: int) -> Difference | None:
        """``ours`` against ``theirs``; None with fewer than two rounds in common."""
        found = self._mean_and_error(ours, theirs)
        if found is None:
            return None
        mean, error, degrees = found
        return difference_of(mean, error, degrees, self.is_ratio, "interleaved rounds")

    def p_better(self, ours: int, theirs: int, objective: Objective) -> float:
        """One-sided p value of 'ours is no better than theirs'; 1 with fewer than two rounds in common."""
        found = self._mean_and_error(ours, theirs)
        if found is None:
            return 1.0
        mean, error, degrees = found
        ahead = -objective.loss(mean)
        if error == 0:
            return 0.0 if ahead > 0 else 1.0
        return 1.0 - student_t.cdf(ahead / error, degrees)

    def _mean_and_error(self, ours: int, theirs: int) -> tuple[float, float, float] | None:
        pair = self._between(ours, theirs)
        if len(pair) < 2 or self._variance is None:
            return None
        own = standard_deviation(pair) ** 2
        is_foreign = own > _FOREIGN_PAIR**2 * self._variance
        variance, degrees = (
            (own, len(pair) - 1.0) if is_foreign else (self._variance, max(1.0, self._degrees))
        )
        return fmean(pair), math.sqrt(variance / len(pair)), degrees

    def _between(self, ours: int, theirs: int) -> list[float]:
        one, other = self._values.get(ours, {}), self._values.get(theirs, {})
        common = sorted(one.keys() & other.keys())
        if self.is_ratio:
            return [log_ratio(one[r], other[r]) for r in common]
        return [one[r] - other[r] for r in common]


def name_winner(
    rounds: Mapping[int, Mapping[int, float]], objective: Objective, level: float = 0.05
) -> Verdict:
    """The trial that beats every other beyond doubt, or a tie.

    The best mean is tested one-sided against each other trial, with Holm's correction over the finalists.
    It was picked after looking, any of them could have been it, so each test runs at half the level: among
    equals a winner is named in at most ``level`` of studies. ValueError without a trial that has a value.
    """
    means = {trial: fmean(by_round.values()) for trial, by_round in rounds.items() if by_round}
    if not means:
        raise ValueError("no finalist has a value in any round")
    best = min(means, key=lambda trial: (objective.loss(means[trial]), trial))
    layout = Rounds({trial: rounds[trial] for trial in means})
    p_values = {other: layout.p_better(best, other, objective) for other in sorted(means) if other != best}
    tied = _not_rejected(p_values, level / 2)
    return Verdict(best if len(means) > 1 and not tied else None, best, tied, p_values)


def _not_rejected(p_values: Mapping[int, float], level: float) -> tuple[int, ...]:
    """Holm: smallest p first, each against level / (hypotheses left); all after the first failure stand."""
    order = sorted(p_values, key=lambda trial: (p_values[trial], trial))
    for done, trial in enumerate(order):
        if p_values[trial] > level / (len(order) - done):
            return tuple(sorted(order[done:]))
    return ()
