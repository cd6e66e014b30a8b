"""What went wrong for real users of other tools; each test is named after the case it comes from."""

from __future__ import annotations

import json

from tests.unit.space.conftest import Load, Refuse
from tuner.space import config_key, definition_differences, study_definition
from tuner.space.domains import Choices, Range

OPEN = "workload: {kind: open}\n"


def _values(load: Load, text: str) -> list[object]:
    domain = load(f"{OPEN}parameters: {{x: {text}}}\n").space.by_name["x"].domain
    assert isinstance(domain, Choices)
    return [choice.value for choice in domain.choices]


def test_wandb_wandb_1129_a_number_with_an_exponent_is_a_number(load: Load, refuse: Refuse) -> None:
    study = load("parameters: {task.learning_rate: {min: 1e-4, max: 1e-1}}\n")
    domain = study.space.by_name["task.learning_rate"].domain
    assert isinstance(domain, Range)
    assert (domain.low, domain.high) == (1e-4, 1e-1)
    values = _values(load, "[1e-4, 3E-4, 1e5]")
    assert values == [1e-4, 3e-4, 1e5]
    assert all(type(value) is float for value in values)
    said = refuse('parameters: {task.learning_rate: ["1e-4", 3E-4]}\n')
    assert said == "space.yaml:1: task.learning_rate=1e-4 must be a number; write 1e-4 without quotes"


def test_fcp_indi_c_pac_2204_on_and_off_stay_words(load: Load, refuse: Refuse) -> None:
    assert _values(load, "[no, trt]") == ["no", "trt"]
    assert _values(load, "[on, off, yes, true]") == ["on", "off", "yes", True]
    assert "activation_checkpointing=on is not one of none, selective, full" in refuse(
        "parameters: {activation_checkpointing: [on, off]}\n"
    )
    assert "pin_memory=off must be true or false; write false" in refuse(
        "parameters: {pin_memory: [on, off]}\n"
    )


def test_wandb_wandb_1323_words_in_quotes_are_never_booleans(load: Load) -> None:
    assert _values(load, '["true", "false"]') == ["true", "false"]
    space = load(f'{OPEN}parameters: {{x: ["true", "false"]}}\n').space
    assert space.contains({"x": "true"})
    assert not space.contains({"x": True})


def test_st7ma784_mlslurmtemplate_precision_lists_may_mix_types(load: Load) -> None:
    space = load(f"{OPEN}parameters: {{precision: [32, 16, bf16]}}\n").space
    configs = list(space.configs())
    assert [config["precision"] for config in configs] == [32, 16, "bf16"]
    assert json.loads(json.dumps(configs)) == configs


def test_optuna_optuna_5683_choices_that_python_calls_equal_stay_apart(load: Load) -> None:
    study = load(f"{OPEN}parameters: {{p: [1, 1.0, true], flag: [false, 0]}}\n")
    configs = list(study.space.configs())
    assert len({config_key(config) for config in configs}) == study.space.size() == 6
    assert study.warnings == ()


def test_optuna_optuna_3129_null_is_a_choice_and_leaves_the_default(load: Load) -> None:
    space = load(f"{OPEN}parameters: {{kv_cache_dtype: [null, fp8]}}\n").space
    configs = list(space.configs())
    assert [config["kv_cache_dtype"] for config in configs] == [None, "fp8"]
    assert [space.resolve(config) for config in configs] == [{}, {"kv_cache_dtype": "fp8"}]
    assert json.loads(config_key(configs[0])) == {"kv_cache_dtype": None}


def test_wandb_wandb_982_dotted_names_and_nested_maps_are_the_same(load: Load, refuse: Refuse) -> None:
    dotted = study_definition(load(f"{OPEN}parameters: {{engine.opt_level: [1, 2]}}\n"))
    nested = study_definition(load(f"{OPEN}parameters: {{engine: {{opt_level: [1, 2]}}}}\n"))
    assert definition_differences(dotted, nested) == []
    said = refuse(f"{OPEN}parameters:\n  engine.opt_level: [1]\n  engine: {{opt_level: [1, 2]}}\n")
    assert said == "space.yaml:4: engine.opt_level is given twice (first in line 3); keep one"
    assert "engine/opt is no name for a parameter" in refuse(f"{OPEN}parameters: {{engine/opt: 3}}\n")


def test_deepspeedai_deepspeed_autotuning_names_are_stripped_and_unknown_ones_refused(
    load: Load, refuse: Refuse
) -> None:
    study = load('parameters: {"micro_batch_size ": [4, 8]}\n"budget ": {" trials": 3}\n')
    assert "micro_batch_size" in study.space.by_name
    assert study.budget.trials == 3
    said = refuse('parameters: {"gradient_acumulation ": 3}\nbugdet: {}\n')
    assert "gradient_acumulation is no parameter of toy" in said
    assert "bugdet is not known; did you mean budget?" in said


def test_optuna_optuna_2225_a_step_that_does_not_reach_the_maximum_is_said(load: Load) -> None:
    study = load(f"{OPEN}parameters: {{graphs: {{min: 8, max: 8192, step: 128}}}}\n")
    assert "graphs: 8192 is never tried, the last value is 8072" in study.warnings[0]
    assert study.space.size() == 64


def test_kubeflow_katib_2446_log_from_zero_is_refused_with_the_fix(refuse: Refuse) -> None:
    said = refuse(f"{OPEN}parameters:\n  bs: {{min: 0, max: 8, scale: log}}\n")
    assert said == (
        "space.yaml:3: bs={min: 0, max: 8, scale: log} cannot begin at 0 with scale: log; "
        "write min: 1, or scale: linear"
    )
    assert "bs.low is not known; write min" in refuse(
        f"{OPEN}parameters:\n  bs: {{low: 0, high: 8, log: true}}\n"
    )


def test_optuna_optuna_1329_log_with_a_step_is_refused_with_the_powers(refuse: Refuse) -> None:
    said = refuse(f"{OPEN}parameters:\n  bs: {{min: 1, max: 64, scale: log, step: 2}}\n")
    assert "space.yaml:3: bs=" in said
    assert "scale: log2 alone (1, 2, 4, 8, 16, ...)" in said


def test_openshift_psap_auto_tuning_vllm_a_space_of_one_point_is_a_space(load: Load) -> None:
    study = load(f"{OPEN}parameters: {{kv_cache_dtype: [fp8]}}\n")
    assert study.space.size() == 1
    assert study.space.enumerate_valid(10) == [{"kv_cache_dtype": "fp8"}] == [study.baseline]
    assert not study.space.parameters[0].is_searched


def test_optuna_optuna_2021_a_configuration_has_one_key_and_the_space_an_end(load: Load) -> None:
    space = load(f"{OPEN}parameters: {{a: [1, 2], b: [x, y]}}\n").space
    configs = space.enumerate_valid(20)
    assert configs is not None
    assert len({config_key(config) for config in configs}) == space.size() == 4


def test_openshift_psap_auto_tuning_vllm_82_relations_between_parameters_are_rules(load: Load) -> None:
    space = load(
        f"{OPEN}parameters: {{max_num_seqs: [64, 512], max_num_batched_tokens: [128, 1024]}}\n"
        "rules: ['max_num_seqs <= max_num_batched_tokens']\n"
    ).space
    rejections = [space.rejection(config) for config in space.configs()]
    assert [r.rule for r in rejections if r] == ["max_num_seqs <= max_num_batched_tokens"]


def test_vllm_project_vllm_4232_degrees_are_checked_against_the_model_and_the_machine(load: Load) -> None:
    space = load(
        "parameters: {tensor_parallel_degree: [1, 2, 3, 4, 6]}\n"
        "rules: ['model.num_attention_heads % tensor_parallel_degree == 0', 'world_size <= gpus']\n"
        "resources: {gpus: 3}\n"
    ).space
    valid = space.enumerate_valid(10)
    assert valid is not None
    assert [config["tensor_parallel_degree"] for config in valid] == [1, 2]
    rejection = space.rejection({"tensor_parallel_degree": 3})
    assert rejection is not None
    assert "with model.num_attention_heads=40, tensor_parallel_degree=3" in rejection.reason


def test_deepspeedai_deepspeed_6914_batch_sizes_that_contradict_are_said_with_the_numbers(
    refuse: Refuse,
) -> None:
    said = refuse("parameters: {global_batch_size: 8, micro_batch_size: 3}\n")
    assert (
        "the baseline cannot run: global_batch_size: global_batch_size=8 is not a multiple of "
        "micro_batch_size=3" in said
    )
