"""Optuna's samplers behind the protocol. The study is in memory, rebuilt for each ask from what was told.

Nothing is stored: the records are the truth. What Optuna must never see (NaN, infinities, interrupted runs,
values outside the space) is kept from it here; a failure is told as completed, bad and infeasible, because a
trial told as failed is ignored, and the sampler then keeps proposing its neighbours.
"""

from __future__ import annotations

import json
import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from tuner.search.axes import Axis
from tuner.search.base import BaseSampler, Pick, one_of
from tuner.search.history import History, history_of, imputed_losses, imputed_violations
from tuner.search.pool import Candidate
from tuner.space.space import Config

STARTUP = 10  # results before the model proposes
NEAR_SAMPLE = 1_000  # candidates among which the nearest is looked for


class OptunaSampler(BaseSampler):
    """Asks an optuna sampler until it says something new and valid."""

    name: str
    window: int  # observations told
    redraws: int  # asks of one study before the nearest candidate, or one by chance, is taken

    def pick(
        self, left: list[Candidate] | None, pending: Sequence[Config], rng: np.random.Generator
    ) -> Pick | None:
        """Optuna's proposal, or the candidate nearest to it; None in the first trials."""
        usable = self.usable()
        if len(usable) < STARTUP:
            return None
        history = history_of(usable, self.problem.objectives).windowed(self.window)
        with quiet_optuna():
            study = self._study(history, pending, int(rng.integers(2**31)))
            for _ in range(self.redraws):
                config = self._suggest(study.ask(), rng)
                candidate = self.pool.judge(config)
                if candidate is not None and self.is_new(candidate):
                    return Pick(candidate, self.name)
        return Pick(self._nearest(config, left, rng), f"{self.name}, nearest") if left else None

    @abstractmethod
    def build(self, seed: int, history: History) -> optuna.samplers.BaseSampler:
        """The optuna sampler for one ask."""

    def system_attrs(self, row: int) -> dict[str, Any]:
        """What the sampler wants to find noted on the ``row``-th trial."""
        return {}

    def _study(self, history: History, pending: Sequence[Config], seed: int) -> optuna.Study:
        study = optuna.create_study(
            directions=["minimize"] * len(self.problem.objectives), sampler=self.build(seed, history)
        )
        losses, constraints = imputed_losses(history), _constraints(history)
        for row, config in enumerate(history.configs):
            study.add_trial(
                optuna.create_trial(
                    state=TrialState.COMPLETE,
                    values=losses[row].tolist(),
                    constraints={name: float(column[row]) for name, column in constraints.items()},
                    system_attrs=self.system_attrs(row),
                    **self._placed(config),
                )
            )
        for config in pending:
            if self.pool.is_placeable(config):
                study.add_trial(optuna.create_trial(state=TrialState.RUNNING, **self._placed(config)))
        return study

    def _placed(self, config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        active = [axis for axis in self.pool.axes if axis.name in config]
        return {
            "params": {axis.name: _position(axis, config[axis.name]) for axis in active},
            "distributions": {axis.name: _distribution(axis) for axis in active},
        }

    def _suggest(self, trial: optuna.Trial, rng: np.random.Generator) -> Config:
        """Draws the active parameters, each after those that its condition names."""
        space = self.problem.space
        values = {axis.name: axis.draw(rng) for axis in self.pool.axes}
        for axis in self.pool.axes:
            if axis.parameter.when is None or axis.name in space.configure(values):
                values[axis.name] = _suggested(trial, axis)
        return space.configure(values)

    def _nearest(self, config: Config, left: list[Candidate], rng: np.random.Generator) -> Candidate:
        """The candidate with the fewest and smallest differences: the proposal's intent, made possible."""
        if len(left) > NEAR_SAMPLE:
            left = [left[i] for i in rng.choice(len(left), NEAR_SAMPLE, replace=False)]
        distances = [sum(_distance(axis, config, c.config) for axis in self.pool.axes) for c in left]
        nearest = min(distances)
        return one_of([c for c, distance in zip(left, distances, strict=True) if distance == nearest], rng)


class TpeSampler(OptunaSampler):
    """Tree-structured Parzen estimator over all parameters jointly."""

    name = "tpe"
    window = 150
    redraws = 10

    def build(self, seed: int, history: History) -> optuna.samplers.BaseSampler:
        """Grouped by condition where there are conditional parameters."""
        is_conditional = any(axis.parameter.when is not None for axis in self.pool.axes)
        return optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=0,
            multivariate=True,
            group=is_conditional,
            warn_independent_sampling=False,
        )


class GpSampler(OptunaSampler):
    """Optuna's Gaussian process. Loads torch, and is the only thing that does so in the driver."""

    name = "gp"
    window = 100
    redraws = 2

    def build(self, seed: int, history: History) -> optuna.samplers.BaseSampler:
        """Results are noisy; torch is kept to one thread so that nothing works beside a measured window."""
        sampler = optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=0, deterministic_objective=False, warn_independent_sampling=False
        )
        torch = sys.modules.get("torch")  # loaded by the line above
        if torch is not None:
            torch.set_num_threads(1)
        return sampler


class Nsga2Sampler(OptunaSampler):
    """NSGA-II in small generations: the usual 50 would spend a whole budget on the first one."""

    name = "nsga2"
    window = 160
    redraws = 30
    population = 16

    def build(self, seed: int, history: History) -> optuna.samplers.BaseSampler:
        """Generations follow the order of the trials."""
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=self.population)

    def system_attrs(self, row: int) -> dict[str, Any]:
        """The generation: optuna notes it when it proposes, and this study was not proposed by it."""
        return {optuna.samplers.NSGAIISampler._get_generation_key(): row // self.population}


def _constraints(history: History) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Named constraint columns, <= 0 is met; the same for every trial, none where nothing is limited."""
    named = {f"limit_{i}": column for i, column in enumerate(imputed_violations(history).T)}
    if history.is_failed.any():
        named["failed"] = np.where(history.is_failed, 1.0, -1.0)
    return named


def _distribution(axis: Axis) -> BaseDistribution:
    """Choices by their index; grids and powers of two by their place; long and continuous ranges in 0..1."""
    if axis.values is None or _is_uneven(axis):
        return FloatDistribution(0.0, 1.0)
    if axis.is_ordered:
        return IntDistribution(0, len(axis.values) - 1)
    return CategoricalDistribution(tuple(range(len(axis.values))))


def _is_uneven(axis: Axis) -> bool:
    """A listed range whose places do not follow its scale: whole numbers on a log scale."""
    return getattr(axis.parameter.domain, "scale", None) == "log"


def _position(axis: Axis, value: Any) -> Any:
    if axis.values is None or _is_uneven(axis):
        return axis.coordinate(value)
    return axis.place(value) if axis.is_ordered else axis.index_of(value)


def _suggested(trial: optuna.Trial, axis: Axis) -> Any:
    distribution = _distribution(axis)
    if isinstance(distribution, FloatDistribution):
        return axis.value_at(trial.suggest_float(axis.name, 0.0, 1.0))
    assert axis.values is not None
    if isinstance(distribution, IntDistribution):
        return axis.in_order[trial.suggest_int(axis.name, 0, distribution.high)]
    return axis.values[int(trial.suggest_categorical(axis.name, tuple(range(len(axis.values)))))]


def _distance(axis: Axis, a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    if axis.name not in a or axis.name not in b:
        return float((axis.name in a) != (axis.name in b))
    if axis.is_ordered:
        return abs(axis.coordinate(a[axis.name]) - axis.coordinate(b[axis.name]))
    return float(json.dumps(a[axis.name]) != json.dumps(b[axis.name]))


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna's remarks are about its own options, and its experimental warnings are known to us."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(level)
