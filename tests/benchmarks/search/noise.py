"""Whole studies on a table whose every measurement is disturbed: is the right configuration exported?

    python -m tests.benchmarks.search.noise --seeds 100 --workers 2

Each measurement is multiplied by a random factor (5% from run to run) and by a drift (5% over the study, up or down).
A study is the real one (baseline, search, confirmation, recommendation, with records), only its trials are played.
It is compared with a fixed rule that gets as many measurements: measure all once, the best four again and again, take
the best mean of the repeats. ``equal`` studies have configurations that do not differ at all: who names another than
the baseline has been fooled.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.search.__main__ import HERE, TABLES
from tests.benchmarks.search.tables import Benchmark, load
from tests.unit.study.bench import Bench, Clock, gave, study_file
from trials.contract import Measurement, TrialSpec
from trials.metrics import Direction
from tuner.objectives import Objective
from tuner.space.model import ConfirmSettings
from tuner.space.space import Config, config_key

METRIC, SOURCE = "latency", "Latency-"
BETWEEN_RUNS, DRIFT = 0.05, 0.05
NEAR = 1.03  # of the true best
FINALISTS = 4
LENGTH = 1.3  # measurements of a study, by configurations: what the drift is spread over
Disturbance = Callable[[float], float]


def disturbance(seed: int, measurements: float) -> Disturbance:
    """What a measurement gives for a true value; each call is the next measurement."""
    rng = np.random.default_rng((seed, 5))
    way, done = rng.choice([-1.0, 1.0]), 0

    def disturbed(value: float) -> float:
        nonlocal done
        done += 1
        drift = 1 + way * DRIFT * min(1.0, done / measurements)
        return float(value * drift * np.exp(BETWEEN_RUNS * rng.standard_normal()))

    return disturbed


def study(
    benchmark: Benchmark, configs: Sequence[Config], truth: dict[str, float], seed: int
) -> dict[str, Any]:
    """A whole study over ``configs``; the first one is its baseline."""
    rows = {config_key(config): benchmark.space.rows[config_key(config)] for config in configs}
    disturbed = disturbance(seed, LENGTH * len(configs))

    def measure(spec: TrialSpec, nth: int) -> Measurement:
        return gave(wall_s=1.0, **{METRIC: disturbed(truth[config_key(spec.config)])})

    file = replace(
        study_file(sampler="auto", seed=seed, trials=len(configs), confirm=ConfirmSettings(FINALISTS)),
        space=replace(benchmark.space, rows=rows),
        baseline=dict(configs[0]),
        objectives=(Objective(METRIC, Direction.MINIMIZE),),
    )
    with tempfile.TemporaryDirectory() as folder:
        ending, executor = Bench(Path(folder), Clock()).run(file, measure)
    assert ending.result is not None
    assert ending.result.recommended is not None
    chosen = ending.result.trial(ending.result.recommended.trial)
    return {"chosen": truth[config_key(chosen.config)], "number": chosen.number, "runs": len(executor.taken)}


def fixed_rule(values: Sequence[float], runs: int, seed: int) -> float:
    """The true value of what the fixed rule takes, with ``runs`` measurements in all."""
    disturbed = disturbance(seed, LENGTH * len(values))
    once = [disturbed(value) for value in values]
    best = [int(i) for i in np.argsort(once)[:FINALISTS]]
    repeats = max(1, round((runs - len(values)) / FINALISTS))
    again = {i: list[float]() for i in best}
    for _ in range(repeats):
        for i in best:
            again[i].append(disturbed(values[i]))
    return values[min(best, key=lambda i: statistics.fmean(again[i]))]


def one(tables: Path, benchmarks: Path, count: int, seed: int, is_equal: bool) -> dict[str, Any]:
    """A study of ``count`` configurations of the table, and the fixed rules beside it."""
    benchmark = next(b for b in load(benchmarks, tables, ("front",)) if b.name == "streams_c")
    every = list(benchmark.space.configs())
    configs = [
        every[i] for i in np.random.default_rng((seed, count)).choice(len(every), count, replace=False)
    ]
    values = [100.0 if is_equal else float(benchmark.space.rows[config_key(c)][SOURCE]) for c in configs]
    truth = {config_key(config): value for config, value in zip(configs, values, strict=True)}
    told = study(benchmark, configs, truth, seed)
    best = min(values)
    return {
        "is_near": told["chosen"] <= NEAR * best,
        "names_another": told["number"] != 0,
        "runs": told["runs"],
        "fixed_same_runs": fixed_rule(values, told["runs"], seed) <= NEAR * best,
        "fixed_three_repeats": fixed_rule(values, count + 3 * FINALISTS, seed) <= NEAR * best,
    }


def _share(told: Sequence[dict[str, Any]], key: str) -> str:
    """A share with its standard error."""
    share = statistics.fmean(entry[key] for entry in told)
    return f"{share:.2f} ± {(share * (1 - share) / len(told)) ** 0.5:.2f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=TABLES)
    parser.add_argument("--benchmarks", type=Path, default=HERE / "benchmarks.yaml")
    parser.add_argument("--configurations", nargs="+", type=int, default=[40, 100])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write all numbers here")
    given = parser.parse_args()
    everything = {}
    print(
        "| study | seeds | exported within 3% | fixed rule, same budget | fixed rule, 4 x 3 | measurements |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor(given.workers) as pool:
        for count in given.configurations:
            for is_equal in (False, True):
                jobs = [
                    pool.submit(one, given.tables, given.benchmarks, count, seed, is_equal)
                    for seed in range(given.seeds)
                ]
                told = [job.result() for job in jobs]
                name = f"{count} {'equal' if is_equal else 'different'}"
                everything[name] = told
                runs = statistics.median(entry["runs"] for entry in told)
                shares = [_share(told, k) for k in ("is_near", "fixed_same_runs", "fixed_three_repeats")]
                named = f"names another in {_share(told, 'names_another')} | | "
                print(
                    f"| {name} | {given.seeds} | {named if is_equal else ' | '.join(shares)} | {runs:g} |",
                    flush=True,
                )
    if given.json:
        given.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
