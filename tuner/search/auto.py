"""The sampler used unless another is named: a model of what is unseen, and the expected gain of each point.

The first trials spread over the space, every other one a neighbour of the baseline. Then each objective, each
limit and the risk of failing gets a Gaussian process, and the candidate with the largest expected gain in
hypervolume, times the probability that it runs and meets the limits, is taken; the cheaper of equals first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # ships no types

from tuner.objectives import Objective
from tuner.pareto import reference_point
from tuner.search.base import BaseSampler, Pick
from tuner.search.belief import Belief, Outlook
from tuner.search.features import FeatureMap
from tuner.search.history import History, history_of
from tuner.search.pool import Candidate
from tuner.search.protocol import Expected, SearchProblem
from tuner.space.space import Config

Floats = NDArray[np.float64]
SPREAD_TRIALS = 8  # results before the model proposes
SPREAD_CANDIDATES = 24  # drawn for one spread-out trial: more would push every one into a corner
CANDIDATES = 1_000  # scored per ask
AROUND = 12  # front members whose neighbours are always scored
SHORTLIST = 100  # scored again, more finely
COARSE, FINE = (24, 8), (64, 16)  # directions, and steps along each
COST_WEIGHT = 0.25  # what costs ten times as much must promise 1.8 times the gain
LEAST_CHANCE = 0.5  # of the best chance to run: a likely failure can wait until nothing else is left


class AutoSampler(BaseSampler):
    """Model-based search over the candidates that are left."""

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._features = FeatureMap(self.pool.axes)
        self._belief = Belief(self._features)
        self._threads = (
            ThreadpoolController()
        )  # many small matrices: threads of BLAS would only get in the way

    def pick(
        self, left: list[Candidate] | None, pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """The most promising candidate; spread-out ones and neighbours of the baseline at first."""
        history = history_of(self.usable(), self.problem.objectives)
        placed = [config for config in pending if self.pool.is_placeable(config)]
        if len(history) + len(placed) < SPREAD_TRIALS or len(history) < SPREAD_TRIALS // 2:
            return self._early(left, [*history.configs, *placed], rng)
        candidates = self._candidates(left, history, rng)
        if not candidates:
            return None
        return self._most_promising(candidates, history, placed, rng)

    def pick_of_last(
        self, left: list[Candidate], pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """The most promising first here too: a study may end before its budget."""
        return self.pick(left, pending, rng)

    def _early(
        self, left: list[Candidate] | None, seen: list[Config], rng: np.random.Generator
    ) -> Pick | None:
        near = self.around_baseline(rng) if len(seen) % 2 else []
        drawn = near or self._some(left, SPREAD_CANDIDATES, rng)
        if not drawn:
            return None
        if not seen:
            return Pick(drawn[0], "spread")
        apart = self._features.of_candidates(drawn)[:, None, :] - self._features.of_configs(seen)[None, :, :]
        farthest = int(np.argmax((apart**2).sum(axis=2).min(axis=1)))
        return Pick(drawn[farthest], "neighbour of the baseline" if near else "spread")

    def _candidates(
        self, left: list[Candidate] | None, history: History, rng: np.random.Generator
    ) -> list[Candidate]:
        if left is not None and len(left) <= CANDIDATES:
            return left
        found = {c.key: c for c in self._some(left, CANDIDATES, rng)}
        for row in history.front()[-AROUND:]:
            near = self.pool.neighbours(history.configs[row], rng)
            found.update((c.key, c) for c in near if self.is_new(c))
        return list(found.values())

    def _some(self, left: list[Candidate] | None, count: int, rng: np.random.Generator) -> list[Candidate]:
        """New candidates by chance, distinct, at most ``count``."""
        left = [c for c in self.pool.candidates if self.is_new(c)] if left is None else left
        if len(left) <= count:
            return left
        return [left[i] for i in rng.choice(len(left), count, replace=False)]

    def _most_promising(
        self, candidates: list[Candidate], history: History, pending: list[Config], rng: np.random.Generator
    ) -> Pick:
        x = self._features.of_candidates(candidates)
        with self._threads.limit(limits=1):
            outlook = self._belief.outlook(history, pending, x)
            worth = _worth(outlook)
            reference = self._reference()
            score = worth * outlook.gain(COARSE, reference, rng)
            if score.max() <= 0:  # nothing is expected inside the study's reference
                reference = None
                score = worth * outlook.gain(COARSE, reference, rng)
            short = np.argsort(-score, kind="stable")[:SHORTLIST]
            best = int(short[np.argmax(worth[short] * outlook.of(short).gain(FINE, reference, rng))])
        return self._explained(candidates[best], outlook.of(np.array([best])))

    def _explained(self, candidate: Candidate, outlook: Outlook) -> Pick:
        """``exploit`` where what is expected, with no luck, adds to the front; ``explore`` where it takes luck."""
        chance = float((outlook.runs * outlook.meets)[0])
        if not len(outlook.front):
            return Pick(candidate, "explore", None, chance)
        is_beyond = not (outlook.front <= outlook.means).all(axis=1).any()
        expected = {
            objective.metric: Expected(*_interval(objective, *bounds))
            for objective, bounds in zip(self.problem.objectives, outlook.of_one_run(), strict=True)
        }
        return Pick(candidate, "exploit" if is_beyond and chance >= 0.5 else "explore", expected, chance)

    def _reference(self) -> Floats | None:
        """The corner of the hypervolume that the study reports, as losses; None without a measured baseline."""
        if self.baseline_values is None:
            return None
        objectives = self.problem.objectives
        values = {o.metric: v for o, v in zip(objectives, self.baseline_values, strict=True)}
        corner = reference_point(values, objectives)
        return np.array([o.loss(corner[o.metric]) for o in objectives])


def _worth(outlook: Outlook) -> Floats:
    """What a candidate's gain is multiplied by: its chance to count, less for a high cost, 0 for a bad risk.

    A limit is no such risk: the best often lies at its very edge.
    """
    cheapness = np.exp(-COST_WEIGHT * (outlook.cost - outlook.cost.min()))
    is_fair_risk = outlook.runs >= LEAST_CHANCE * outlook.runs.max()
    return np.where(is_fair_risk, outlook.runs * outlook.meets * cheapness, 0.0)


def _interval(objective: Objective, *losses: float) -> tuple[float, float, float]:
    """Middle, low and high of the metric, from those of the loss."""
    middle, one, other = (objective.direction.sign * loss for loss in losses)
    return middle, min(one, other), max(one, other)
