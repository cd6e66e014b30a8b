"""What was told, as arrays that models learn from, and the part of it that is worth learning from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trials.contract import Outcome
from tuner.objectives import Objective
from tuner.pareto import front_indices
from tuner.search.protocol import Observation
from tuner.space.space import Config

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class History:
    """n observations by number: ``losses`` (n, objectives), smaller is better, NaN where ``is_failed``;
    ``violations`` (n, limits), <= 0 is met, infinite where unknown, NaN where ``is_failed``; ``costs_s``
    (n,). ``errors`` (n, objectives) are standard errors, 0 where unknown.
    """

    configs: tuple[Config, ...]
    losses: Floats
    violations: Floats
    is_failed: Bools
    costs_s: Floats
    errors: Floats

    def __len__(self) -> int:
        return len(self.configs)

    @property
    def is_feasible(self) -> Bools:
        """Complete, and every limit met."""
        met: Bools = ~self.is_failed & (self.violations <= 0).all(axis=1)
        return met

    def take(self, rows: Sequence[int]) -> History:
        """The same for some rows only."""
        index = np.asarray(rows, dtype=np.intp)
        return History(
            tuple(self.configs[i] for i in rows),
            self.losses[index],
            self.violations[index],
            self.is_failed[index],
            self.costs_s[index],
            self.errors[index],
        )

    def front(self) -> list[int]:
        """The rows of feasible observations that no feasible one dominates."""
        rows = np.flatnonzero(self.is_feasible)
        return [int(rows[i]) for i in front_indices(self.losses[rows])]

    def windowed(self, limit: int) -> History:
        """At most ``limit`` rows: half of them the front and the best, the others the most recent.

        Why: what a model costs grows with the square or cube of what it is told, and old mediocre trials
        teach it little that the recent ones do not.
        """
        if len(self) <= limit:
            return self
        best = self.front()[-limit // 4 :] + [int(i) for i in np.argsort(self._badness(), kind="stable")]
        kept = set(list(dict.fromkeys(best))[: limit // 2])
        for row in reversed(range(len(self))):
            if len(kept) == limit:
                break
            kept.add(row)
        return self.take(sorted(kept))

    def _badness(self) -> Floats:
        """Mean rank over the objectives; what is not feasible comes after everything that is."""
        filled = np.where(np.isnan(self.losses), np.inf, self.losses)
        ranks = filled.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable").mean(axis=1)
        worse: Floats = ranks + len(self) * ~self.is_feasible
        return worse


def history_of(observations: Iterable[Observation], objectives: Sequence[Objective]) -> History:
    """The arrays of these observations, in their order. A value that is not finite counts as a failure; a trial
    that was cut short before there was a guess of every objective tells nothing.
    """
    told = [o for o in observations if o.outcome is not Outcome.PRUNED or None not in (o.partial or (None,))]
    limits = max((len(o.violations) for o in told), default=0)
    nothing = (math.nan,) * len(objectives), (math.nan,) * limits
    rows = [_row(o, objectives, limits) or nothing for o in told]
    losses = np.array([row[0] for row in rows], dtype=float).reshape(len(told), len(objectives))
    violations = np.array([row[1] for row in rows], dtype=float).reshape(len(told), limits)
    costs = np.array([o.cost_s for o in told], dtype=float)
    is_failed = np.isnan(losses).any(axis=1)
    return History(
        tuple(o.config for o in told), losses, violations, is_failed, costs, _errors(told, losses.shape)
    )


def _errors(told: list[Observation], shape: tuple[int, ...]) -> Floats:
    """What is not known, or not a size, is taken for exact."""
    errors = np.zeros(shape)
    for row, observation in enumerate(told):
        for column, error in enumerate(observation.errors):
            errors[row, column] = error if error is not None and 0 < error < math.inf else 0.0
    return errors


def _row(
    observation: Observation, objectives: Sequence[Objective], limits: int
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Losses and violations; a limit that says nothing (NaN, or not given) counts as unknown: infinite.

    Of a trial that was cut short, the guesses stand for the losses, and no limit tells anything: NaN.
    """
    is_cut = observation.outcome is Outcome.PRUNED
    values = observation.partial if is_cut else observation.values or ()
    known = [v for v in values if v is not None and math.isfinite(v)]
    if len(known) != len(objectives):
        return None
    losses = tuple(objective.loss(v) for objective, v in zip(objectives, known, strict=True))
    if is_cut:
        return losses, (math.nan,) * limits
    violations = tuple(math.inf if math.isnan(v) else v for v in observation.violations)
    return losses, violations + (math.inf,) * (limits - len(violations))


def imputed_losses(history: History) -> Floats:
    """The losses with failures filled in as a tenth of the range worse than the worst that was measured."""
    measured = history.losses[~history.is_failed]
    if not len(measured):
        return np.ones_like(history.losses)
    worst, best = measured.max(axis=0), measured.min(axis=0)
    bad = worst + 0.1 * np.where(worst > best, worst - best, np.abs(worst) + 1.0)
    return np.where(history.is_failed[:, None], bad, history.losses)


def imputed_violations(history: History) -> Floats:
    """(n, limits) finite violations in units of each limit's largest; unknown ones 1, those of failures 0."""
    filled = history.violations.copy()
    for limit in range(filled.shape[1]):
        finite = filled[np.isfinite(filled[:, limit]), limit]
        filled[:, limit] /= float(np.abs(finite).max(initial=0.0)) or 1.0
    filled[np.isposinf(filled)] = 1.0
    return np.nan_to_num(filled, nan=0.0)
