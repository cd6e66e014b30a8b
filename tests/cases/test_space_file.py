"""Public cases about what people write into a space file, seen to the end of the line: run, records, export."""

from __future__ import annotations

import json
import math

import pytest

from dashboards.plots import front_png
from dashboards.report import report_html
from tests.cases.spaces import fake, loaded, measured, refused, written
from tests.unit.cli.conftest import Tuner
from tests.unit.study.bench import FAST, LOSS, Bench, failed, gave
from trials.contract import Outcome
from tuner.cli.outline import describe, outline_of
from tuner.records.repository import Records
from tuner.results import as_json
from tuner.space.model import StudyFile
from tuner.tracking.views import StudyViews

TASK = "workload: {kind: training, task: 'trials.tasks.digits:Digits', train_for: {samples: 4000}}"
GOAL = "objectives: [samples_per_s, accuracy]"


def everything(spec, nth):
    """Every configuration is on the front."""
    return gave(**{FAST: 100.0 + spec.trial_number, LOSS: 2.0 + spec.trial_number})


def configs(bench: Bench) -> list[dict[str, object]]:
    return [dict(trial.config) for trial in bench.record().trials]


def test_wandb_wandb_1129_check_shows_which_choices_are_text_and_a_trial_gets_numbers(tuner: Tuner) -> None:
    written('parameters: {lr: [1e-4, "1e-4", 3E-4], count: [1e2, 100]}')
    shown = tuner("check", "space.yaml").out
    assert 'lr     0.0001, "1e-4", 0.0003  (3)' in shown
    assert "count  100.0, 100  (2)" in shown
    file = loaded(TASK, GOAL, "parameters: {task.learning_rate: [1e-4, 3E-4]}")
    assert [type(c["task.learning_rate"]) for c in file.space.configs()] == [float, float]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('micro_batch_size: ["8"]', "write 8 without quotes"),
        ("micro_batch_size: [1e1]", "micro_batch_size=10.0 must be a whole number; write 10"),
        ("task.learning_rate: [1_000]", "write 1000"),
        ("loader_workers: [0x10, 2:30]", "loader_workers=2:30 must be a whole number"),
        ("compile: [yes, no]", "compile=yes is not one of false, true"),
    ],
)
def test_wandb_wandb_1129_a_knob_of_numbers_never_gets_text(text: str, said: str) -> None:
    problem = refused(TASK, GOAL, f"parameters: {{{text}}}")
    assert "space.yaml:" in problem and said in problem


def test_wandb_wandb_1323_what_a_trial_echoes_never_overwrites_what_it_was_given(bench: Bench) -> None:
    file = loaded('parameters: {bidirectional: ["true", "false"]}')

    def echoes(spec, nth):
        run = everything(spec, nth)
        run.facts.update({"parameters": {"bidirectional": False}, "config": {"bidirectional": False}})  # type: ignore[attr-defined]  # a dict
        return run

    ending, _ = bench.run(file, echoes)
    assert ending.failure is None
    assert configs(bench) == [{"bidirectional": "true"}, {"bidirectional": "false"}]
    assert [run.facts["parameters"] for run in bench.runs(1)] == [{"bidirectional": "false"}]


def test_st7ma784_mlslurmtemplate_mixed_types_survive_the_whole_line(bench: Bench) -> None:
    file = loaded("parameters: {precision: [32, 16, bf16, 16.0, true, null], n: [2, 10, 9]}")
    ending, executor = bench.run(_all_of(file), everything)
    assert ending.result is not None
    asked = [spec.config.get("precision", "absent") for spec in executor.taken if spec.purpose == "search"]
    kinds = {(type(value).__name__, value) for value in asked}
    assert kinds >= {("int", 16), ("str", "bf16"), ("float", 16.0), ("bool", True), ("str", "absent")}
    plain = json.loads(json.dumps(as_json(ending.result)))
    recorded = [(type(t["config"]["precision"]).__name__, t["config"]["precision"]) for t in plain["trials"]]
    assert len(set(recorded)) == 6 and len(recorded) == 18
    views = StudyViews(ending.result.record)
    assert {views.trial(trial).params["precision"] for trial in ending.result.trials} >= {"bf16", "16.0"}
    assert ending.result.influences
    assert "bf16" in report_html(ending.result.record, ending.result)
    assert front_png(ending.result)


def _all_of(file: StudyFile) -> StudyFile:
    from dataclasses import replace

    return replace(file, budget=replace(file.budget, trials=100))


def test_optuna_optuna_5683_choices_that_are_equal_in_python_are_each_measured(bench: Bench) -> None:
    file = loaded("parameters: {p: [1, 1.0, true], flag: [false, 0]}", "budget: {trials: 30}")
    bench.run(file, everything)
    assert len({repr(config) for config in configs(bench)}) == 6


def test_openshift_psap_auto_tuning_vllm_a_space_of_one_point_runs_once_and_says_so(bench: Bench) -> None:
    file = loaded("parameters: {kv_cache_dtype: [fp8], fixed: 3}", "budget: {trials: 20}")
    ending, executor = bench.run(file, everything)
    assert {spec.trial_number for spec in executor.taken} == {0}
    assert ending.stopped_because == "space exhausted: every valid configuration is measured, 1 in all"
    assert configs(bench) == [{"kv_cache_dtype": "fp8", "fixed": 3}]
    assert bench.runs(0)[0].facts["parameters"] == {"kv_cache_dtype": "fp8", "fixed": 3}


@pytest.mark.parametrize("sampler", ["auto", "random", "grid", "tpe"])
def test_optuna_optuna_2021_two_by_two_choices_are_four_measurements(bench: Bench, sampler: str) -> None:
    file = loaded(
        "parameters: {a: [1, 2], b: [x, y]}", "budget: {trials: 20}", f"search: {{sampler: {sampler}}}"
    )
    ending, executor = bench.run(file, everything)
    assert executor.purposes().count("search") == 3
    assert len(configs(bench)) == 4
    assert ending.stopped_because.startswith("space exhausted")


def test_openshift_psap_auto_tuning_vllm_82_what_a_rule_rejects_is_counted_and_never_run(
    bench: Bench,
) -> None:
    file = loaded(
        "parameters: {seqs: [64, 512], tokens: [128, 1024]}",
        "rules: ['seqs <= tokens']",
        "budget: {trials: 20}",
    )
    ending, executor = bench.run(file, everything)
    assert all(spec.config["seqs"] <= spec.config["tokens"] for spec in executor.taken)
    assert ending.result is not None
    assert ending.result.record.rejected == {"seqs <= tokens": 1}
    assert ending.result.counts == {"complete": 3}
    volumes = [volume for _, volume in ending.result.history]
    assert all(map(math.isfinite, volumes))


def test_vllm_project_vllm_4232_what_does_not_divide_costs_no_budget(bench: Bench) -> None:
    file = loaded(
        "parameters: {heads: 40, tp: [1, 2, 3, 4, 6]}",
        "rules: ['heads % tp == 0', 'tp <= gpus']",
        "resources: {gpus: 6}",
        "budget: {trials: 3}",
    )
    _, executor = bench.run(file, everything)
    assert sorted({spec.config["tp"] for spec in executor.taken}) == [1, 2, 4]
    rejection = file.space.rejection({"heads": 40, "tp": 6})
    assert rejection is not None and "heads=40" in rejection.reason and "tp=6" in rejection.reason
    outline = describe(file)
    assert outline["size"]["useless"] == {"tp": [3, 6]}
    assert "  2 rejected by: heads % tp == 0\n  never valid: tp=3, 6" in outline_of(file, outline)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (
            "{global_batch_size: 8, micro_batch_size: 2, gradient_accumulation_steps: 1}",
            "global_batch_size=8",
        ),
        ("{global_batch_size: 8, micro_batch_size: 3}", "is not a multiple of 3"),
    ],
)
def test_deepspeedai_deepspeed_6914_check_says_batch_sizes_that_contradict_with_their_numbers(
    sizes: str, said: str
) -> None:
    problem = refused(TASK, GOAL, f"parameters: {sizes}")
    assert "the baseline cannot run" in problem and said in problem


def test_deepspeedai_deepspeed_6914_two_sizes_give_the_third_and_the_rest_is_rejected() -> None:
    file = loaded(
        TASK,
        GOAL,
        "parameters: {global_batch_size: 8, micro_batch_size: [2, 3, 4], gradient_accumulation_steps: [2, 4]}",
        "baseline: {micro_batch_size: 2, gradient_accumulation_steps: 4}",
    )
    valid = file.space.enumerate_valid(10) or []
    assert sorted((c["micro_batch_size"], c["gradient_accumulation_steps"]) for c in valid) == [
        (2, 4),
        (4, 2),
    ]


def test_optuna_optuna_3129_null_leaves_the_default_from_the_file_to_the_trial() -> None:
    file = fake({"do": "complete", "value": 3.0, "kv_cache_dtype": None}, baseline={"do": "complete"})
    ending, record = measured(file)
    assert ending.failure is None
    assert record.trials[1].measurements[0].outcome is Outcome.COMPLETE
    assert "kv_cache_dtype" not in record.trials[1].measurements[0].facts["parameters"]


def test_optuna_optuna_2021_a_known_failure_is_not_tried_again_by_a_later_run(bench: Bench) -> None:
    file = loaded("parameters: {a: [1, 2], b: [x, y]}", "budget: {trials: 20}")

    def half(spec, nth):
        return everything(spec, nth) if spec.config["a"] == 1 else failed("out_of_memory")

    bench.run(file, half)
    _, again = bench.run(file, half)
    assert again.taken == []
    with Records.open(bench.database) as records:
        assert len(records.study("bench").trials) == 4
