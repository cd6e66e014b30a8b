from __future__ import annotations

import pytest

from tests.unit.space.conftest import Load, Refuse

PARAMETERS = """
parameters:
  precision: [bf16, fp32]
  micro_batch_size: {min: 4, max: 16, scale: log2}
  task.learning_rate: {min: 1e-4, max: 1e-2, scale: log}
  env.MODE: [fast, safe]
  threads: {expr: "cpus"}
"""


def test_the_baseline_takes_defaults_where_they_are_searched_else_the_first(load: Load) -> None:
    baseline = load(PARAMETERS).baseline
    assert baseline == {
        "precision": "fp32",  # the knob's default, not the first choice
        "micro_batch_size": 4,  # 32 is not searched
        "task.learning_rate": 1e-3,
        "env.MODE": "fast",
        "threads": 4,
    }


def test_the_baseline_may_lie_off_the_grid(load: Load) -> None:
    study = load(
        f"{PARAMETERS}baseline: {{micro_batch_size: 24, precision: fp16, task: {{learning_rate: 1}}}}\n"
    )
    assert study.baseline["micro_batch_size"] == 24
    assert study.baseline["task.learning_rate"] == 1.0
    assert isinstance(study.baseline["task.learning_rate"], float)
    assert not study.space.contains(study.baseline)


def test_the_baseline_may_differ_from_a_fixed_value(load: Load) -> None:
    assert load("parameters: {precision: bf16}\nbaseline: {precision: fp32}\n").baseline == {
        "precision": "fp32"
    }


@pytest.mark.parametrize(
    ("baseline", "said"),
    [
        ("{precison: fp32}", "baseline.precison is not known; did you mean precision?"),
        (
            "{compile: true}",
            "baseline.compile is not among the parameters; add it there as a fixed value: compile: ...",
        ),
        ("{precision: fp8}", "baseline: precision=fp8 is not one of"),
        ("{micro_batch_size: many}", "baseline: micro_batch_size=many is not a number"),
        ("{threads: 3}", "threads is computed (cpus); delete it here"),
        ("[fp32]", "is not a map"),
        (
            "{task.learning_rate: 1e-3, task: {learning_rate: 1e-3}}",
            "baseline.task.learning_rate is given twice",
        ),
    ],
)
def test_a_baseline_that_cannot_be_is_refused(refuse: Refuse, baseline: str, said: str) -> None:
    assert said in refuse(f"{PARAMETERS}baseline: {baseline}\n")


def test_a_parameter_that_is_wrong_itself_is_not_called_unknown_where_it_has_a_value(refuse: Refuse) -> None:
    wrong = "parameters: {micro_batch_size: {min: 5, max: 1}}\n"
    starts = "baseline: {micro_batch_size: 2}\ntry_first: [{micro_batch_size: 3}]\n"
    said = refuse(f"{wrong}{starts}")
    assert said.count("\n") == 0 and "has its min above its max" in said


def test_a_baseline_against_a_rule_is_refused_with_the_reason(refuse: Refuse) -> None:
    text = "parameters: {micro_batch_size: [8, 16]}\nrules: ['micro_batch_size < 16']\n"
    said = refuse(f"{text}baseline: {{micro_batch_size: 16}}\n")
    assert said == (
        "space.yaml:3: the baseline cannot run: micro_batch_size < 16 does not hold with "
        "micro_batch_size=16; change the baseline"
    )


def test_defaults_against_a_rule_ask_for_a_baseline(refuse: Refuse) -> None:
    said = refuse("parameters: {micro_batch_size: [32, 16]}\nrules: ['micro_batch_size < 32']\n")
    assert said.startswith("space.yaml:1: the baseline cannot run")
    assert said.endswith("write a baseline that runs: baseline: {...}")


def test_a_value_for_a_parameter_that_is_switched_off_is_refused(refuse: Refuse) -> None:
    said = refuse(
        "parameters:\n  data_parallel_degree: [1, 2]\n"
        "  gradient_compression: {choices: [none, fp16], when: 'data_parallel_degree > 1'}\n"
        "baseline: {gradient_compression: fp16}\n"
    )
    assert "baseline.gradient_compression=fp16 has no effect" in said


def test_labels_are_taken_by_label_or_by_value(load: Load, refuse: Refuse) -> None:
    text = "workload: {kind: open}\nparameters: {c: {choices: {off: '', on: '--compile'}}}\n"
    assert load(f"{text}baseline: {{c: on}}\n").baseline == {"c": "on"}
    assert load(f"{text}baseline: {{c: --compile}}\n").baseline == {"c": "on"}
    assert "c=onn is none of its labels; did you mean on?" in refuse(f"{text}baseline: {{c: onn}}\n")


def test_a_labelled_choice_starts_at_the_label_of_the_default(load: Load) -> None:
    study = load("parameters: {precision: {choices: {half: bf16, full: fp32}}}\n")
    assert study.baseline == {"precision": "full"}


def test_a_guess_takes_the_rest_from_the_baseline(load: Load) -> None:
    study = load(
        f"{PARAMETERS}baseline: {{micro_batch_size: 16}}\n"
        f"try_first: [{{precision: bf16}}, {{env.MODE: safe}}]\n"
    )
    first, second = study.try_first
    assert (first["precision"], first["micro_batch_size"]) == ("bf16", 16)
    assert (second["precision"], second["env.MODE"]) == ("fp32", "safe")


def test_guesses_that_repeat_are_dropped_and_those_outside_are_reported(load: Load) -> None:
    study = load(
        "parameters: {precision: [fp32, bf16], micro_batch_size: [8, 16]}\n"
        "try_first:\n  - {precision: fp32}\n  - {precision: bf16}\n  - {precision: bf16}\n"
        "  - {micro_batch_size: 12}\n"
    )
    assert [guess["precision"] for guess in study.try_first] == ["bf16", "fp32"]
    said = "\n".join(study.warnings)
    assert "space.yaml:3: this guess is the baseline itself" in said
    assert "space.yaml:5: this guess is given twice" in said
    assert "space.yaml:6: this guess lies outside the space" in said


@pytest.mark.parametrize(
    ("guesses", "said"),
    [
        ("{precision: bf16}", "is not a list"),
        ("[bf16]", "is not a map"),
        ("[{precison: bf16}]", "did you mean precision?"),
        ("[{micro_batch_size: 16}]", "this guess cannot run: micro_batch_size < 16 does not hold"),
    ],
)
def test_a_guess_that_cannot_run_is_refused(refuse: Refuse, guesses: str, said: str) -> None:
    text = (
        "parameters: {precision: [fp32, bf16], micro_batch_size: [8, 16]}\nrules: ['micro_batch_size < 16']\n"
    )
    assert said in refuse(f"{text}try_first: {guesses}\n")


def test_a_mistyped_parameter_is_named_once_and_not_again_in_the_baseline(refuse: Refuse) -> None:
    said = refuse("parameters: {task.widht: [32, 64]}\nbaseline: {task.width: 32, task.widht: 64}\n")
    assert said == "space.yaml:1: task.widht is no parameter of toy; did you mean task.width?"


@pytest.mark.parametrize(
    ("domain", "value", "said"),
    [
        ("{min: 32, max: 64, scale: log2}", 48, "is between the values that are searched (32, 64)"),
        ("{min: 10, max: 40, step: 10}", 25, "is between the values that are searched (20, 30)"),
        ("{min: 10, max: 40, step: 10}", 50, "is outside the values that are searched (40)"),
    ],
)
def test_a_baseline_off_the_grid_is_said(load: Load, domain: str, value: int, said: str) -> None:
    study = load(f"parameters: {{micro_batch_size: {domain}}}\nbaseline: {{micro_batch_size: {value}}}\n")
    (warning,) = study.warnings
    assert warning.endswith(f"baseline.micro_batch_size={value} {said}")


def test_a_baseline_on_the_grid_or_in_a_continuous_range_is_not_remarked_on(load: Load) -> None:
    domains = "micro_batch_size: {min: 8, max: 64, scale: log2}, task.learning_rate: {min: 1e-4, max: 1e-2}"
    start = "baseline: {micro_batch_size: 32, task.learning_rate: 1.5e-3}"
    assert load(f"parameters: {{{domains}}}\n{start}\n").warnings == ()
