"""``tuner schema`` and ``tuner completion``: for editors and shells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from tests.unit.cli.test_surface import HEAVY
from tuner.cli import VERBS
from tuner.cli.options import SHIPPED_SPACES


def test_the_schema_is_the_shipped_one(tuner: Tuner) -> None:
    said = tuner("schema")
    assert (said.code, said.err) == (0, "")
    assert said.out == (SHIPPED_SPACES / "space.schema.json").read_text()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_the_program(shell: str, tuner: Tuner) -> None:
    said = tuner("completion", shell)
    assert said.code == 0
    assert f"_TUNER_COMPLETE={shell}_complete" in said.out


def test_a_shell_that_is_not_known_is_refused(tuner: Tuner) -> None:
    said = tuner("completion", "tcsh")
    assert said.code == 2
    assert "'bash', 'zsh', 'fish'" in said.line


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tuner ", list(VERBS)),
        ("tuner co", ["completion"]),
        ("tuner doctor --", ["--json", "--help"]),
        ("tuner completion ", ["bash", "zsh", "fish"]),
        ("tuner frobnicate ", []),
    ],
)
def test_bash_is_offered_verbs_options_and_choices(line: str, offered: list[str], workplace: Path) -> None:
    words = line.split(" ")
    asked = {"_TUNER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from tuner.cli import main; main()"],
        capture_output=True, text=True, cwd=workplace, env={**os.environ, **asked}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [answer.partition(",")[2] for answer in done.stdout.split()] == offered


def offered_by_bash(line: str, workplace: Path) -> list[str]:
    """What bash is offered at the end of the line; an entry of another type than plain keeps its type."""
    asked = {"_TUNER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    program = (
        "import sys\nfrom tuner.cli import main\ntry: main()\n"
        f"finally: assert not [m for m in {HEAVY} if m in sys.modules]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, cwd=workplace, env={**os.environ, **asked}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [answer.removeprefix("plain,") for answer in done.stdout.splitlines() if answer]


def test_space_files_and_shipped_names_are_offered_for_a_space(workplace: Path) -> None:
    (workplace / "mine.yaml").touch()
    (workplace / "notes.txt").touch()
    (workplace / "deep").mkdir()
    (workplace / "deep" / "other.yml").touch()
    shipped = sorted(path.stem for path in SHIPPED_SPACES.glob("*.yaml"))
    assert offered_by_bash("tuner run ", workplace) == ["dir,", "mine.yaml", *shipped]
    assert offered_by_bash("tuner check q", workplace) == ["dir,q", "quickstart"]
    assert offered_by_bash("tuner check deep/", workplace) == ["dir,deep/", "deep/other.yml"]
    assert offered_by_bash("tuner check nowhere/", workplace) == ["dir,nowhere/"]


@pytest.mark.parametrize("verb", ["show", "try", "ui", "log"])
def test_the_studies_of_the_records_are_offered_where_a_verb_wants_one(verb: str, workplace: Path) -> None:
    for name, records in (("first", "tuner.db"), ("fast", "tuner.db"), ("elsewhere", "other.db")):
        store(two_sided_study(name=name), workplace / records)
    assert offered_by_bash(f"tuner {verb} ", workplace) == ["fast", "first"]
    assert offered_by_bash(f"tuner {verb} fi", workplace) == ["first"]
    assert offered_by_bash(f"tuner {verb} --records other.db ", workplace) == ["elsewhere"]


@pytest.mark.parametrize("content", [None, b"", b"no database", b"SQLite format 3\0"])
def test_records_that_cannot_be_read_offer_nothing(content: bytes | None, workplace: Path) -> None:
    if content is not None:
        (workplace / "tuner.db").write_bytes(content)
    assert offered_by_bash("tuner show ", workplace) == []
    assert (content is None) == (not (workplace / "tuner.db").exists())


@pytest.mark.parametrize("arguments", [["init", "-o", "-"], ["schema"], ["completion", "zsh"]])
def test_the_first_verbs_load_nothing_heavy(arguments: list[str], workplace: Path) -> None:
    program = (
        "import json, sys\nfrom tuner.cli import cli\nfrom tuner.cli.errors import run_and_exit\n"
        "try: run_and_exit(cli, sys.argv[1:])\n"
        f"finally: print(json.dumps([m for m in {HEAVY} if m in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=workplace, check=True
    )
    assert json.loads(done.stderr.splitlines()[-1]) == []
    assert done.stdout
