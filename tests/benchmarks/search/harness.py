"""Replays a search against a table of measured configurations: a strategy proposes a row, the table answers.

    python tests/benchmarks/search/harness.py --tables ../shared/tables --seeds 10 --arms random tpe auto

Prints, as the median over the seeds, the share of the exhaustive hypervolume after 10, 25 and 50 trials, the
trials to 95%, the ratio of their geometric mean to random's, duplicates, failed trials and the time of an
ask. The first row told is the baseline: a valid one drawn by the seed, the same for all arms.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from trials.contract import FailureKind, Outcome
from trials.metrics import Direction
from tuner.objectives import Constraint, LimitKind, Objective
from tuner.pareto import hypervolume
from tuner.search.protocol import Observation, SearchProblem
from tuner.search.registry import build_sampler
from tuner.space.space import Choice, Choices, Config, Parameter, Rejection, Space, config_key

CHECKPOINTS = (10, 25, 50)
Row = dict[str, Any]


@dataclass(frozen=True)
class TableSpace(Space):
    """A space whose valid configurations are the rows of a table."""

    rows: Mapping[str, Row] = field(default_factory=dict, compare=False, repr=False)

    def rejection(self, config: Mapping[str, Any]) -> Rejection | None:
        """Rejected where the table has no such row."""
        return None if config_key(config) in self.rows else Rejection("in the table", "nobody measured it")


@dataclass(frozen=True)
class Benchmark:
    """A table, what is searched in it and for what."""

    name: str
    space: TableSpace
    objectives: tuple[Objective, ...]
    limits: tuple[Constraint, ...]
    reference: tuple[float, ...]
    success: tuple[tuple[str, str], ...]

    def observe(self, number: int, config: Config) -> Observation:
        """What the table says about a configuration."""
        row = self.space.rows[config_key(config)]
        if any(str(row[column]) != wanted for column, wanted in self.success):
            return Observation(number, config, Outcome.FAILED, FailureKind.CRASH)
        values = tuple(float(row[o.metric]) for o in self.objectives)
        violations = tuple(limit.freeze(None).violation(float(row[limit.metric])) for limit in self.limits)
        return Observation(number, config, Outcome.COMPLETE, values=values, violations=violations)

    def losses(self, observation: Observation) -> tuple[float, ...] | None:
        """The point that counts for the hypervolume, None where it is not feasible."""
        if observation.values is None or not observation.is_feasible:
            return None
        return tuple(o.loss(v) for o, v in zip(self.objectives, observation.values, strict=True))

    def best(self) -> float:
        """The hypervolume of the whole table."""
        told = [self.observe(0, _config(self.space, row)) for row in self.space.rows.values()]
        return hypervolume([point for o in told if (point := self.losses(o)) is not None], self.reference)


def load(benchmarks: Path, tables: Path) -> list[Benchmark]:
    """Every benchmark of the file whose table is there."""
    entries = yaml.safe_load(benchmarks.read_text(encoding="utf-8"))
    return [_benchmark(entry, tables) for entry in entries if (tables / entry["table"]).exists()]


def _benchmark(entry: Mapping[str, Any], tables: Path) -> Benchmark:
    rows = list(_rows(tables / entry["table"], entry.get("where", {})))
    columns = [c for c in entry["parameters"] if len({config_key({"": row[c]}) for row in rows}) > 1]
    parameters = tuple(
        Parameter(c, _choices(rows, c), None, rows[0][c], line) for line, c in enumerate(columns, 1)
    )
    objectives = tuple(Objective(metric, Direction(way)) for metric, way in entry["objectives"].items())
    by_key = {config_key({c: row[c] for c in columns}): row for row in reversed(rows)}
    limits = tuple(
        Constraint(metric, LimitKind(kind), float(amount))
        for metric, limit in entry.get("limits", {}).items()
        for kind, amount in limit.items()
    )
    reference = tuple(o.loss(float(entry["reference"][o.metric])) for o in objectives)
    success = tuple((column, str(value)) for column, value in entry.get("failed", {}).items())
    return Benchmark(
        entry["name"], TableSpace(parameters, rows=by_key), objectives, limits, reference, success
    )


def _rows(path: Path, where: Mapping[str, Any]) -> Iterator[Row]:
    wanted = {
        c: {str(v) for v in (value if isinstance(value, list) else [value])} for c, value in where.items()
    }
    with path.open(newline="", encoding="utf-8") as stream:
        for raw in csv.DictReader(stream):
            if all(raw[c] in values for c, values in wanted.items()):
                yield {column: _number(text) for column, text in raw.items()}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _choices(rows: list[Row], column: str) -> Choices:
    values = {config_key({"": row[column]}): row[column] for row in rows}
    ordered = sorted(values.values(), key=lambda v: (isinstance(v, str), v))
    return Choices(tuple(Choice(v, v) for v in ordered))


def _config(space: TableSpace, row: Row) -> Config:
    return {parameter.name: row[parameter.name] for parameter in space.parameters}


def replay(benchmark: Benchmark, arm: str, seed: int, trials: int) -> dict[str, Any]:
    """One search of ``trials`` trials, the baseline included."""
    sampler = build_sampler(arm, SearchProblem(benchmark.space, benchmark.objectives, seed, trials))
    rows = list(benchmark.space.rows.values())
    config = _config(benchmark.space, rows[int(np.random.default_rng((seed, 99)).integers(len(rows)))])
    told, ask_s = [benchmark.observe(0, config)], []
    sampler.tell(told[0])
    for number in range(1, trials):
        started = time.perf_counter()
        proposal = sampler.ask(number, [])
        ask_s.append(time.perf_counter() - started)
        if proposal is None:
            break
        told.append(benchmark.observe(number, proposal.config))
        sampler.tell(told[-1])
    points = [benchmark.losses(o) for o in told]
    seen = [[p for p in points[: n + 1] if p is not None] for n in range(len(points))]
    share = np.array([hypervolume(front, benchmark.reference) for front in seen]) / benchmark.best()
    reached = np.flatnonzero(share >= 0.95)
    return {
        "share": [float(share[min(n, len(share)) - 1]) for n in CHECKPOINTS],
        "to95": int(reached[0]) + 1 if len(reached) else trials + 1,
        "duplicates": len(told) - len({config_key(o.config) for o in told}),
        "failed": sum(o.values is None for o in told[20:]) / max(1, len(told) - 20),
        "ask_ms": 1000 * statistics.median(ask_s[10:] or ask_s),
    }


def _job(arguments: tuple[Benchmark, str, int, int]) -> dict[str, Any]:
    return replay(*arguments)


def report(benchmarks: list[Benchmark], arms: list[str], seeds: int, trials: int, workers: int) -> Row:
    """Prints a markdown table a benchmark and returns all numbers."""
    results: Row = {}
    with ProcessPoolExecutor(workers) as pool:
        for benchmark in benchmarks:
            jobs = [(benchmark, arm, seed, trials) for arm in arms for seed in range(seeds)]
            runs = list(pool.map(_job, jobs))
            by_arm = {arm: runs[i * seeds : (i + 1) * seeds] for i, arm in enumerate(arms)}
            results[benchmark.name] = by_arm
            size = f"{len(benchmark.space.rows)} rows of {benchmark.space.size()}"
            print(f"\n{benchmark.name}: {size}, {seeds} seeds")
            shares = " | ".join(f"at {n}" for n in CHECKPOINTS)
            print(f"| arm | {shares} | to 95% | duplicates | failed | ask ms |")
            print("|---" * (len(CHECKPOINTS) + 5) + "|")
            for arm, told in by_arm.items():
                _print_arm(arm, told)
    _print_ratios(results, arms)
    return results


def _print_arm(arm: str, runs: list[Row]) -> None:
    shares = [statistics.median(run["share"][i] for run in runs) for i in range(len(CHECKPOINTS))]
    rest = [statistics.median(run[key] for run in runs) for key in ("to95", "failed", "ask_ms")]
    duplicates = sum(run["duplicates"] for run in runs)
    told = " | ".join(f"{share:.3f}" for share in shares)
    print(f"| {arm} | {told} | {rest[0]:g} | {duplicates} | {rest[1]:.2f} | {rest[2]:.0f} |", flush=True)


def _print_ratios(results: Row, arms: list[str]) -> None:
    """Trials to 95% against random's: the ratio of geometric means over seeds, then over the benchmarks."""
    if "random" not in arms:
        return
    print("\n| trials to 95% / random's | " + " | ".join(arms) + " |\n|---" + "|---" * len(arms) + "|")
    logs: dict[str, list[float]] = {arm: [] for arm in arms}
    for name, by_arm in results.items():
        mean = {arm: float(np.mean([np.log(run["to95"]) for run in runs])) for arm, runs in by_arm.items()}
        for arm in arms:
            logs[arm].append(mean[arm] - mean["random"])
        print(f"| {name} | " + " | ".join(f"{np.exp(logs[arm][-1]):.2f}" for arm in arms) + " |")
    print("| **geometric mean** | " + " | ".join(f"{np.exp(np.mean(logs[arm])):.2f}" for arm in arms) + " |")


def main() -> None:
    """The command line."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=here.parents[3] / "shared" / "tables")
    parser.add_argument("--benchmarks", type=Path, default=here / "benchmarks.yaml")
    parser.add_argument("--only", nargs="*", default=[], help="names of benchmarks")
    parser.add_argument("--arms", nargs="+", default=["random", "tpe", "nsga2", "gp", "auto"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write all numbers here")
    given = parser.parse_args()
    chosen = [b for b in load(given.benchmarks, given.tables) if not given.only or b.name in given.only]
    if not chosen:
        raise SystemExit(f"no table in {given.tables}; give their folder with --tables")
    results = report(chosen, given.arms, given.seeds, given.trials, given.workers)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
