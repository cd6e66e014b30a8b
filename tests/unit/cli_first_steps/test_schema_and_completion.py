"""``tuner schema`` and ``tuner completion``: for editors and shells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Tuner
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
