"""``tuner check`` of inference: what is missing, what is too small, what cannot run; each at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import Tuner
from trials.inference import engines

MODULES = {"onnxruntime", "onnx", "onnxscript", "openvino", "nncf", "torchao"}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The engines' packages that are installed: all, whatever this machine has; a test takes some out."""
    there = set(MODULES)
    monkeypatch.setattr(engines, "find_spec", lambda name: object() if name in there else None)
    return there


def space(**changed: Any) -> dict[str, Any]:
    return {
        "study": "served",
        "workload": {
            "kind": "inference",
            "task": "trials.tasks.digits_classifier:DigitsClassifier",
            "evaluate_on": 990,
        },
        "parameters": {"engine": ["torch", "onnxruntime"], "precision": ["fp32", "int8_dynamic"]},
        "objectives": ["samples_per_s", "accuracy"],
        "constraints": {"accuracy_recovery_pct": {"min": 99}},
        **changed,
    }


@pytest.fixture
def checked(tuner: Tuner) -> Any:
    def check(**changed: Any) -> Any:
        Path("served.yaml").write_text(yaml.safe_dump(space(**changed), sort_keys=False))
        return tuner("check", "served.yaml")

    return check


def line_of(word: str) -> int:
    lines = Path("served.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if word in line)


def test_a_space_whose_packages_are_installed_is_counted(checked: Any) -> None:
    said = checked()
    assert (said.code, said.err) == (0, "")
    assert "4 configurations" in said.out


def test_a_missing_package_is_an_error_at_its_parameter_with_the_command_that_installs_it(
    checked: Any, installed: set[str]
) -> None:
    installed.discard("onnxruntime")
    said = checked()
    assert said.code == 2
    assert (
        f"served.yaml:{line_of('engine:')}: engine: engine=onnxruntime needs the package onnxruntime"
        in said.err
    )
    assert 'pip install "tuner[onnxruntime]"' in said.err


def test_a_package_that_only_a_precision_needs_is_said_at_the_precision(
    checked: Any, installed: set[str]
) -> None:
    installed.discard("torchao")
    said = checked()
    assert said.code == 2
    assert f"served.yaml:{line_of('precision:')}: precision: precision=int8_dynamic" in said.err


def test_a_package_is_not_missed_where_a_rule_leaves_its_configurations_out(
    checked: Any, installed: set[str]
) -> None:
    installed.discard("torchao")
    said = checked(rules=["engine == 'onnxruntime' or precision == 'fp32'"])
    assert (said.code, said.err) == (0, "")


def test_a_run_is_refused_like_a_check(tuner: Tuner, checked: Any, installed: set[str]) -> None:
    installed.discard("torchao")
    assert checked().code == 2
    said = tuner("run", "served.yaml", "--dry-run")
    assert said.code == 2 and 'pip install "tuner[torchao]"' in said.err


def test_an_evaluation_that_cannot_decide_the_limit_is_refused_with_how_many_it_takes(checked: Any) -> None:
    workload = {**space()["workload"], "evaluate_on": 200}
    said = checked(workload=workload)
    assert said.code == 2
    assert f"served.yaml:{line_of('min: 99')}" in said.err
    assert "200 examples cannot decide it" in said.err and "at least 278" in said.err
    assert checked(workload=workload, constraints={"accuracy_recovery_pct": {"min": 98}}).code == 0


def test_more_threads_than_cores_are_rejected_and_counted(checked: Any) -> None:
    said = checked(parameters={"instances": [1, 2], "threads": [1, 2]}, resources={"cpus": 2}, constraints={})
    assert said.code == 0
    assert "1 rejected by: workload: threads" in said.out


def test_a_baseline_that_an_engine_lacks_names_the_legal_values(checked: Any) -> None:
    said = checked(
        parameters={"engine": ["onnxruntime", "torch"], "precision": ["fp32", "bf16"]},
        baseline={"engine": "onnxruntime", "precision": "bf16"},
    )
    assert said.code == 2
    assert "engine=onnxruntime has no precision=bf16; use fp32" in said.err
