"""A recorded study's file read again, with a configuration of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.space.conftest import Load
from tuner.space import SpaceError, StudyFile, study_definition
from tuner.space.recorded import read_recorded
from tuner.space.space import Config

TEXT = """\
parameters:
  precision: [fp32, bf16]
  micro_batch_size: {min: 4, max: 64, scale: log2}
  global_batch_size: 64
  compile: {choices: [false, true], when: "precision == 'bf16'"}
rules: ["not (precision == 'fp32' and micro_batch_size == 64)"]
baseline: {precision: fp32, micro_batch_size: 32}
"""


def again(study: StudyFile, **wanted: str) -> tuple[StudyFile, Config]:
    return read_recorded(study.text, study.path, wanted, cpus=4)


def test_the_rest_of_a_configuration_is_as_in_the_baseline(load: Load) -> None:
    _, config = again(load(TEXT), micro_batch_size="8")
    assert config == {"precision": "fp32", "micro_batch_size": 8, "global_batch_size": 64}


def test_values_are_read_as_yaml_and_bring_in_what_they_switch_on(load: Load) -> None:
    _, config = again(load(TEXT), precision="bf16", compile="true")
    assert (config["precision"], config["compile"], config["micro_batch_size"]) == ("bf16", True, 32)


def test_overrides_of_the_run_are_part_of_what_was_recorded(load: Load) -> None:
    study = load(TEXT, {"baseline.micro_batch_size": "16", "budget.trials": "3"})
    reread, config = again(study, precision="fp32")
    assert config["micro_batch_size"] == 16
    assert reread.budget.trials == 3
    assert reread.text == study.text
    assert study_definition(reread) == study_definition(study)


def test_the_file_itself_is_not_needed(load: Load) -> None:
    study = load(TEXT)
    Path(study.path).unlink()
    assert again(study, micro_batch_size="4")[1]["micro_batch_size"] == 4


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"micro_batchsize": "8"}, "micro_batchsize=8: try.micro_batchsize is not known; did you mean micro_"),
        ({"micro_batch_size": "lots"}, "micro_batch_size=lots: try: micro_batch_size=lots is not a number; write"),
        ({"precision": "fp31"}, "precision=fp31: try: precision=fp31"),
        ({"micro_batch_size": "64"}, "micro_batch_size=64: this guess cannot run: not (precision == 'fp32' and"),
        ({"compile": "true"}, "compile=true: try.compile=true has no effect"),
        ({"precision": "[fp32"}, "precision=[fp32: is not YAML"),
    ],
)  # fmt: skip
def test_what_is_illegal_is_one_line_that_names_the_argument(
    load: Load, wanted: dict[str, str], said: str
) -> None:
    with pytest.raises(SpaceError) as caught:
        again(load(TEXT), **wanted)
    assert len(caught.value.problems) == 1
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("value", ["1e999", "-.inf", ".nan", "9" * 400, "[1, .inf]", "{a: .nan}"])
@pytest.mark.parametrize("parameter", ["env.RATE: {min: 0.5, max: 2.0}", "env.RATE: [1, 2]"])
def test_a_number_that_is_none_is_refused_wherever_it_is_given(
    load: Load, parameter: str, value: str
) -> None:
    text = f"parameters:\n  {parameter}\n"
    for give in (
        lambda: again(load(f"{text}baseline: {{env.RATE: 1}}\n"), **{"env.RATE": value}),
        lambda: load(f"{text}baseline: {{env.RATE: {value}}}\n"),
        lambda: load(f"{text}try_first: [{{env.RATE: {value}}}]\nbaseline: {{env.RATE: 1}}\n"),
    ):
        with pytest.raises(SpaceError, match=r"env\.RATE=.* is not a (finite )?number; write a number"):
            give()
