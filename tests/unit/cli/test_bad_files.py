"""Bad space files and bad records: said in a line, nothing half-written."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from tests.unit.cli.conftest import SPACE, Tuner
from tests.unit.cli.stored import store, two_sided_study


@pytest.mark.parametrize("verb", ["check", "run"])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("toyy.yaml", None, "no space file 'toyy.yaml'; did you mean toy.yaml?"),
        ("quikstart", None, "did you mean quickstart?"),
        ("a\0b", None, "no space file"),
        ("n" * 5000, None, "no space file"),
        ("", None, "a folder"),
        ("folder", b"", "folder is a folder; name a space file in it"),
        ("/dev/null", None, "is not a regular file"),
        ("empty.yaml", b"", "is not a map of sections"),
        ("binary.yaml", bytes(range(256)), "is not UTF-8 text"),
        ("latin.yaml", "study: café".encode("latin-1"), "is not UTF-8 text (byte 10)"),
        ("huge.yaml", b"#" * 1_000_001, "is larger than"),
        ("list.yaml", b"- a\n", "list.yaml:1: is not a map"),
        ("broken.yaml", b"study: [a\n", "broken.yaml:2: is not YAML"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_space_file_is_refused(
    verb: str, name: str, content: bytes | None, words: str, tuner: Tuner, workplace: Path
) -> None:
    (workplace / "toy.yaml").write_text(SPACE)
    if name == "folder":
        (workplace / name).mkdir()
    elif content is not None:
        (workplace / name).write_bytes(content)
    before = sorted(workplace.iterdir())
    said = tuner(verb, name)
    assert said.code == 2
    assert words in said.line
    assert sorted(workplace.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tuner: Tuner, space: Path) -> None:
    space.chmod(0)
    assert "cannot be read: Permission denied" in tuner("check", str(space)).line


def test_everything_that_is_wrong_is_said_at_once_with_its_line(tuner: Tuner, workplace: Path) -> None:
    text = SPACE.replace("mode:", "mode :").replace("maximize}", "maximise}").replace("budget:", "budjet:")
    (workplace / "toy.yaml").write_text(text)
    said = tuner("run", "toy.yaml")
    assert said.code == 2
    lines = said.err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("toy.yaml:") for line in lines)
    assert "did you mean budget?" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "search.sampler=tpee"], "search.sampler=tpee is no sampler; did you mean tpe?"),
        (["--set", "search.sampler=grid"], "grid needs a finite space"),
        (["--set", "tracking.mlflow=./mlruns"], "sqlite:///mlflow.db"),
        (["--set", "budget.trials=0"], "--set budget.trials=0: "),
        (["--set", "budjet.trials=1"], "did you mean budget?"),
        (["--set", "parameters.x=[1"], "--set parameters.x=[1: is not YAML"),
        (["--ray-address", "127.0.0.1:1"], "cannot reach the Ray cluster at 127.0.0.1:1"),
        (["--ray-address", "ray://head"], "HOST:PORT instead of ray://"),
        (["--records", "no/where/tuner.db"], "of the records does not exist"),
        (["--records", "."], "is a folder; give --records a file in it"),
        (["--records", "toy.yaml"], "it is not an SQLite database"),
        (["--records", "other.db"], "is the database of another program (it holds people)"),
        (["--records", "nosuch://host/db"], "no such kind of database"),
    ],
)  # fmt: skip
def test_a_run_that_is_refused_leaves_nothing_behind(
    arguments: list[str], words: str, tuner: Tuner, space: Path, workplace: Path
) -> None:
    with sqlite3.connect(workplace / "other.db") as other:
        other.execute("create table people (name text)")
    other.close()
    before = sorted(workplace.iterdir())
    said = tuner("run", str(space), *arguments)
    assert said.code == 2
    assert words in said.line
    assert sorted(workplace.iterdir()) == before


def test_more_than_the_machine_has_is_refused(tuner: Tuner, space: Path, workplace: Path) -> None:
    said = tuner("run", str(space), "--set", "resources.cpus=10000")
    assert said.code == 2
    assert "resources.cpus=10000, but this machine has" in said.err.splitlines()[-1]
    assert list(workplace.iterdir()) == [workplace / "toy.yaml"]


def test_a_file_in_the_place_of_the_trial_folders_is_refused(
    tuner: Tuner, space: Path, workplace: Path
) -> None:
    (workplace / "tuner-trials").write_text("")
    said = tuner("run", str(space))
    assert said.code == 2
    assert "trial folders go there, but it is not a folder" in said.line


@pytest.mark.parametrize("verb", ["show", "export", "log"])
def test_a_study_that_is_not_there_is_refused_with_the_nearest_names(
    verb: str, tuner: Tuner, workplace: Path
) -> None:
    said = tuner(verb, "built")
    assert (said.code, "no records at" in said.line) == (2, True)
    assert "tuner run" in said.line
    assert list(workplace.iterdir()) == []
    store(two_sided_study())
    said = tuner(verb, "bilt")
    assert (said.code, said.line) == (2, "tuner: no study 'bilt' in these records; did you mean built?")


def test_list_without_records_or_without_studies_says_how_to_begin(tuner: Tuner) -> None:
    assert "no records at" in tuner("list").line
    from tuner.records.repository import Records

    Records.open("tuner.db").close()
    said = tuner("list")
    assert (said.code, said.line) == (0, "no studies yet; begin with: tuner run quickstart")


def test_a_file_that_differs_from_the_recorded_study_is_refused_with_a_diff(
    tuner: Tuner, space: Path
) -> None:
    store(two_sided_study(name="toy"))
    said = tuner("run", str(space))
    assert said.code == 2
    assert "study 'toy' is recorded with something else:" in said.err
    assert "--new-space" in said.err
    assert tuner("run", str(space), "--dry-run").err == said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["check", "loop.yaml"],
            "loop.yaml is a link that leads nowhere; mend it, or give the space file itself",
        ),
        (["run", "gone.yaml"], "gone.yaml is a link that leads nowhere"),
        (["list", "--records", "loop.yaml"], "loop.yaml is a link that leads nowhere"),
        (["verify", "loop.yaml"], "loop.yaml cannot be read: Too many levels of symbolic links"),
        (
            ["export", "built", "-o", "loop.yaml"],
            "loop.yaml: cannot be written: Too many levels of symbolic links",
        ),
    ],
)
def test_a_link_that_leads_nowhere_is_one_line(
    arguments: list[str], words: str, tuner: Tuner, workplace: Path
) -> None:
    store(two_sided_study())
    (workplace / "loop.yaml").symlink_to("loop.yaml")
    (workplace / "gone.yaml").symlink_to("nothing.yaml")
    said = tuner(*arguments)
    assert said.code == 2
    assert words in said.err.splitlines()[-1]
    assert (workplace / "loop.yaml").is_symlink()


def test_a_task_behind_a_link_that_leads_nowhere_is_one_line(tuner: Tuner, workplace: Path) -> None:
    (workplace / "loop.py").symlink_to("loop.py")
    (workplace / "space.yaml").write_text(
        "workload: {kind: training, task: 'loop.py:Task', train_for: {samples: 4000}}\n"
        "parameters: {micro_batch_size: [8, 16]}\nobjectives: [samples_per_s, accuracy]\n"
    )
    said = tuner("check", "space.yaml")
    assert said.code == 2
    assert "space.yaml:1: workload.task" in said.err and "unexpected" not in said.err
