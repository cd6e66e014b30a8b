"""The search benchmark keeps finished runs, and its figures say what the runs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.search.kept import Kept
from tests.benchmarks.search.report import markdown, summary
from tests.benchmarks.search.tables import Benchmark, Stage, TableSpace
from trials.metrics import Direction
from tuner.objectives import Objective
from tuner.space.domains import Choice, Choices
from tuner.space.space import Parameter, config_key

SPEED = Objective("speed", Direction.MAXIMIZE)


def benchmark(name: str = "made", **changed: Any) -> Benchmark:
    """Ten rows, the faster the later."""
    domain = Choices(tuple(Choice(i, i) for i in range(10)))
    rows = {config_key({"x": i}): {"x": i, "speed": 1.0 + i, "rate": 10.0} for i in range(10)}
    space = TableSpace((Parameter("x", domain, None, 0, 1),), rows=rows)
    return Benchmark(name, "front", space, (SPEED,), (), (0.0,), **changed)


def run(to95: int | None, seed: int = 0, trials: int = 100) -> dict[str, Any]:
    shares = [0.5 if to95 is None or n < to95 else 1.0 for n in range(1, trials + 1)]
    zeros = dict.fromkeys(("duplicates", "impossible", "failed", "failed_late", "infeasible"), 0)
    return {
        "seed": seed,
        "trials": trials,
        "shares": shares,
        "to95": to95,
        "to99": to95,
        "ask_p50_ms": 1,
        "ask_p95_ms": 2,
    } | zeros


def test_finished_runs_are_found_again_and_a_line_that_was_cut_off_is_not(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    kept = Kept(path)
    kept.add(benchmark(), "random", 0, run(10))
    kept.add(benchmark(), "random", 1, run(20))
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    again = Kept(path)
    assert again.get(benchmark(), "random", 0) == run(10)
    assert again.get(benchmark(), "random", 1) is None
    again.add(benchmark(), "random", 1, run(20))
    assert Kept(path).get(benchmark(), "random", 1) == run(20)


def test_runs_of_another_table_or_entry_do_not_count(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "runs.jsonl")
    kept.add(benchmark(digest="old"), "random", 0, run(10))
    assert kept.get(benchmark(digest="new"), "random", 0) is None


def test_ratios_are_paired_by_seed_and_capped_alike() -> None:
    by_chance = [run(20, 0), run(900, 1), run(40, 2), run(None, 3)]
    runs = {"made": {"random": by_chance, "auto": [run(10, 0), run(20, 2), run(None, 3)]}}
    ratio, low, high = summary([benchmark()], runs)["ratio_to"]["random"]["made"]["auto"]
    assert ratio == pytest.approx(0.5 ** (2 / 3))
    assert low < ratio < high


def test_the_report_names_every_arm_and_says_what_was_not_reached() -> None:
    text = markdown([benchmark()], {"made": {"random": [run(None)], "tpe": [run(10)]}})
    assert "| random | 1 |" in text
    assert "| tpe | 1 |" in text
    assert ">300" in text


def test_a_stage_costs_seconds_a_column_or_work_at_a_rate() -> None:
    row = {"ms": 500, "rate": 10.0}
    assert Stage("a", seconds=3).cost_s(row) == 3
    assert Stage("b", column="ms", factor=0.001).cost_s(row) == 0.5
    assert Stage("c", work=50, rate="rate").cost_s(row) == 5


def test_a_failing_region_fails_and_costs_only_its_first_stage() -> None:
    failing = frozenset({config_key({"x": 9})})
    made = benchmark(failing=failing, stages=(Stage("start", seconds=2), Stage("rest", seconds=8)))
    broken, sound = made.observe(1, {"x": 9}), made.observe(2, {"x": 8})
    assert broken.values is None
    assert (broken.cost_s, sound.cost_s) == (2, 10)
    assert made.best_hypervolume == 9.0
