"""A small form of the search benchmark: on a generated table the default sampler must beat chance."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.search import arms
from tests.benchmarks.search.arms import ARMS, Arm
from tests.benchmarks.search.replay import replay
from tests.benchmarks.search.tables import Benchmark, load
from tuner.space.space import Config, config_key

TRIALS, SEEDS = 40, 4
BENCHMARK = """
- name: generated
  table: generated.csv
  parameters: [batch, threads, precision, engine]
  objectives: {throughput: maximize, latency: minimize}
  limits: {memory: {max: 40}}
  reference: {throughput: 0, latency: 100}
  failed: {status: ok}
"""


def rows() -> Iterator[dict[str, object]]:
    """A server: batches help until memory or latency breaks, threads until cores run out; some engines fail."""
    rng = np.random.default_rng(7)
    speeds = {"fp32": 1.0, "bf16": 1.8, "int8": 2.5}
    for batch, threads, precision, engine in itertools.product(
        (1, 2, 4, 8, 16, 32, 64, 128), range(1, 9), speeds, ("a", "b", "c")
    ):
        speed = speeds[precision] * {"a": 1.0, "b": 1.3, "c": 0.7}[engine] * min(threads, 6) ** 0.7
        throughput = speed * batch / (1 + 0.05 * batch) * float(rng.uniform(0.95, 1.05))
        is_ok = not (engine == "b" and precision == "int8" and threads > 4)
        yield {
            "batch": batch, "threads": threads, "precision": precision, "engine": engine, "throughput": throughput,
            "latency": batch / throughput * 10, "memory": 2 + 0.5 * batch + threads, "status": "ok" if is_ok else "no",
        }  # fmt: skip


@pytest.fixture
def generated(tmp_path: Path) -> Benchmark:
    told = list(rows())
    with (tmp_path / "generated.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(told[0]))
        writer.writeheader()
        writer.writerows(told)
    (tmp_path / "benchmarks.yaml").write_text(BENCHMARK, encoding="utf-8")
    return load(tmp_path / "benchmarks.yaml", tmp_path, ("front",))[0]


def ratio_to_random(benchmark: Benchmark, arm: str) -> float:
    """Trials to 95% of the hypervolume, geometric mean over the seeds, against random's."""
    logs = []
    for seed in range(SEEDS):
        reached = [replay(benchmark, name, seed, at_most=TRIALS)["to95"] for name in (arm, "random")]
        logs.append(math.log((reached[0] or TRIALS + 1) / (reached[1] or TRIALS + 1)))
    return math.exp(sum(logs) / SEEDS)


def test_auto_needs_far_fewer_trials_than_chance(generated: Benchmark) -> None:
    assert ratio_to_random(generated, "auto") < 0.65


def test_a_search_that_goes_for_the_worst_is_seen_to_lose(
    generated: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Worst(arms.Chance):
        """The slowest first."""

        def __init__(self, benchmark: Benchmark, seed: int) -> None:
            super().__init__(benchmark, seed)
            every = sorted(benchmark.space.rows.values(), key=lambda row: float(row["throughput"]))
            names = [parameter.name for parameter in benchmark.space.parameters]
            self._order: Iterator[Config] = iter([{name: row[name] for name in names} for row in every])

    monkeypatch.setitem(ARMS, "worst", Arm(Worst, TRIALS, ()))
    assert ratio_to_random(generated, "worst") > 1.0


def test_a_replay_reports_what_happened(generated: Benchmark) -> None:
    run = replay(generated, "random", 3, at_most=TRIALS)
    assert run["trials"] == TRIALS == len(run["shares"])
    assert run["shares"] == sorted(run["shares"])
    assert 0 < run["shares"][-1] <= 1
    assert run["duplicates"] == run["impossible"] == 0
    assert 0 < run["failed"] < 0.5
    assert 0 < run["infeasible"] < 0.7
    assert config_key(generated.baseline(3)) in generated.space.rows
