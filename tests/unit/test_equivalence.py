"""Knobs that must not change the numbers, and the flag on those that did."""

from dataclasses import replace
from typing import Any

import pytest

from tests import builders
from tuner.results import StudyResult, judge

LOSSES = [5.0 - 0.1 * step for step in range(20)]


def run(losses: list[float], seed: int = 0, batch: int = 16) -> Any:
    facts = {
        "first_losses": losses,
        "global_batch_size": batch,
    }
    return replace(builders.measurement({"speed": 1.0}, "baseline", seed=seed), facts=facts)


def judged(
    config: dict[str, Any], *runs: Any, base: dict[str, Any] | None = None, base_runs: Any = ()
) -> StudyResult:
    workload = {"kind": "training", "task": "trials.tasks.digits:Digits", "train_for": {"samples": 1000}}
    study = builders.study(
        builders.trial(0, *(base_runs or (run(LOSSES),)), config={"micro_batch_size": 16, **(base or {})}),
        builders.trial(1, *runs, config=config),
        objectives=(builders.objective("speed"),),
        notes={"workload": workload},
    )
    return judge(study)


def moved(by: float, at: int = 5) -> list[float]:
    return [loss * (1 + by) if step == at else loss for step, loss in enumerate(LOSSES)]


SPLIT = {"micro_batch_size": 8, "data_parallel_degree": 2, "activation_checkpointing": "full"}


@pytest.mark.parametrize(("by", "is_flagged"), [(0.0, False), (5e-4, False), (2e-3, True)])
def test_a_loss_beyond_the_tolerance_is_flagged_and_named(by: float, is_flagged: bool) -> None:
    result = judged(SPLIT, run(moved(by)))
    assert (result.trial(1).numerics_changed is not None) is is_flagged
    assert (
        any("numerics_changed: trial 1" in line and "step 6" in line for line in result.warnings)
        is is_flagged
    )


def test_a_low_precision_may_move_more() -> None:
    low = {"precision": "bf16"}
    assert judged(SPLIT | low, run(moved(3e-3)), base=low).trial(1).numerics_changed is None
    assert judged(SPLIT | low, run(moved(8e-3)), base=low).trial(1).numerics_changed


@pytest.mark.parametrize("knob", [{"precision": "bf16"}, {"task.width": 9}, {"gradient_compression": "fp16"}])
def test_knobs_that_change_numbers_are_not_compared(knob: dict[str, Any]) -> None:
    assert judged(SPLIT | knob, run(moved(0.5))).trial(1).numerics_changed is None


def test_other_data_is_not_compared() -> None:
    assert judged(SPLIT, run(moved(0.5), seed=1)).trial(1).numerics_changed is None
    assert judged(SPLIT, run(moved(0.5), batch=32)).trial(1).numerics_changed is None


def test_a_baseline_that_does_not_repeat_itself_widens_what_is_allowed() -> None:
    repeats = (run(LOSSES), run(moved(4e-3)))
    assert judged(SPLIT, run(moved(9e-3, at=7)), base_runs=repeats).trial(1).numerics_changed is None
    assert judged(SPLIT, run(moved(3e-2, at=7)), base_runs=repeats).trial(1).numerics_changed


def test_only_early_steps_count_because_training_itself_drifts_apart() -> None:
    assert judged(SPLIT, run(moved(0.5, at=25))).trial(1).numerics_changed is None
