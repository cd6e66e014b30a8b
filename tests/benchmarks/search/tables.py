"""Benchmarks: a table of measured configurations, what is searched in it and for what.

``benchmarks.yaml`` is the one place where they are written down. From each entry three kinds of searches are made:
``front`` (the entry as it stands), ``single`` (one objective alone, the others unknown) and ``failing`` (the third of
the rows with the highest values of the columns named in ``failing_third`` fails, which no rule says).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from trials.contract import FailureKind, Outcome
from trials.metrics import Direction
from tuner.objectives import Constraint, LimitKind, Objective
from tuner.pareto import hypervolume
from tuner.search.protocol import Observation
from tuner.space.domains import Choice, Choices
from tuner.space.space import Config, Parameter, Rejection, Space, config_key

KINDS = ("front", "single", "failing")
Row = dict[str, Any]


@dataclass(frozen=True)
class TableSpace(Space):
    """A space whose valid configurations are the rows of a table."""

    rows: Mapping[str, Row] = field(default_factory=dict, compare=False, repr=False)

    def rejection(self, config: Mapping[str, Any]) -> Rejection | None:
        """Rejected where the table has no such row."""
        return None if config_key(config) in self.rows else Rejection("in the table", "nobody measured it")

    def configs(self) -> Iterator[Config]:
        """The rows: what a study's rules leave of the grid."""
        return (
            {parameter.name: row[parameter.name] for parameter in self.parameters}
            for row in self.rows.values()
        )

    def size(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def combinations(self) -> int:
        """How many points the grid of the parameters has."""
        return math.prod(parameter.domain.count() or 1 for parameter in self.parameters)


@dataclass(frozen=True)
class Stage:
    """A part of a trial and what it costs: ``seconds``, or ``column`` x ``factor``, or ``work`` / ``rate`` column."""

    name: str
    seconds: float = 0.0
    column: str | None = None
    factor: float = 1.0
    work: float = 0.0
    rate: str | None = None

    def cost_s(self, row: Row) -> float:
        """Seconds of this stage for a row."""
        by_column = float(row[self.column]) * self.factor if self.column else 0.0
        return self.seconds + by_column + (self.work / float(row[self.rate]) if self.rate else 0.0)


@dataclass(frozen=True)
class Benchmark:
    """One search: its rows, goals and limits. ``reference`` is in losses; ``success`` are (column, value)."""

    name: str
    kind: str
    space: TableSpace
    objectives: tuple[Objective, ...]
    limits: tuple[Constraint, ...]
    reference: tuple[float, ...]
    success: tuple[tuple[str, str], ...] = ()
    stages: tuple[Stage, ...] = ()
    failing: frozenset[str] = frozenset()
    digest: str = ""

    def observe(self, number: int, config: Config) -> Observation:
        """What the table says about a configuration; one that nobody measured counts as a crash."""
        key = config_key(config)
        row = self.space.rows.get(key)
        if row is None or key in self.failing or any(str(row[c]) != wanted for c, wanted in self.success):
            return Observation(
                number, config, Outcome.FAILED, FailureKind.CRASH, cost_s=self._failed_cost_s(row)
            )
        values = tuple(float(row[o.metric]) for o in self.objectives)
        violations = tuple(limit.freeze(None).violation(float(row[limit.metric])) for limit in self.limits)
        cost_s = sum(stage.cost_s(row) for stage in self.stages)
        return Observation(
            number, config, Outcome.COMPLETE, values=values, violations=violations, cost_s=cost_s
        )

    def _failed_cost_s(self, row: Row | None) -> float:
        """What fails does so in its first stage."""
        return self.stages[0].cost_s(row) if row and self.stages else 0.0

    def losses(self, observation: Observation) -> tuple[float, ...] | None:
        """The point that counts, None where it is not feasible."""
        if observation.values is None or not observation.is_feasible:
            return None
        return tuple(o.loss(v) for o, v in zip(self.objectives, observation.values, strict=True))

    @cached_property
    def every_point(self) -> list[tuple[float, ...]]:
        """The losses of all feasible rows."""
        told = [self.observe(0, config) for config in self.space.configs()]
        return [point for o in told if (point := self.losses(o)) is not None]

    @cached_property
    def best_hypervolume(self) -> float:
        """The hypervolume of the whole table."""
        return hypervolume(self.every_point, self.reference)

    @cached_property
    def best_loss(self) -> float:
        """The best value of the first objective, as a loss."""
        return min(point[0] for point in self.every_point)

    def baseline(self, seed: int) -> Config:
        """A row that runs, by chance, the same for all arms: a study starts from something that works."""
        rows = list(self.space.configs())
        for i in np.random.default_rng((seed, 99)).permutation(len(rows)):
            config = rows[int(i)]
            if self.observe(0, config).values is not None:
                return config
        raise ValueError(f"{self.name}: no row is a success")


def load(benchmarks: Path, tables: Path, kinds: tuple[str, ...] = KINDS) -> list[Benchmark]:
    """Every benchmark of the file whose table is there, in each of the kinds that it has."""
    entries = yaml.safe_load(benchmarks.read_text(encoding="utf-8"))
    bases = [
        _benchmark(entry, tables / entry["table"]) for entry in entries if (tables / entry["table"]).exists()
    ]
    every = [variant for entry, base in bases for variant in _variants(entry, base)]
    return [benchmark for benchmark in every if benchmark.kind in kinds]


def _variants(entry: Mapping[str, Any], base: Benchmark) -> Iterator[Benchmark]:
    yield base
    for i, objective in enumerate(base.objectives):
        reference = (base.reference[i],)
        yield replace(
            base,
            name=f"{base.name}/{objective.metric}",
            kind="single",
            objectives=(objective,),
            reference=reference,
        )
    if columns := entry.get("failing_third"):
        failing = _highest_third(base.space, columns)
        yield replace(base, name=f"{base.name}/failing", kind="failing", failing=failing)


def _highest_third(space: TableSpace, columns: list[str]) -> frozenset[str]:
    """Keys of the third of the rows with the highest sum of ranks, as memory grows with several knobs."""
    rows = list(space.rows.values())
    ranks = np.zeros(len(rows))
    for column in columns:
        _, rank = np.unique([float(row[column]) for row in rows], return_inverse=True)
        ranks += rank / max(1, rank.max())
    worst = np.argsort(-ranks, kind="stable")[: len(rows) // 3]
    keys = list(space.rows)
    return frozenset(keys[int(i)] for i in worst)


def _benchmark(entry: Mapping[str, Any], table: Path) -> tuple[Mapping[str, Any], Benchmark]:
    rows = list(_rows(table, entry.get("where", {})))
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
    return entry, Benchmark(
        name=entry["name"],
        kind="front",
        space=TableSpace(parameters, rows=by_key),
        objectives=objectives,
        limits=limits,
        reference=tuple(o.loss(float(entry["reference"][o.metric])) for o in objectives),
        success=tuple((column, str(value)) for column, value in entry.get("failed", {}).items()),
        stages=tuple(Stage(name, **costs) for name, costs in entry.get("stages", {}).items()),
        digest=_digest(json.dumps(entry, sort_keys=True).encode() + table.read_bytes()),
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


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
