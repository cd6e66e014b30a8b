"""What is wrong with a section is said before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trials.workloads.base import WorkloadProblem
from trials.workloads.command import CommandWorkload


def problems_of(folder: Path, **section: Any) -> list[WorkloadProblem]:
    return CommandWorkload().resolve({"kind": "command", "run": ["true"], **section}, folder)[1]


def resolved(folder: Path, **section: Any) -> dict[str, Any]:
    found, problems = CommandWorkload().resolve({"kind": "command", "run": ["true"], **section}, folder)
    assert problems == []
    return found


@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        ({"run": None}, "run", "missing"),
        ({"run": []}, "run", "missing"),
        ({"run": "python train.py"}, "run", "shell"),
        ({"run": ["true"], "shell": True}, "run", "one text"),
        ({"run": "true", "shell": "yes"}, "shell", "'yes'"),
        ({"run": ["true", None]}, "run[1]", "not an argument"),
        ({"run": ["true", ["a", ["b"]]]}, "run[1]", "a list"),
        ({"run": ["true", []]}, "run[1]", "empty list"),
        ({"run": ["no-such-program-anywhere"]}, "run", "no program no-such-program-anywhere on PATH"),
        ({"run": ["./missing.sh"]}, "run", "is not a program"),
        ({"stage": ["missing.csv"]}, "stage", "does not exist"),
        ({"stage": "data.csv"}, "stage", "a text"),
        ({"working_directory": "nowhere"}, "working_directory", "is not a folder"),
        ({"env": {"A-B": "1"}}, "env", "'A-B'"),
        ({"env": {"A": [1]}}, "env.A", "a list"),
        ({"metrics": "m.json"}, "metrics", "a text"),
        ({"metrics": {"fil": "m.json"}}, "metrics.fil", "not known"),
        ({"metrics": {"file": 3}}, "metrics.file", "not a path"),
        ({"metrics": {"patterns": {}}}, "metrics.patterns", "a map"),
        ({"metrics": {"patterns": {"f1": "F1 = (["}}}, "metrics.patterns.f1", "not a regular expression"),
        ({"metrics": {"patterns": {"f1": "(a)(b)"}}}, "metrics.patterns.f1", "2 groups"),
        (
            {"metrics": {"patterns": {"f1": {"pattern": "(a)", "pick": "first"}}}},
            "metrics.patterns.f1.pick",
            "'first'",
        ),
        (
            {"metrics": {"patterns": {"f1": {"pattern": "(a)", "pick": "best"}}}},
            "metrics.patterns.f1.pick",
            "best",
        ),
        (
            {"metrics": {"patterns": {"f1": {"pattern": "(a)", "pik": "max"}}}},
            "metrics.patterns.f1.pik",
            "not known",
        ),
    ],
)
def test_a_wrong_section_is_named_with_a_way_out(
    tmp_path: Path, section: dict[str, Any], key: str, words: str
) -> None:
    problem = next(problem for problem in problems_of(tmp_path, **section) if problem.key == key)
    assert words in problem.message
    assert problem.way_out


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, run="x", stage=["no"], env=3, metrics=[], working_directory="no")
    assert {problem.key for problem in problems} == {"run", "stage", "env", "metrics", "working_directory"}


def test_a_missing_python_names_the_interpreter_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = problems_of(tmp_path, run=["python", "train.py"])
    assert "{python}" in problem.way_out


def test_a_program_named_by_a_parameter_is_looked_for_when_the_trial_starts(tmp_path: Path) -> None:
    assert problems_of(tmp_path, run=["{engine}", "x"]) == []
    assert problems_of(tmp_path, run=["${HOME}/bin/x"]) == []


def test_a_program_with_a_slash_is_beside_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "go"
    program.write_text("#!/bin/sh\n")
    assert problems_of(tmp_path, run=["./go"], working_directory="bin")[0].key == "run"
    program.chmod(0o755)
    assert problems_of(tmp_path, run=["./go"], working_directory="bin") == []


def test_two_staged_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").touch()
    assert "taken" in problems_of(tmp_path, stage=["a/x", "b/x"])[0].message


def test_a_staged_file_may_not_replace_the_result(tmp_path: Path) -> None:
    (tmp_path / "result.json").touch()
    assert "taken" in problems_of(tmp_path, stage=["result.json"])[0].message


def test_arguments_become_text_and_paths_absolute(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    found = resolved(
        tmp_path, run=["true", 3, 0.1, True, ["-n", 4]], stage=["data"], working_directory="data"
    )
    assert found["run"] == ["true", "3", "0.1", "true", ["-n", "4"]]
    assert found["stage"] == [str(tmp_path / "data")]
    assert found["working_directory"] == str(tmp_path / "data")


def test_the_space_files_folder_is_the_default_working_directory(tmp_path: Path) -> None:
    assert resolved(tmp_path)["working_directory"] == str(tmp_path)


def test_without_metrics_the_clock_and_the_memory_are_all_there_is(tmp_path: Path) -> None:
    assert CommandWorkload().metrics(resolved(tmp_path)) == ("wall_time_s", "peak_rss_gib", "peak_memory_gib")


def test_only_running_tells_what_a_file_holds(tmp_path: Path) -> None:
    assert CommandWorkload().metrics(resolved(tmp_path, metrics={"file": "m.json"})) is None


def test_any_parameter_name_is_legal() -> None:
    assert CommandWorkload().accepts_unknown_parameters({})
