"""From template and configuration to arguments and environment."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.command.conftest import MakeSpec
from trials.command.template import (
    MissingVariableError,
    Secrets,
    Template,
    known_values,
    shell_word,
    text_of,
    variable_name,
    variables,
)


def arguments(run: list[Any], **known: Any) -> list[str]:
    return Template(known).arguments(run)


def test_known_names_are_replaced_and_all_other_braces_are_left_alone() -> None:
    run = [
        "--batch={batch_size}",
        "{print $1}",
        "{}",
        "{other}",
        "{{batch_size}}",
        "${batch_size}",
        '{"a": {batch_size}}',
    ]
    assert arguments(run, batch_size=8) == [
        "--batch=8",
        "{print $1}",
        "{}",
        "{other}",
        "{8}",
        "${batch_size}",
        '{"a": 8}',
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (1.0, "1.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-7, "1e-07"),
        ("two words", "two words"),
        ([4, 8], "[4, 8]"),
        ({"a": True}, '{"a": true}'),
    ],
)
def test_values_are_written_so_that_they_read_back_equal(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_a_value_with_braces_is_not_replaced_again() -> None:
    assert arguments(["{a}"], a="{b}", b="no") == ["{b}"]


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_parameter_without_a_value_takes_its_argument_away(nothing: Any) -> None:
    assert arguments(["go", "{a}", "--a={a}", "end"], a=nothing) == ["go", "end"]


def test_a_nested_list_comes_or_goes_whole() -> None:
    run = ["go", ["--a", "{a}"], ["--b", "{b}", "x{c}"], "end"]
    assert arguments(run, a=None, b=1, c=2) == ["go", "--b", "1", "x2", "end"]
    assert arguments(run, a=1, b=1, c=None) == ["go", "--a", "1", "end"]


def test_false_and_zero_are_values() -> None:
    assert arguments(["{a}", "{b}"], a=False, b=0) == ["false", "0"]


def test_a_labelled_choice_of_an_empty_text_adds_no_argument() -> None:
    assert arguments(["go", "{compile}"], compile="") == ["go"]
    assert arguments(["go", "{compile}"], compile="--compile") == ["go", "--compile"]


def test_a_maps_own_keys_are_reached_with_a_dot(make_spec: MakeSpec) -> None:
    spec = make_spec({"run": ["true"]}, config={"batching": {"size": 4, "wait": {"ms": 2}}})
    known = known_values(spec)
    assert arguments(["{batching.size}", "{batching.wait.ms}"], **known) == ["4", "2"]
    assert arguments(["{batching.other}", "end"], **known) == ["end"]  # another choice has it


def test_an_inactive_parameter_is_known_and_has_no_value(make_spec: MakeSpec) -> None:
    spec = make_spec({"run": ["true"]}, config={"level": None, "a": 1})
    assert arguments(["go", ["-l", "{level}"], "{a}"], **known_values(spec)) == ["go", "1"]


def test_the_built_in_names_say_where_the_trial_is(make_spec: MakeSpec) -> None:
    spec = make_spec({"run": ["true"]}, seed=7, cpus=(3, 5, 6))
    filled = arguments(["{trial_dir}", "{cache_dir}", "{seed}", "{cpus}"], **known_values(spec))
    assert filled == [str(spec.trial_dir), str(spec.cache_dir), "7", "3"]


def test_a_parameter_wins_over_a_built_in_name(make_spec: MakeSpec) -> None:
    assert known_values(make_spec({"run": ["true"]}, seed=7, config={"seed": 1}))["seed"] == 1


def test_names_left_alone_are_remembered() -> None:
    template = Template({"batch_size": 8})
    template.arguments(["{batch_sise}", "{batch_size}"])
    assert template.unknown == {"batch_sise"}


@settings(max_examples=60, deadline=None, database=None)
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20))
def test_a_shell_reads_a_word_back_as_it_was(text: str) -> None:
    said = subprocess.run(["sh", "-c", f"printf %s {shell_word(text)}"], capture_output=True, check=True)
    assert said.stdout.decode() == text


def test_the_variable_of_a_parameter_is_its_name_in_capitals() -> None:
    assert variable_name("batch_size") == "TUNER_BATCH_SIZE"
    assert variable_name("task.learning_rate") == "TUNER_TASK__LEARNING_RATE"
    assert variable_name("engine-args.x") == "TUNER_ENGINE_ARGS__X"


def test_env_parameters_set_their_variable_and_win_over_the_section() -> None:
    config = {"env.OMP_NUM_THREADS": 2, "fast": True, "left_out": None}
    found = variables(config, {"OMP_NUM_THREADS": "9", "MODE": "m-{fast}"}, Template(config))
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["MODE"] == "m-true"
    assert found["TUNER_FAST"] == "true"
    assert "TUNER_LEFT_OUT" not in found


def test_a_boolean_env_parameter_is_1_or_0() -> None:
    found = variables({"env.A": True, "env.B": False}, {}, Template({}))
    assert (found["A"], found["B"]) == ("1", "0")


def test_a_secret_is_put_in_and_taken_out_again() -> None:
    secrets = Secrets({"TOKEN": "hunter22", "N": "1"})
    assert secrets.reveal("--token=${TOKEN} -n ${N}") == "--token=hunter22 -n 1"
    assert secrets.hide("refused hunter22 in line 1") == "refused ${TOKEN} in line 1"


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(MissingVariableError, match="TOKEN is not set"):
        Secrets({}).reveal("${TOKEN}")
