from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuner.space
from tests.unit.space.conftest import Load, completed
from tuner.space import SpaceError, StudyFile, load_study_file
from tuner.space.file import SECTION_NAMES

WHOLE = """
study: everything
workload: {kind: toy, train_for: {tokens: 300000}}
parameters:
  precision: [fp32, bf16]
  micro_batch_size: {min: 4, max: 64, scale: log2}
  data_parallel_degree: [1, 2]
  gradient_compression: {choices: [none, fp16], when: "data_parallel_degree > 1"}
  task.learning_rate: {min: 1e-4, max: 1e-2, scale: log}
rules: ["micro_batch_size * data_parallel_degree <= 64"]
baseline: {precision: fp32, micro_batch_size: 32}
try_first: [{precision: bf16}]
objectives: [tokens_per_s, val_loss_nats]
constraints: {val_loss_nats: {max_increase: 0.02}}
selection: {rule: knee}
budget: {trials: 40, wall_time: 30 min}
"""

SHAPES = (
    *("null", "3", "x", "true", "1e999", "[]", "{}", "[3]", "[{}]", "[[1]]"),
    *("{a: 1}", "{a: [1]}", "{a: {b: 1}}", "{max: 3}", "{kind: toy, train_for: {tokens: 1}}"),
)


def test_a_whole_file_becomes_a_study(load: Load) -> None:
    study = load(WHOLE)
    assert isinstance(study, StudyFile)
    assert study.baseline == {
        "precision": "fp32",
        "micro_batch_size": 32,
        "data_parallel_degree": 1,
        "task.learning_rate": 1e-3,
    }
    assert study.try_first == ({**study.baseline, "precision": "bf16"},)
    assert study.workload == {"kind": "toy", "train_for": {"tokens": 300000}}
    assert study.warnings == ()


def test_the_public_names_are_these() -> None:
    assert tuner.space.__all__ == [
        "Config",
        "Expression",
        "ExpressionError",
        "Parameter",
        "Problem",
        "Rejection",
        "Rule",
        "Space",
        "SpaceError",
        "StudyFile",
        "config_key",
        "definition_differences",
        "load_study_file",
        "parse_expression",
        "study_definition",
    ]


def test_reading_a_file_loads_no_heavy_library() -> None:
    program = (
        "import sys, tuner.space\n"
        "heavy = {'torch', 'ray', 'optuna', 'mlflow', 'sqlalchemy', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_problems_know_their_path_and_line(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(completed("studdy: x\n"))
    with pytest.raises(SpaceError) as caught:
        load_study_file(path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (str(path), 1)
    assert problem.message == "studdy is not known; did you mean study?"


def _mutations(text: str) -> st.SearchStrategy[str]:
    """The whole file with a piece cut out, doubled or replaced by something hostile."""
    pieces = st.sampled_from(
        [
            "",
            "[",
            "}",
            "'",
            '"',
            ": ",
            "\n",
            "\n  ",
            "- ",
            "null",
            "1e999",
            "{",
            "&a",
            "*a",
            "!!x",
            "{}",
            "[]",
            "true",
            "\t",
            "#",
        ]
    )
    return st.tuples(st.integers(0, len(text)), st.integers(0, 30), pieces).map(
        lambda cut: text[: cut[0]] + cut[2] + text[cut[0] + cut[1] :]
    )


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_mutations(WHOLE))
def test_a_damaged_file_is_read_or_refused_with_problems(load: Load, text: str) -> None:
    try:
        load(text)
    except SpaceError as error:
        assert error.problems


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SECTION_NAMES), st.sampled_from(SHAPES))
def test_any_shape_in_any_section_is_read_or_refused(load: Load, section: str, value: str) -> None:
    try:
        load(completed(f"{section}: {value}\n"))
    except SpaceError as error:
        assert error.problems
