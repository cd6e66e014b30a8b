"""The strategies that are compared. Each asks for a configuration and is told what the table says of it.

``random``                          every row equally likely, none twice
``tpe-stock nsga2-stock gp-stock``  Optuna's samplers as they come: they spend trials on duplicates and on combinations
                                    that do not exist, which are told as failed trials
``tpe nsga2 gp``                    the same behind this project's protocol: nothing twice, nothing impossible
``climb``, ``weighted-tpe``         Model Analyzer's two rules, restated from the description in its documentation
``auto``                            this project's own
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from tests.benchmarks.search.tables import Benchmark
from tuner.search.axes import Axis, axes_of
from tuner.search.protocol import Observation, SearchProblem
from tuner.search.registry import build_sampler
from tuner.space.space import Config, config_key

BUDGET = 100  # trials that a sampler is told it has
EARLY_EXIT = 10  # trials without a better score
LEAST_SHARE, MOST_SHARE = 0.05, 0.10  # of the space, between which the weighted rule stops


class Strategy(Protocol):
    """Proposes configurations; None ends the search."""

    def ask(self, number: int) -> Config | None: ...

    def tell(self, observation: Observation) -> None: ...


class Product:
    """A sampler of this project by name."""

    def __init__(self, name: str, benchmark: Benchmark, seed: int) -> None:
        self._sampler = build_sampler(
            name, SearchProblem(benchmark.space, benchmark.objectives, seed, BUDGET)
        )

    def ask(self, number: int) -> Config | None:
        proposal = self._sampler.ask(number, [])
        return None if proposal is None else proposal.config

    def tell(self, observation: Observation) -> None:
        self._sampler.tell(observation)


class Chance:
    """The rows in random order."""

    def __init__(self, benchmark: Benchmark, seed: int) -> None:
        rows = list(benchmark.space.configs())
        self._order = iter([rows[i] for i in np.random.default_rng(seed).permutation(len(rows))])
        self._known: set[str] = set()

    def ask(self, number: int) -> Config | None:
        return next((config for config in self._order if config_key(config) not in self._known), None)

    def tell(self, observation: Observation) -> None:
        self._known.add(config_key(observation.config))


class Stock:
    """An Optuna sampler with its defaults on the whole grid of the parameters."""

    def __init__(
        self, build: Callable[[int], optuna.samplers.BaseSampler], benchmark: Benchmark, seed: int
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._objectives, self._axes = benchmark.objectives, axes_of(benchmark.space)
        self._study = optuna.create_study(
            directions=["minimize"] * len(self._objectives), sampler=build(seed)
        )
        self._running: optuna.Trial | None = None

    def ask(self, number: int) -> Config | None:
        self._running = self._study.ask({axis.name: _distribution(axis) for axis in self._axes})
        return {axis.name: _listed(axis)[self._running.params[axis.name]] for axis in self._axes}

    def tell(self, observation: Observation) -> None:
        if self._running is None:  # the baseline
            self._study.enqueue_trial({a.name: _place(a, observation.config[a.name]) for a in self._axes})
            self.ask(0)
        trial, self._running = self._running, None
        assert trial is not None
        if observation.values is None:
            self._study.tell(trial, state=TrialState.FAIL)
            return
        for i, violation in enumerate(observation.violations):
            trial.set_constraint(f"limit_{i}", violation)
        pairs = zip(self._objectives, observation.values, strict=True)
        self._study.tell(trial, [objective.loss(value) for objective, value in pairs])


class Score:
    """One number from all objectives: the mean gain relative to the baseline, each weighing the same.

    What fails or breaks a limit scores below everything that does not.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self._objectives = benchmark.objectives
        self._base: tuple[float, ...] = ()

    def of(self, observation: Observation) -> float:
        if observation.values is None:
            return -math.inf
        self._base = self._base or observation.values  # the baseline is told first
        pairs = zip(self._objectives, observation.values, self._base, strict=True)
        gain = sum((o.loss(base) - o.loss(value)) / (abs(base) or 1.0) for o, value, base in pairs)
        broken = sum(max(0.0, v) for v in observation.violations)
        return gain / len(self._objectives) if broken == 0 else -1e6 - broken


class Climb:
    """Hill climbing in powers of two from the smallest configuration: measures the neighbours of the best one (ordered
    parameters a power of two up or down, other choices for the rest), moves to the best, ends where none is better.
    """

    def __init__(self, benchmark: Benchmark, seed: int) -> None:
        self._benchmark, self._score = benchmark, Score(benchmark)
        self._axes = axes_of(benchmark.space)
        self._ladders = [_powers(axis) if axis.is_ordered else list(axis.values or ()) for axis in self._axes]
        self._scores: dict[str, float] = {}
        self._plan = self._climb()

    def ask(self, number: int) -> Config | None:
        return next(self._plan, None)

    def tell(self, observation: Observation) -> None:
        self._scores[config_key(observation.config)] = self._score.of(observation)

    def _climb(self) -> Iterator[Config]:
        home = min(self._valid(), key=lambda places: (sum(places), places), default=None)
        while home is not None:
            around = [home, *(places for places in self._neighbours(home) if self._is_valid(places))]
            for places in around:
                if config_key(self._config(places)) not in self._scores:
                    yield self._config(places)
            best = max(around, key=lambda places: self._scores[config_key(self._config(places))])
            home = best if best != home else None

    def _neighbours(self, home: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for i, axis in enumerate(self._axes):
            count = len(self._ladders[i])
            steps = (home[i] - 1, home[i] + 1) if axis.is_ordered else range(count)
            for place in steps:
                if place != home[i] and 0 <= place < count:
                    yield (*home[:i], place, *home[i + 1 :])

    def _valid(self) -> Iterator[tuple[int, ...]]:
        for config in self._benchmark.space.configs():
            steps = list(zip(self._axes, self._ladders, strict=True))
            if all(config[axis.name] in ladder for axis, ladder in steps):
                yield tuple(ladder.index(config[axis.name]) for axis, ladder in steps)

    def _is_valid(self, places: tuple[int, ...]) -> bool:
        return self._benchmark.space.rejection(self._config(places)) is None

    def _config(self, places: tuple[int, ...]) -> Config:
        return {a.name: ladder[p] for a, ladder, p in zip(self._axes, self._ladders, places, strict=True)}


class WeightedTpe:
    """TPE on the one score; ends between 5% and 10% of the space, after ten trials that brought nothing better."""

    def __init__(self, benchmark: Benchmark, seed: int) -> None:
        scored = (benchmark.objectives[0],)
        self._sampler = build_sampler("tpe", SearchProblem(benchmark.space, scored, seed, BUDGET))
        self._sign = scored[0].loss(1.0)
        self._score, self._best, self._since, self._told = Score(benchmark), -math.inf, 0, 0
        rows = len(benchmark.space.rows)
        self._least, self._most = max(EARLY_EXIT, LEAST_SHARE * rows), max(2 * EARLY_EXIT, MOST_SHARE * rows)

    def ask(self, number: int) -> Config | None:
        if self._told >= self._most or (self._told >= self._least and self._since >= EARLY_EXIT):
            return None
        proposal = self._sampler.ask(number, [])
        return None if proposal is None else proposal.config

    def tell(self, observation: Observation) -> None:
        score = self._score.of(observation)
        self._since = 0 if score > self._best else self._since + 1
        self._best, self._told = max(self._best, score), self._told + 1
        values = None if math.isinf(score) else (-score * self._sign,)
        told = Observation(
            observation.number, observation.config, observation.outcome, observation.failure_kind, values
        )
        self._sampler.tell(told)


@dataclass(frozen=True)
class Arm:
    """How a strategy is built, after how many trials it is given up, and which sources its results depend on."""

    build: Callable[[Benchmark, int], Strategy]
    most_trials: int
    sources: tuple[str, ...]


def _product(name: str) -> Callable[[Benchmark, int], Strategy]:
    return lambda benchmark, seed: Product(name, benchmark, seed)


def _stock(build: Callable[[int], optuna.samplers.BaseSampler]) -> Callable[[Benchmark, int], Strategy]:
    return lambda benchmark, seed: Stock(build, benchmark, seed)


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    import torch  # loaded by this arm only

    torch.set_num_threads(1)
    return optuna.samplers.GPSampler(seed=seed)


_OPTUNA = ("history.py", "optuna_backed.py")
ARMS = {
    "random": Arm(Chance, 300, ()),
    "tpe-stock": Arm(_stock(lambda seed: optuna.samplers.TPESampler(seed=seed)), 100, ()),
    "tpe": Arm(_product("tpe"), 100, _OPTUNA),
    "nsga2-stock": Arm(_stock(lambda seed: optuna.samplers.NSGAIISampler(seed=seed)), 300, ()),
    "nsga2": Arm(_product("nsga2"), 100, _OPTUNA),
    "gp-stock": Arm(_stock(_gp), 60, ()),
    "gp": Arm(_product("gp"), 60, _OPTUNA),
    "climb": Arm(Climb, 300, ()),
    "weighted-tpe": Arm(WeightedTpe, 100, _OPTUNA),
    "auto": Arm(_product("auto"), 300, ("*.py",)),
}


def _listed(axis: Axis) -> tuple[Any, ...]:
    return axis.in_order if axis.is_ordered else axis.values or ()


def _place(axis: Axis, value: Any) -> int:
    return axis.place(value) if axis.is_ordered else axis.index_of(value)


def _distribution(axis: Axis) -> BaseDistribution:
    """Places: an ordered parameter is told as ordered."""
    count = len(axis.values or ())
    return IntDistribution(0, count - 1) if axis.is_ordered else CategoricalDistribution(list(range(count)))


def _powers(axis: Axis) -> list[Any]:
    """The value nearest to each power of two (the smallest as it is)."""
    values = axis.in_order
    wanted = (
        [2.0**e for e in range(int(math.log2(max(values[-1], 1))) + 1)] if values[0] >= 0 else list(values)
    )
    nearest = [values[0], *(min(values, key=lambda value: abs(value - power)) for power in wanted)]
    return list(dict.fromkeys(nearest))
