"""One search replayed: a strategy proposes a configuration, the table answers. The baseline counts as a trial."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.search.arms import ARMS, Strategy
from tests.benchmarks.search.tables import Benchmark
from tuner.pareto import hypervolume_history
from tuner.search.protocol import Observation
from tuner.space.space import config_key

FORMAT = 3  # of what a run returns: raised when it changes, so that kept results are not mixed with others
AT_LEAST = 100  # trials of a run, also of one that has found everything
ENOUGH = 0.99  # share of the hypervolume at which a longer run ends
TENTH_SHARE = 0.10
NEAR_BEST = 0.95  # of the best single value
SETTLED = 20  # trials after which a strategy should know what fails

Run = dict[str, Any]


def replay(benchmark: Benchmark, arm: str, seed: int, at_most: int | None = None) -> Run:
    """Figures of one search; see ``figures``. ``at_most`` trials, or as many as the arm is given."""
    strategy, asks_s = ARMS[arm].build(benchmark, seed), [0.0]
    told = [benchmark.observe(0, benchmark.baseline(seed))]
    strategy.tell(told[0])
    most = at_most or ARMS[arm].most_trials
    most = min(most, tenth(benchmark)) if benchmark.kind == "single" else most
    progress = Progress(benchmark)
    progress.add(told[0])
    while len(told) < most and not progress.is_enough():
        observation, ask_s = _step(benchmark, strategy, len(told))
        if observation is None:
            break
        told.append(observation)
        asks_s.append(ask_s)
        progress.add(observation)
    return figures(benchmark, told, asks_s, progress.shares())


def tenth(benchmark: Benchmark) -> int:
    """A tenth of the space, in trials."""
    return max(1, round(TENTH_SHARE * len(benchmark.space.rows)))


def _step(benchmark: Benchmark, strategy: Strategy, number: int) -> tuple[Observation | None, float]:
    """One ask and tell, and the seconds that they took together."""
    started = time.perf_counter()
    config = strategy.ask(number)
    spent_s = time.perf_counter() - started
    if config is None:
        return None, spent_s
    observation = benchmark.observe(number, config)
    started = time.perf_counter()
    strategy.tell(observation)
    return observation, spent_s + time.perf_counter() - started


class Progress:
    """How much of what the table holds was found: share of the hypervolume, or of the best single value."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark, self._points = benchmark, list[tuple[float, ...] | None]()
        self._shares: NDArray[np.float64] = np.zeros(0)

    def add(self, observation: Observation) -> None:
        """Take a trial in."""
        self._points.append(self._benchmark.losses(observation))

    def is_enough(self) -> bool:
        """Whether more trials would tell nothing new. Looked at rarely: it costs the whole history."""
        if self._benchmark.kind == "single":
            return bool(self.shares()[-1] >= NEAR_BEST)
        done = len(self._points)
        return done >= AT_LEAST and done % 5 == 0 and bool(self.shares()[-1] >= ENOUGH)

    def shares(self) -> NDArray[np.float64]:
        """After each trial."""
        if self._benchmark.kind == "single":
            best = self._benchmark.best_loss
            found = np.minimum.accumulate([np.inf if p is None else p[0] for p in self._points])
            ratio = best / found if best > 0 else found / best
            return np.where(np.isfinite(found), ratio, 0.0)
        volumes = hypervolume_history(self._points, self._benchmark.reference)
        return np.asarray(volumes) / self._benchmark.best_hypervolume


def figures(
    benchmark: Benchmark, told: Sequence[Observation], asks_s: Sequence[float], shares: NDArray[np.float64]
) -> Run:
    """``shares`` after each trial; ``to95``/``to99`` None where not reached; seconds; shares of bad trials."""
    late = told[SETTLED:]
    failed = [o.values is None for o in told]
    return {
        "trials": len(told),
        "shares": [round(float(share), 5) for share in shares],
        "to95": _first(shares, 0.95),
        "to99": _first(shares, 0.99),
        "measured_s": [round(float(s), 2) for s in np.cumsum([o.cost_s for o in told])]
        if told[0].cost_s
        else None,
        "duplicates": len(told) - len({config_key(o.config) for o in told}),
        "impossible": sum(config_key(o.config) not in benchmark.space.rows for o in told),
        "failed": float(np.mean(failed)),
        "failed_late": float(np.mean(failed[SETTLED:])) if late else 0.0,
        "infeasible": float(np.mean([o.values is not None and not o.is_feasible for o in told])),
        "ask_p50_ms": round(1000 * float(np.median(asks_s)), 2),
        "ask_p95_ms": round(1000 * float(np.quantile(asks_s, 0.95)), 2),
    }


def _first(shares: NDArray[np.float64], wanted: float) -> int | None:
    reached = np.flatnonzero(shares >= wanted)
    return int(reached[0]) + 1 if len(reached) else None
