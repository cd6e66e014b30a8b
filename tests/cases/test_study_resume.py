"""Public cases about going on: an edited file, the budget as a total, what a kill leaves."""

from __future__ import annotations

import json

import pytest

from tests.cases.spaces import loaded, says, written
from tests.unit.cli.conftest import Tuner
from tests.unit.study.bench import FAST, LOSS, Bench, gave, study_file
from trials.contract import FailureKind, Outcome
from tuner.launch import StudyChanged
from tuner.space.model import StudyFile

GOALS = "objectives: [tokens_per_s, val_loss_nats]"


def everything(spec, nth):
    return gave(**{FAST: 100.0 + spec.trial_number, LOSS: 2.0 + spec.trial_number})


def differences(bench: Bench, file: StudyFile) -> str:
    with pytest.raises(StudyChanged) as caught:
        bench.run(file, everything)
    return "\n".join(caught.value.differences)


def test_optuna_optuna_2199_an_added_choice_is_refused_with_a_diff_and_a_new_generation_reuses(
    bench: Bench,
) -> None:
    bench.run(loaded("parameters: {precision: [fp32, bf16]}"), everything)
    wider = loaded("parameters: {precision: [fp32, bf16, fp16]}")
    assert "parameters.precision" in differences(bench, wider) and "fp16" in differences(bench, wider)
    _, executor = bench.run(wider, everything, new_space=True)
    assert [spec.config["precision"] for spec in executor.taken] == ["fp16"]
    assert [trial.config["precision"] for trial in bench.record().trials] == ["fp32", "bf16", "fp16"]


def test_optuna_5_0_0_resume_with_another_int_range_mixes_nothing(bench: Bench) -> None:
    bench.run(loaded("parameters: {bs: {min: 1, max: 8}}", "budget: {trials: 5}"), everything)
    moved = loaded("parameters: {bs: {min: 16, max: 32}}", "budget: {trials: 5}")
    assert "parameters.bs" in differences(bench, moved)
    bench.run(moved, everything, new_space=True)
    assert all(16 <= trial.config["bs"] <= 32 for trial in bench.record().trials)
    assert len(bench.record().trials) == 5


@pytest.mark.parametrize(
    ("edited", "names"),
    [
        ("objectives: [{metric: tokens_per_s, direction: minimize}, val_loss_nats]", "minimize"),
        ("objectives: [tokens_per_s]", "val_loss_nats"),
        ("objectives: [val_loss_nats, tokens_per_s]", "objectives"),
        (GOALS + "\nconstraints: {peak_memory_gib: {max: 4}}", "peak_memory_gib"),
    ],
)
def test_optuna_5_0_0_reload_with_other_objectives_or_limits_is_refused(
    bench: Bench, edited: str, names: str
) -> None:
    bench.run(loaded(GOALS), everything)
    assert names in differences(bench, loaded(edited))
    assert bench.record().generation == 1


def counted(program: Tuner) -> int:
    return len(json.loads(program("show", "bench", "--json").out)["trials"])


def test_openshift_psap_auto_tuning_vllm_60_trials_are_the_total_and_more_adds(program: Tuner) -> None:
    written(
        says({"samples_per_s": "{x}"}),
        "parameters: {x: {min: 1, max: 50}}",
        "objectives: [samples_per_s]",
        "resources: {cpus: 1}",
        "budget: {trials: 2}",
        "confirm: {finalists: 0, baseline_repeats: 1}",
    )
    assert program("run", "space.yaml").code == 0
    assert counted(program) == 2
    assert program("run", "space.yaml", "--trials", "4").code == 0
    assert counted(program) == 4, "two more, not four"
    done = program("run", "space.yaml", "--trials", "4")
    assert (done.code, counted(program)) == (0, 4)
    assert "stopped: budget of 4 trials is spent" in done.err
    assert program("run", "space.yaml", "--more", "1").code == 0
    assert counted(program) == 5


def test_optuna_optuna_3215_a_kill_in_trial_7_leaves_nothing_running_and_its_point_goes_first(
    bench: Bench,
) -> None:
    file = study_file(x=40, trials=10)
    baseline_steps, steps_of_a_trial = 3 * 3, 3
    bench.cut(file, cut_at=baseline_steps + 6 * steps_of_a_trial + 1)
    cut = bench.record().trials[7]
    assert cut.measurements[0].outcome is None
    ending, executor = bench.run(file)
    assert executor.taken[0].config == cut.config
    outcomes = [(run.outcome, run.failure_kind) for run in bench.runs(7)]
    assert outcomes == [(Outcome.FAILED, FailureKind.INTERRUPTED), (Outcome.COMPLETE, None)]
    assert ending.result is not None and ending.result.counts == {"complete": 10}
    assert len(set(bench.xs())) == 10
