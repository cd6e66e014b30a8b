"""``tuner init``: the file is valid as it is, fits the machine, and overwrites nothing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cli.conftest import Tuner
from tests.unit.cli_first_steps.conftest import (
    LAPTOP,
    MACHINES,
    ONE_CORE,
    SERVER,
    WITH_H200,
    WITH_TWO_T4,
)
from tuner.cli.draft.command import command_draft
from tuner.cli.draft.text import text_of
from tuner.cli.errors import CliError
from tuner.cli.hardware import Hardware
from tuner.space import load_study_file
from tuner.space.domains import Choices, Range
from tuner.space.model import StudyFile

TASK = """\
from typing import Literal

class Spirals:
    metrics = ("val_loss_nats", "accuracy")
    def __init__(self, *, learning_rate: float = 1e-3, width: int = 64, heads: int = 4, norm: bool = True,
                 activation: Literal["relu", "gelu"] = "gelu", dropout: float = 0.0):
        self.learning_rate = learning_rate
    def model(self): ...
    def train_data(self): ...
    def validation_data(self): ...
    def loss(self, model, batch): ...
    def score(self, model, batch): ...
"""
SCRIPT = 'import json, sys\njson.dump({"samples_per_s": 1.0, "accuracy": 0.5, "own": 2}, open(sys.argv[-1], "w"))\n'
On = Callable[[Hardware], None]


def loaded(path: str, hardware: Hardware = SERVER) -> StudyFile:
    return load_study_file(Path(path), cpus=hardware.cores, gpus=hardware.gpus)


def values(file: StudyFile, name: str) -> list[object]:
    domain = next(parameter.domain for parameter in file.space.parameters if parameter.name == name)
    assert isinstance(domain, Choices)
    return list(domain.values())


def ends(file: StudyFile, name: str) -> tuple[float, float, str]:
    domain = next(parameter.domain for parameter in file.space.parameters if parameter.name == name)
    assert isinstance(domain, Range)
    return domain.low, domain.high, str(domain.scale)


@pytest.mark.parametrize("kind", ["training", "inference", "command"])
def test_the_file_of_each_kind_passes_check_unchanged_on_this_very_machine(kind: str, tuner: Tuner) -> None:
    said = tuner("init", "--kind", kind, "-o", "first.yaml")
    assert (said.code, said.out) == (0, "")
    assert said.err.splitlines()[-1] == "next: tuner check first.yaml"
    checked = tuner("check", "first.yaml")
    assert (checked.code, checked.err) == (0, "")


@pytest.mark.parametrize("kind", ["training", "inference", "command"])
@pytest.mark.parametrize("hardware", MACHINES, ids=str)
def test_the_file_is_valid_on_every_kind_of_machine(
    hardware: Hardware, kind: str, tuner: Tuner, on: On
) -> None:
    on(hardware)
    assert tuner("init", "--kind", kind, "-o", "first.yaml").code == 0
    file = loaded("first.yaml", hardware)
    assert file.warnings == ()
    assert file.space.rejection(file.baseline) is None


def test_a_task_of_the_folder_is_found_and_its_defaults_are_the_baseline(tuner: Tuner, on: On) -> None:
    on(SERVER)
    Path("my_task.py").write_text(TASK)
    Path("broken.py").write_text("class (")
    assert tuner("init").code == 0
    file = loaded("spirals.yaml")
    assert values(file, "precision") == ["fp32", "bf16"]
    assert values(file, "loader_workers") == [0, 1]
    assert values(file, "threads") == [1, 2]
    assert values(file, "task.activation") == ["gelu", "relu"]
    assert values(file, "task.norm") == [True, False]
    assert ends(file, "task.learning_rate") == (1e-4, 1e-2, "log")
    assert ends(file, "task.width") == (32, 128, "log2")
    assert {name: file.baseline[name] for name in ("precision", "threads", "task.width", "task.dropout")} == {
        "precision": "fp32", "threads": 2, "task.width": 64, "task.dropout": 0.0,
    }  # fmt: skip
    assert [objective.metric for objective in file.objectives] == ["samples_per_s", "val_loss_nats"]
    assert {limit.metric for limit in file.constraints} == {"peak_memory_gib", "accuracy"}


def test_what_stays_at_its_default_only_needs_its_comment_taken_away(tuner: Tuner, on: On) -> None:
    on(SERVER)
    Path("my_task.py").write_text(TASK)
    assert tuner("init").code == 0
    text = Path("spirals.yaml").read_text()
    assert "  # task.heads: {min: 2, max: 8, scale: log2}" in text and "left at its default, 4" in text
    Path("spirals.yaml").write_text(text.replace("  # task.heads", "  task.heads"))
    file = loaded("spirals.yaml")
    assert ends(file, "task.heads") == (2, 8, "log2")
    assert file.baseline["task.heads"] == 4


@pytest.mark.parametrize(
    ("flag", "domain"),
    [
        ("--degree 6", (3, 12, "linear")),
        ("--degree 8", (4, 16, "log2")),
        ("--degree 1", (1, 2, "linear")),
        ("--points 100", (52, 196, "linear")),
    ],
)
def test_a_whole_number_is_tried_from_half_to_double(
    flag: str, domain: tuple[float, float, str], tuner: Tuner
) -> None:
    Path("run.py").write_text("")
    assert tuner("init", "--run", f"python run.py {flag}").code == 0
    file = loaded("run.yaml")
    assert ends(file, flag.split()[0].lstrip("-")) == domain
    assert file.warnings == (), "the value of today is one of those that are tried"


def test_a_wide_format_is_tried_against_a_narrower_one(tuner: Tuner, on: On) -> None:
    on(SERVER)
    Path("run.py").write_text("")
    assert tuner("init", "--run", "python run.py --dtype float64").code == 0
    assert values(loaded("run.yaml"), "dtype") == ["float64", "float32", "bfloat16"]


def test_several_tasks_in_the_folder_are_named_and_none_is_guessed(tuner: Tuner) -> None:
    Path("a.py").write_text(TASK)
    Path("b.py").write_text(TASK)
    said = tuner("init")
    assert said.code == 2
    assert "a.py:Spirals, b.py:Spirals; choose one with --task" in said.line


def test_tokens_are_the_horizon_of_a_task_that_counts_them(tuner: Tuner) -> None:
    assert tuner("init", "--task", "trials.tasks.byte_lm:ByteLM").code == 0
    file = loaded("byte_lm.yaml")
    assert file.workload["train_for"] == {"tokens": 256_000}
    assert [objective.metric for objective in file.objectives] == ["tokens_per_s", "val_loss_nats"]


def test_an_own_metric_is_an_objective_with_a_direction(tuner: Tuner) -> None:
    Path("t.py").write_text(TASK.replace('("val_loss_nats", "accuracy")', '("f1",)'))
    assert tuner("init").code == 0
    speed, quality = loaded("spirals.yaml").objectives
    assert (speed.metric, quality.metric, quality.direction) == ("samples_per_s", "f1", "maximize")


def test_only_what_the_hardware_is_fast_in_is_offered(tuner: Tuner, on: On) -> None:
    offered = {}
    for name, hardware in {"laptop": LAPTOP, "h200": WITH_H200, "t4": WITH_TWO_T4, "one": ONE_CORE}.items():
        on(hardware)
        assert tuner("init", "-o", f"{name}.yaml").code == 0
        file = loaded(f"{name}.yaml", hardware)
        names = {parameter.name for parameter in file.space.parameters}
        offered[name] = (
            values(file, "precision") if "precision" in names else [],
            "pin_memory" in names,
            "threads" in names,
            file.search.concurrent_trials,
        )
    assert offered == {
        "laptop": ([], False, True, 1),
        "h200": (["fp32", "tf32", "bf16"], True, False, 1),
        "t4": (["fp32", "fp16"], True, False, 2),
        "one": ([], False, False, 1),
    }


def test_flags_become_parameters_around_their_values_of_today(tuner: Tuner, on: On) -> None:
    on(SERVER)
    Path("train.py").write_text(SCRIPT)
    line = (
        "OMP_NUM_THREADS=2 python train.py --batch-size 48 --lr=1e-3 --epochs 3 --seed 7 --compile "
        "--dtype float32 optim.weight_decay=0.0 --name 'a b: {' --out metrics.json"
    )
    assert tuner("init", "--run", line).code == 0
    file = loaded("train.yaml")
    assert ends(file, "batch_size") == (12, 192, "log2")
    assert ends(file, "lr") == (1e-4, 1e-2, "log")
    assert values(file, "dtype") == ["float32", "bfloat16"]
    assert values(file, "optim_weight_decay") == [0.0, 0.01, 0.1]
    assert values(file, "compile") == ["with", "without"]
    assert file.baseline == {
        "batch_size": 48, "lr": 1e-3, "dtype": "float32", "optim_weight_decay": 0.0, "compile": "with",
    }  # fmt: skip
    assert file.workload["run"][1:] == [
        "train.py", ["--batch-size", "{batch_size}"], "--lr={lr}", ["--epochs", "3"], ["--seed", "{seed}"],
        "{compile}", ["--dtype", "{dtype}"], "optim.weight_decay={optim_weight_decay}", ["--name", "a b: {"],
        ["--out", "{trial_dir}/metrics.json"],
    ]  # fmt: skip
    assert file.workload["env"] == {"OMP_NUM_THREADS": "2"}
    assert [objective.metric for objective in file.objectives] == ["samples_per_s", "accuracy"]


def test_without_a_known_name_every_number_that_may_vary_is_tuned_and_the_doubt_is_said(tuner: Tuner) -> None:
    Path("run.py").write_text("")
    assert tuner("init", "--run", "python run.py --grid 12 --tol 1e-6 --epochs 4 -n -3").code == 0
    file = loaded("run.yaml")
    assert [parameter.name for parameter in file.space.parameters] == ["grid", "tol"]
    assert [objective.metric for objective in file.objectives] == ["wall_time_s"]
    assert "the fastest wins whatever it learns" in Path("run.yaml").read_text()


def test_a_flag_given_twice_stays_as_it_is(tuner: Tuner) -> None:
    Path("run.py").write_text("")
    assert tuner("init", "--run", "python run.py --lr 0.1 --dim 8 --dim 16").code == 0
    assert [parameter.name for parameter in loaded("run.yaml").space.parameters] == ["lr"]


def test_paths_are_written_for_the_folder_of_the_file(tuner: Tuner, workplace: Path) -> None:
    Path("spaces").mkdir()
    Path("train.py").write_text(SCRIPT)
    Path("my_task.py").write_text(TASK)
    assert tuner("init", "--run", "python train.py --lr 0.1", "-o", "spaces/a.yaml").code == 0
    assert tuner("init", "--task", "my_task.py:Spirals", "-o", "spaces/b.yaml").code == 0
    assert loaded("spaces/a.yaml").workload["working_directory"] == str(workplace)
    assert loaded("spaces/b.yaml").workload["task"] == f"{workplace / 'my_task.py'}:Spirals"


def test_a_python_that_is_not_ours_is_kept(
    tuner: Tuner, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = workplace / "bin" / "python"
    other.parent.mkdir()
    other.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(other.parent))
    Path("train.py").write_text(SCRIPT)
    assert tuner("init", "--run", "python train.py --lr 0.1").code == 0
    assert loaded("train.yaml").workload["run"][0] == "python"


def test_a_file_that_is_there_is_never_overwritten_unless_forced(tuner: Tuner) -> None:
    Path("digits.yaml").write_text("mine")
    said = tuner("init")
    assert said.code == 2
    assert "digits.yaml exists and is left as it is; -o FILE writes another, --force overwrites" in said.err
    assert Path("digits.yaml").read_text() == "mine"
    assert tuner("init", "--force").code == 0
    assert loaded("digits.yaml").name == "digits"


def test_a_dash_prints_the_file_and_writes_nothing(tuner: Tuner, workplace: Path) -> None:
    said = tuner("init", "-o", "-")
    assert said.code == 0
    assert said.out.startswith("# yaml-language-server")
    assert list(workplace.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "t.py:T", "--run", "true"], "use one of them"),
        (["--kind", "serving"], "--kind serving: no such kind to begin with; write training, inference or command"),
        (["--kind", "command", "--task", "t.py:T"], "--kind command does not go with --task"),
        (["--kind", "training", "--run", "true --lr 1.0"], "--kind training does not go with --run"),
        (["--task", "t.py:T"], "there is no file t.py"),
        (["--task", "required.py:T"], "T.__init__ (required.py) has no default for size; give it the value"),
        (["--task", "half.py:T"], "has no method model"),
        (["--run", ""], "names no program"),
        (["--run", "true 'x"], "No closing quotation"),
        (["--run", "true --lr 0.1 | tee log"], "'|' is for a shell"),
        (["--run", "true --lr 0.1 >log"], "'>log' is for a shell"),
        (["--run", "true --lr $LR"], "'$LR' is for a shell"),
        (["--run", "true --lr {lr}"], "today's value of {lr} is not known"),
        (["--run", "true --flag"], "has no flag to tune"),
        (["--run", "python gone.py --lr 0.1"], "there is no file gone.py here"),
        (["--run", "frobnicate-it --lr 0.1"], "there is no program frobnicate-it"),
        (["--run", "true --lr 0.1", "-o", "."], "-o . is a folder"),
        (["--run", "true --lr 0.1", "-o", "gone/a.yaml"], "cannot write gone/a.yaml: No such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_clear_line_and_nothing_is_written(
    arguments: list[str], words: str, tuner: Tuner, workplace: Path
) -> None:
    Path("required.py").write_text("class T:\n    def __init__(self, size): ...\n")
    Path("half.py").write_text("class T:\n    def loss(self, model, batch): ...\n")
    before = sorted(workplace.iterdir())
    said = tuner("init", *arguments)
    assert said.code == 2
    assert words in said.line
    assert sorted(workplace.iterdir()) == before


_words = st.one_of(
    st.sampled_from(
        ["--lr", "--batch-size=8", "0.1", "7", "-0.0", "--min", "3", "--off", "null", "a=1", "--lr=1e999"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_words, max_size=5), st.sampled_from(MACHINES))
def test_whatever_the_command_line_it_is_refused_or_makes_a_valid_file(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], hardware: Hardware
) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        draft = command_draft(f"{{python}} {shlex.join(words)}", folder, hardware)
    except CliError:
        return
    path = folder / "drafted.yaml"
    path.write_text(text_of(draft, hardware), encoding="utf-8")
    file = load_study_file(path, cpus=hardware.cores, gpus=hardware.gpus)
    flat = [word for part in file.workload["run"] for word in ([part] if isinstance(part, str) else part)]
    assert len(flat) == 1 + len(words)


SERVED = """\
class Sentiment:
    metrics = ("accuracy",)
    padding = {"tokens": 0}
    def __init__(self, *, size: int = 4): ...
    def model(self): ...
    def evaluation_data(self): ...
    def score(self, outputs): ...
"""


def test_a_trained_model_to_serve_is_told_from_one_to_train(tuner: Tuner, on: On) -> None:
    on(SERVER)
    Path("served.py").write_text(SERVED)
    assert tuner("init", "--task", "served.py:Sentiment").code == 0
    file = loaded("sentiment.yaml")
    assert file.workload["kind"] == "inference"
    assert values(file, "engine")[0] == "torch" == file.baseline["engine"]
    assert values(file, "precision")[:2] == ["fp32", "bf16"]
    assert [str(limit.formula) for limit in file.constraints if limit.metric == "accuracy_recovery_pct"] == [
        "accuracy_recovery_pct >= 99"
    ]
    assert "task.size" not in file.baseline  # another size is another model
    assert "sequence_buckets" in Path("sentiment.yaml").read_text()


def test_a_machine_of_one_core_is_not_offered_two_instances(tuner: Tuner, on: On) -> None:
    on(ONE_CORE)
    Path("served.py").write_text(SERVED)
    assert tuner("init", "--task", "served.py:Sentiment").code == 0
    assert "instances" not in loaded("sentiment.yaml", ONE_CORE).baseline
