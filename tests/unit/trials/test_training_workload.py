"""The light side: what a check learns of a task and a configuration without importing torch."""

import subprocess
import sys
import textwrap

import pytest

from trials.training.task_source import read_task
from trials.workloads import workload

METHODS = """
    def model(self): ...
    def train_data(self): ...
    def validation_data(self): ...
    def loss(self, model, batch): ...
    def score(self, model, batch): ...
"""

DIGITS = {"kind": "training", "task": "trials.tasks.digits:Digits", "train_for": {"samples": 1000}}


@pytest.fixture
def training():
    return workload("training")


@pytest.fixture
def task_file(tmp_path):
    def write(text, name="my_task.py"):
        (tmp_path / name).write_text(textwrap.dedent(text).replace("    METHODS\n", METHODS))
        return tmp_path / name

    return write


def section(path, name="Mine", **more):
    return {"kind": "training", "task": f"{path}:{name}", "train_for": {"samples": 1000}, **more}


def test_a_check_of_a_training_imports_no_torch_and_no_numpy():
    program = (
        "import sys; from trials.workloads import workload; from pathlib import Path\n"
        f"t = workload('training'); s, p = t.resolve({DIGITS!r}, Path('.')); assert not p, p\n"
        "assert 'task.width' in t.knobs(s); t.rejection(s, {}, {'cpus': 1, 'gpus': 0}); t.metrics(s)\n"
        "assert not {'torch', 'numpy', 'trials.tasks.digits'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_parameters_of_a_task_are_read_from_its_source(training, task_file):
    path = task_file(
        """
        from typing import Literal
        raise RuntimeError("never imported")
        class Mine:
            def __init__(self, *, rate: float = 3e-3, width: int = 128, act: Literal["relu", "gelu"] = "relu",
                         free=None, deep: bool = False, left: "int | None" = None):
                pass
            METHODS
        """
    )
    knobs = training.knobs(section(path))
    assert knobs["task.rate"].default == 3e-3
    assert knobs["task.rate"].problem(1) is None
    assert knobs["task.rate"].problem("x") == "must be a number"
    assert knobs["task.width"].problem(1.5) == "must be a whole number; write 1 or 2"
    assert knobs["task.act"].problem("tanh") == "is not one of relu, gelu"
    assert knobs["task.deep"].problem(1) == "must be true or false"
    assert knobs["task.free"].problem([1]) is None
    assert knobs["task.left"].problem(3) is None
    assert "task.height" not in knobs


def test_a_dataclass_and_an_inherited_task_give_their_parameters_too(training, task_file):
    task_file(
        """
        from dataclasses import dataclass
        @dataclass
        class Base:
            width: int = 8
            METHODS
        """,
        "base_task.py",
    )
    path = task_file(
        """
        from base_task import Base
        class Middle(Base):
            def __init__(self, *, depth: int = 2, **others):
                super().__init__(**others)
        class Mine(Middle):
            pass
        """
    )
    resolved, problems = training.resolve(section("my_task.py"), path.parent)
    assert problems == []
    assert {"task.width", "task.depth"} <= training.knobs(resolved).keys()


def test_a_task_beside_the_space_file_gets_an_absolute_path(training, task_file):
    path = task_file("class Mine:\n    METHODS\n")
    resolved, problems = training.resolve(section("my_task.py"), path.parent)
    assert problems == []
    assert resolved["task"] == f"{path}:Mine"


def test_everything_wrong_with_a_section_is_said_at_once(training, tmp_path):
    _, problems = training.resolve(
        {"task": "gone.py:Mine", "train_for": {"epochs": 3}, "evaluate_on": 0}, tmp_path
    )
    assert [problem.key for problem in problems] == ["train_for.epochs", "evaluate_on", "task"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("gone.py:Mine", "there is no file"),
        ("no_such_package_here.tasks:Mine", "there is no module no_such_package_here"),
        ("trials.tasks.no_such:Mine", "trials has no module tasks.no_such"),
        ("trials.tasks.digits:Letters", "digits.py has no class Letters"),
        ("trials.tasks.digits", "is not a task"),
        (7, "names the task class"),
    ],
)
def test_a_task_that_is_not_there_is_said_with_a_way_out(training, tmp_path, task, message):
    _, problems = training.resolve({"task": task, "train_for": {"steps": 9}}, tmp_path)
    assert [problem.key for problem in problems] == ["task"]
    assert message in problems[0].message
    assert problems[0].way_out


def test_a_task_with_a_syntax_error_is_said_with_its_line(training, task_file):
    path = task_file("class Mine:\n    def model(self:\n")
    _, problems = training.resolve(section(path), path.parent)
    assert problems[0].message.startswith("my_task.py:2:")


def test_missing_methods_are_named_before_anything_runs(training, task_file):
    path = task_file("class Mine:\n    def model(self): ...\n    def loss(self, model, batch): ...\n")
    _, problems = training.resolve(section(path), path.parent)
    assert problems[0].message == "Mine (my_task.py) has no method train_data, validation_data, score"


@pytest.mark.parametrize(
    "train_for", [None, 100, {}, {"samples": 1, "steps": 1}, {"steps": 0}, {"steps": True}, {"steps": 1.5}]
)
def test_a_horizon_that_is_none_is_refused(training, tmp_path, train_for):
    _, problems = training.resolve({**DIGITS, "train_for": train_for}, tmp_path)
    assert problems[0].key.startswith("train_for")


@pytest.mark.parametrize(
    ("config", "parameter"),
    [
        ({"micro_batch_size": 24, "global_batch_size": 64}, "micro_batch_size"),
        ({"global_batch_size": 512}, "global_batch_size"),
        ({"threads": 3}, "threads"),
        ({"precision": "tf32"}, "precision"),
        ({"pin_memory": True}, "pin_memory"),
    ],
)
def test_a_configuration_that_cannot_run_is_rejected_by_its_parameter(training, config, parameter):
    assert training.rejection(DIGITS, config, {"cpus": 2, "gpus": 0}).key == parameter


@pytest.mark.parametrize("config", [{}, {"precision": "bf16"}, {"threads": 2}, {"micro_batch_size": 250}])
def test_a_configuration_that_can_run_is_not_rejected(training, config):
    assert training.rejection(DIGITS, config, {"cpus": 2, "gpus": 0}) is None


def test_a_gpu_format_is_not_rejected_where_there_is_a_gpu(training):
    assert (
        training.rejection(DIGITS, {"precision": "tf32", "pin_memory": True}, {"cpus": 2, "gpus": 1}) is None
    )


def test_a_parameter_without_a_default_must_be_given(training, task_file):
    path = task_file("class Mine:\n    def __init__(self, *, width: int): ...\n    METHODS\n")
    assert training.rejection(section(path), {}, {}).key == "task.width"
    assert training.rejection(section(path), {"task.width": 8}, {}) is None


def test_the_steps_that_can_be_timed_follow_from_horizon_and_batch(training):
    lm = {"task": "trials.tasks.byte_lm:ByteLM", "train_for": {"tokens": 128 * 320}}
    assert training.samples(DIGITS, {"micro_batch_size": 10}) == 97
    assert training.samples(lm, {"micro_batch_size": 32}) == 7
    assert training.samples(lm, {"micro_batch_size": 32, "task.context_length": 64}) == 17


def test_metrics_are_known_where_the_task_lists_its_own(training, task_file):
    path = task_file("class Mine:\n    METHODS\n")
    assert training.metrics(section(path)) is None
    assert {"samples_per_s", "accuracy"} <= set(training.metrics(DIGITS))
    assert "tokens_per_s" not in training.metrics(DIGITS)
    assert "tokens_per_s" in training.metrics({**DIGITS, "task": "trials.tasks.byte_lm:ByteLM"})


def test_an_edited_task_is_read_again(task_file):
    path = task_file("class Mine:\n    def __init__(self, *, a: int = 1): ...\n")
    assert list(read_task(f"{path}:Mine").parameters) == ["a"]
    import os

    path.write_text("class Mine:\n    def __init__(self, *, b: int = 1): ...\n")
    os.utime(path, ns=(1, 1))
    assert list(read_task(f"{path}:Mine").parameters) == ["b"]


def test_the_checks_and_the_trial_know_the_same_options():
    optimizers = pytest.importorskip("trials.training.optimizers", reason="needs torch")
    from trials.training import precision, task
    from trials.workloads import training as light

    knobs = {knob.name: knob for knob in light._KNOBS}
    assert set(knobs["optimizer"].choices) == set(optimizers._OPTIMIZERS)
    assert set(knobs["precision"].choices) == set(precision.PRECISIONS)
    assert light.TASK_METHODS == task.METHODS
