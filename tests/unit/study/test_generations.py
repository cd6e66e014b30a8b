"""A space that was edited: refused, or a new generation that takes over what still fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.study.bench import (
    FAST,
    LOSS,
    MEMORY,
    OBJECTIVES,
    Bench,
    failed,
    gave,
    limit,
    on_line,
    study_file,
)
from trials.contract import Purpose
from trials.metrics import Direction
from tuner.launch import StudyChanged
from tuner.objectives import Objective
from tuner.space.model import ConfirmSettings

OLD = study_file(x=6, trials=6)


def test_a_changed_space_is_refused_with_what_differs(bench: Bench) -> None:
    bench.run(OLD)
    with pytest.raises(StudyChanged) as caught:
        bench.run(study_file(x=8))
    assert any(line.startswith("parameters.x: was ") for line in caught.value.differences)
    assert bench.record().generation == 1


def test_a_changed_budget_is_no_other_study(bench: Bench) -> None:
    bench.run(OLD)
    bench.run(replace(OLD, budget=replace(OLD.budget, trials=9, no_gain=4)))
    assert bench.record().generation == 1


def test_a_new_generation_reuses_what_fits_and_measures_the_rest(bench: Bench) -> None:
    bench.run(OLD)
    ending, executor = bench.run(study_file(x=9, trials=9, rules=("x != 3",)), new_space=True)
    assert ending.failure is None
    assert sorted(bench.xs()) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert sorted(executor.searched()) == [6, 7, 8], "neither the baseline nor what is known is run again"
    assert set(executor.purposes()) == {"search"}


def test_a_new_baseline_is_measured_and_the_old_one_becomes_a_trial(bench: Bench) -> None:
    bench.run(OLD)
    changed = study_file(x=6, trials=6, baseline={"x": 4}, limits=(limit(FAST, "min_relative", 0.5),))
    ending, executor = bench.run(changed, new_space=True)
    assert ending.failure is None
    assert executor.purposes() == ["baseline"] * 2, "a cold run, and the repeat that its old run is not"
    assert bench.record().trials[0].config == {"x": 4}
    assert sorted(bench.xs()) == [0, 1, 2, 3, 4, 5]
    bounds = bench.record().bounds
    assert bounds is not None
    assert bounds[0].value == pytest.approx(250.0, rel=0.01)


def test_a_baseline_that_was_a_trial_keeps_its_run_and_gets_its_repeats(bench: Bench) -> None:
    bench.run(OLD)
    changed = study_file(
        x=6, trials=6, baseline={"x": 4}, confirm=ConfirmSettings(finalists=0, baseline_repeats=3)
    )
    _, executor = bench.run(changed, new_space=True)
    purposes = [run.purpose for run in bench.runs(0)]
    assert purposes.count(Purpose.SEARCH) == 1
    assert executor.purposes() == ["baseline"] * 3, "a cold run and the two seeds that are missing"


def test_trials_without_a_result_or_without_what_is_now_asked_for_are_not_taken_over(bench: Bench) -> None:
    def no_memory(spec, nth):
        values = {FAST: 100.0 + spec.config["x"], LOSS: 2.0}
        return failed("out_of_memory") if spec.config["x"] == 5 else gave(**values)

    bench.cut(OLD, no_memory, cut_at=23)
    objectives = (*OBJECTIVES, Objective(MEMORY, Direction.MINIMIZE))
    ending, executor = bench.run(replace(OLD, objectives=objectives), new_space=True)
    assert ending.failure is None
    has_failed = 5 in [x for x in bench.xs() if x not in executor.searched()]
    assert set(executor.searched()) == {1, 2, 3, 4} | (set() if has_failed else {5})


def test_other_work_reuses_nothing(bench: Bench) -> None:
    bench.run(OLD)
    _, executor = bench.run(replace(OLD, workload={"kind": "bench", "steps": 2}), new_space=True)
    assert len(executor.taken) == 3 + 5


def test_a_new_generation_has_its_own_time(bench: Bench) -> None:
    bench.run(study_file(x=6, trials=6, wall_time_s=100.0))
    _, executor = bench.run(study_file(x=20, trials=12, wall_time_s=100.0), new_space=True)
    assert len(executor.searched()) == 6


def test_new_space_on_an_unchanged_file_just_goes_on(bench: Bench) -> None:
    bench.run(OLD)
    bench.run(OLD, on_line, new_space=True)
    assert bench.record().generation == 1
