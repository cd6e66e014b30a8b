"""The light side of inference: what a check learns of a task, a model and a configuration without an engine."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.workload_suite import WorkloadSuite
from trials.inference import engines
from trials.workloads import workload
from trials.workloads.inference import model_form

DIGITS = "trials.tasks.digits_classifier:DigitsClassifier"
MINILM = "trials.tasks.minilm_retrieval:MiniLMRetrieval"
WORLD = {"cpus": 2, "gpus": 0}
METHODS = """
    def evaluation_data(self): ...
    def score(self, outputs): ...
"""


class TestInferenceWorkload(WorkloadSuite):
    kind = "inference"

    def good_section(self, folder: Path) -> dict[str, Any]:
        return {"kind": "inference", "task": DIGITS, "evaluate_on": 900, "window_s": 1.5}


class TestInferenceWorkloadWithAFile(WorkloadSuite):
    kind = "inference"

    def good_section(self, folder: Path) -> dict[str, Any]:
        (folder / "mine.py").write_text(f"class Mine:\n    metrics = ('accuracy',)\n{METHODS}")
        (folder / "model.onnx").write_bytes(b"")
        return {"kind": "inference", "task": "mine.py:Mine", "model": "model.onnx"}

    def test_the_baseline_of_defaults_is_never_rejected(self, subject: Any, resolved: Any) -> None:
        assert subject.rejection(resolved, {}, WORLD).key == "engine"  # PyTorch cannot read the file


@pytest.fixture
def inference():
    return workload("inference")


@pytest.fixture
def wrong(inference, tmp_path):
    """What is wrong with a section around a class of this source."""

    def look(source: str = METHODS, **section: Any) -> list[str]:
        (tmp_path / "mine.py").write_text(f"class Mine:\n{textwrap.indent(textwrap.dedent(source), '    ')}")
        _, problems = inference.resolve({"kind": "inference", "task": "mine.py:Mine", **section}, tmp_path)
        return [f"{p.key}: {p.message}; {p.way_out}" for p in problems]

    return look


def rejected(inference, config, section=None, world=WORLD):
    problem = inference.rejection(section or {"kind": "inference", "task": DIGITS}, config, world)
    return problem and f"{problem.key}: {problem.message}; {problem.way_out}"


def test_a_model_comes_from_the_task_or_from_the_section(wrong, tmp_path):
    assert "has no method model or onnx_file" in wrong()[0]
    assert wrong(METHODS + "    def model(self): ...\n") == []
    assert wrong(METHODS + "    def onnx_file(self): ...\n") == []
    both = METHODS + "    def model(self): ...\n    def onnx_file(self): ...\n"
    assert "has both model and onnx_file" in wrong(both)[0]
    (tmp_path / "net.onnx").write_bytes(b"")
    (tmp_path / "net.py").write_text("def build(): ...\n")
    assert wrong(model="net.onnx") == []
    assert wrong(model="net.py:build") == []


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("away.onnx", "there is no file"),
        ("away.py:build", "there is no file"),
        ("build", "is not a task"),
        (3, "names the model to serve"),
    ],
)
def test_a_model_that_is_not_there_is_said_with_both_ways_to_name_one(wrong, model, said):
    (problem,) = wrong(model=model)
    assert problem.startswith("model: ") and said in problem
    assert "model.onnx" in problem and "my_model.py:build" in problem


def test_a_task_says_at_a_check_which_packages_it_needs(wrong):
    needs = METHODS + "    def model(self): ...\n    needs = {'not_there_at_all': 'pip install something'}\n"
    assert wrong(needs) == ["task: Mine needs the package not_there_at_all; pip install something"]
    assert wrong(needs.replace("not_there_at_all", "json")) == []


def test_the_form_of_the_model_is_read_from_section_and_source():
    assert model_form({"task": DIGITS}) == "module"
    assert model_form({"task": DIGITS, "model": "/a/b.onnx"}) == "onnx"
    assert model_form({"task": "trials.tasks.magika_files:MagikaFiles"}) == "onnx"
    assert model_form({"task": "trials.tasks.magika_files:MagikaFiles", "model": "net.py:build"}) == "module"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"instances": 3}, "instances: instances=3 want a core each, a trial has 2; use at most 2"),
        (
            {"instances": 2, "threads": 2},
            "threads: instances=2 with threads=2 each want 4 cores, a trial has 2; use at most 1, or fewer instances",
        ),
        ({"threads": 3}, "threads: threads=3 is more than the 2 cores of a trial; use at most 2"),
        (
            {"provider": "cuda"},
            "provider: provider=cuda needs a GPU, the trial has none; use cpu",
        ),
    ],
)
def test_what_cannot_run_is_rejected_with_the_legal_values(inference, config, said):
    assert rejected(inference, config) == said


def test_a_precision_that_an_engine_lacks_names_those_that_it_has(inference):
    said = rejected(inference, {"engine": "onnxruntime", "precision": "bf16"})
    assert said.startswith("precision: engine=onnxruntime has no precision=bf16; use fp32, ")


def test_layouts_that_fit_are_not_rejected(inference):
    for config in ({"instances": 2, "threads": 1}, {"instances": 1, "threads": 2}, {"instances": 2}):
        assert rejected(inference, config) is None


def test_only_a_package_that_is_missing_is_told_apart(inference, monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "torchao" else object())
    section = {"kind": "inference", "task": DIGITS}
    problem = inference.rejection(section, {"precision": "int8_dynamic"}, WORLD)
    assert problem.is_not_installed
    assert 'pip install "tuner[torchao]"' in problem.way_out
    assert inference.rejection(section, {"precision": "fp32"}, WORLD) is None
    assert not inference.rejection(
        section, {"precision": "int8_dynamic", "threads": 9}, WORLD
    ).is_not_installed


def test_metrics_follow_from_what_the_task_scores(inference):
    digits = inference.metrics({"task": DIGITS})
    assert {"samples_per_s", "accuracy", "accuracy_recovery_pct", "latency_p99_ms"} <= set(digits)
    assert not {"padding_waste_pct", "mean_reciprocal_rank_recovery_pct"} & set(digits)
    text = inference.metrics({"task": MINILM})
    assert {"padding_waste_pct", "tokens_per_s", "mean_reciprocal_rank_recovery_pct"} <= set(text)


def test_a_window_is_a_number_of_seconds_above_0(wrong):
    model = METHODS + "    def model(self): ...\n"
    for window in (0, -1, "3", True, float("inf"), float("nan")):
        assert "write window_s: 3" in wrong(model, window_s=window)[0]
