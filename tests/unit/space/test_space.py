from __future__ import annotations

import itertools
import json
import pickle
import time

import pytest

from tests.unit.space.conftest import Load
from tuner.space import Space, config_key
from tuner.space.domains import Choice, Choices, Range
from tuner.space.space import Parameter

CONDITIONAL = """
parameters:
  data_parallel_degree: [1, 2]
  gradient_compression: {choices: [none, fp16], when: "data_parallel_degree > 1"}
  precision: [fp32, bf16, fp16]
  threads: {expr: "cpus // data_parallel_degree"}
  global_batch_size: 64
"""


def test_one_one_point_zero_and_true_are_three_configurations() -> None:
    assert len({config_key({"x": value}) for value in (1, 1.0, True, "1", None)}) == 5
    assert config_key({"a": 1, "b": 2}) == config_key({"b": 2, "a": 1})


def test_configure_drops_inactive_parameters_and_adds_fixed_and_derived_ones(load: Load) -> None:
    space = load(CONDITIONAL).space
    values = {"data_parallel_degree": 1, "gradient_compression": "fp16", "precision": "bf16"}
    assert space.configure(values) == {
        "data_parallel_degree": 1,
        "precision": "bf16",
        "threads": 4,
        "global_batch_size": 64,
    }
    assert space.configure({**values, "data_parallel_degree": 2})["gradient_compression"] == "fp16"


def test_size_counts_conditions_exactly_and_agrees_with_the_list(load: Load) -> None:
    space = load(CONDITIONAL).space
    configs = list(space.configs())
    assert space.size() == len(configs) == (1 + 2) * 3
    assert len({config_key(config) for config in configs}) == len(configs)
    assert all(map(space.contains, configs))


def test_size_multiplies_groups_that_do_not_touch(load: Load) -> None:
    lines = "".join(f"  a{n}: [1, 2]\n  b{n}: {{choices: [1, 2, 3], when: 'a{n} > 1'}}\n" for n in range(40))
    space = load(f"workload: {{kind: open}}\nparameters:\n{lines}").space
    assert space.size() == 4**40
    assert space.enumerate_valid(100) is None
    assert len(list(itertools.islice(space.configs(), 10))) == 10


def test_size_follows_chains_of_conditions(load: Load) -> None:
    space = load(
        "workload: {kind: open}\nparameters:\n"
        "  c: {choices: [1, 2, 3], when: 'b == 2'}\n"
        "  b: {choices: [1, 2], when: 'a == 2'}\n"
        "  a: [1, 2]\n"
        "  d: {expr: 'a + 1'}\n"
        "  e: {choices: [1, 2], when: 'd > 2'}\n"
    ).space
    assert space.size() == len(list(space.configs())) == 1 + (1 + 3) * 2


def test_a_continuous_parameter_has_no_size_and_no_list(load: Load) -> None:
    space = load("parameters: {task.learning_rate: {min: 0.1, max: 1.0}}\n").space
    assert space.size() is None
    assert space.enumerate_valid(10) is None
    with pytest.raises(ValueError, match=r"task\.learning_rate is continuous"):
        space.configs()


def test_a_rule_rejects_with_its_text_and_the_values(load: Load) -> None:
    space = load(
        "parameters: {micro_batch_size: [8, 16]}\nrules: ['micro_batch_size < 16']\n"
        "baseline: {micro_batch_size: 8}\n"
    ).space
    assert space.rejection({"micro_batch_size": 8}) is None
    rejection = space.rejection({"micro_batch_size": 16})
    assert rejection is not None
    assert rejection.rule == "micro_batch_size < 16"
    assert rejection.reason == "micro_batch_size < 16 does not hold with micro_batch_size=16"


def test_an_inactive_parameter_holds_its_default_in_rules(load: Load) -> None:
    space = load(
        "parameters:\n  data_parallel_degree: [1, 2]\n"
        "  micro_batch_size: {choices: [4, 8], when: 'data_parallel_degree > 1'}\n"
        "rules: ['micro_batch_size >= 8']\n"
    ).space
    assert space.rejection({"data_parallel_degree": 1}) is None  # the knob's default is 32
    assert space.rejection({"data_parallel_degree": 2, "micro_batch_size": 4}) is not None


def test_an_inactive_parameter_that_no_knob_describes_holds_its_first_value_in_rules(load: Load) -> None:
    space = load(
        "workload: {kind: open}\nparameters:\n  a: [1, 2]\n"
        "  b: {choices: [5, 9], when: 'a > 1'}\n  c: {min: 3, max: 4, when: 'a > 1'}\nrules: ['b + c < 10']\n"
    ).space
    assert space.rejection({"a": 1}) is None
    assert space.rejection({"a": 2, "b": 9, "c": 3}) is not None


def test_rules_know_knobs_that_are_not_tuned_and_the_facts(load: Load) -> None:
    space = load(
        "parameters: {tensor_parallel_degree: [1, 2, 3], data_parallel_degree: [1, 2]}\n"
        "rules: ['micro_batch_size == 32', 'world_size <= gpus', 'model.num_attention_heads % "
        "tensor_parallel_degree == 0', 'cpus == 2']\n"
        "resources: {gpus: 2, cpus: 2}\n"
    ).space
    valid = space.enumerate_valid(10)
    assert valid is not None
    assert sorted(c["tensor_parallel_degree"] * c["data_parallel_degree"] for c in valid) == [1, 2, 2]


def test_a_condition_on_world_size_waits_for_the_degrees(load: Load) -> None:
    space = load(
        "parameters:\n  gradient_compression: {choices: [none, fp16], when: 'world_size > 1'}\n"
        "  data_parallel_degree: [1, 2]\n"
    ).space
    assert space.size() == len(list(space.configs())) == 3


def test_a_rule_that_divides_by_zero_rejects_and_says_so(load: Load) -> None:
    space = load("workload: {kind: open}\nparameters: {a: [1, 0]}\nrules: ['4 / a > 1']\n").space
    rejection = space.rejection({"a": 0})
    assert rejection is not None
    assert "divides by zero with a=0" in rejection.reason


def test_a_derived_value_that_the_knob_refuses_is_a_rejection(load: Load) -> None:
    space = load(
        "parameters: {threads: {expr: 'cpus // data_parallel_degree'}, data_parallel_degree: [1, 8]}\n"
    ).space
    rejection = space.rejection(space.configure({"data_parallel_degree": 8}))
    assert rejection is not None
    assert rejection.reason == "threads=0 (cpus // data_parallel_degree) must be at least 1"


def test_a_derived_value_or_condition_that_cannot_be_computed_is_a_rejection(load: Load) -> None:
    space = load(
        "workload: {kind: open}\nparameters:\n  a: [1, 0]\n  b: {expr: '4 // a'}\n"
        "  c: {choices: [1, 2], when: '1 / a > 0'}\n"
    ).space
    config = space.configure({"a": 0})
    assert config == {"a": 0}
    rejection = space.rejection(config)
    assert rejection is not None
    assert "divides by zero" in rejection.reason
    assert not space.contains({"a": 0})


def test_the_workload_has_the_last_word(load: Load) -> None:
    space = load("parameters: {global_batch_size: 64, micro_batch_size: [32, 48]}\n").space
    rejection = space.rejection({"global_batch_size": 64, "micro_batch_size": 48})
    assert rejection is not None
    assert rejection.rule == "workload: global_batch_size"
    assert rejection.reason.endswith("is not a multiple of micro_batch_size=48; use a multiple")


def test_contains_wants_exactly_the_active_parameters(load: Load) -> None:
    space = load(CONDITIONAL).space
    config = space.configure({"data_parallel_degree": 1, "precision": "bf16"})
    assert space.contains(config)
    assert not space.contains({**config, "gradient_compression": "fp16"})
    assert not space.contains({**config, "threads": 3})
    assert not space.contains({**config, "data_parallel_degree": True})
    assert not space.contains({**config, "unknown": 3})
    assert not space.contains({key: value for key, value in config.items() if key != "precision"})


def test_resolve_replaces_labels_and_drops_null(load: Load) -> None:
    space = load(
        "workload: {kind: open}\nparameters:\n"
        "  flags: {choices: {off: '', on: '--compile'}}\n"
        "  spec: {choices: {none: null, ngram: {method: ngram}}}\n  dtype: [null, fp8]\n"
    ).space
    assert space.resolve({"flags": "on", "dtype": None}) == {"flags": "--compile"}
    assert space.resolve({"flags": "off", "dtype": "fp8"}) == {"flags": "", "dtype": "fp8"}


def test_a_space_survives_pickling_and_describes_itself_as_json(load: Load) -> None:
    space = load(CONDITIONAL).space
    copy: Space = pickle.loads(pickle.dumps(space))
    assert list(copy.configs()) == list(space.configs())
    described = space.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["parameters"]["gradient_compression"] == {
        "choices": ["none", "fp16"],
        "when": "data_parallel_degree > 1",
    }
    assert described["parameters"]["threads"] == {"expr": "cpus // data_parallel_degree"}


def test_a_space_can_be_built_by_hand_from_parameters_alone() -> None:
    choices = Choices((Choice("a", "a"), Choice("b", "b")))
    x = Parameter("x", choices, None, None, 0)
    y = Parameter("y", Range(1, 3, None, "linear", is_integer=True), None, 2, 0)
    space = Space((x, y))
    assert space.size() == 6
    assert space.configure({}) == {"x": "a", "y": 2}
    assert space.rejection({"x": "a", "y": 2}) is None


def test_enumeration_stops_at_its_limit(load: Load) -> None:
    space = load("parameters: {precision: [fp32, bf16], micro_batch_size: {min: 1, max: 50}}\n").space
    assert len(space.enumerate_valid(100) or ()) == 100
    assert space.enumerate_valid(99) is None


def test_listing_grows_in_proportion_to_the_space(load: Load) -> None:
    def seconds(values: int) -> float:
        space = load(
            f"parameters:\n  precision: [fp32, bf16, fp16]\n  micro_batch_size: {{min: 1, max: {values}}}\n"
            "  compile: [false, true]\n  task.width: {min: 8, max: 64, scale: log2}\n"
            "rules: ['micro_batch_size * task.width <= 100000', \"not (compile and precision == 'fp16')\"]\n"
        ).space
        begin = time.process_time()
        assert len(space.enumerate_valid(100_000) or ()) == values * 4 * 5
        return time.process_time() - begin

    assert seconds(400) < 40 * seconds(40)  # quadratic would be a hundred times
