"""The program's public surface: verbs and options, and what answering costs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.unit.cli.conftest import Tuner
from tuner.cli import VERBS

HEAVY = ("torch", "ray", "optuna", "mlflow", "sqlalchemy", "numpy", "scipy", "plotly", "matplotlib", "rich")
SURFACE = {
    "init": ["--force", "--help", "--kind", "--output", "--run", "--task"],
    "run": [
        "SPACE", "--dry-run", "--help", "--json", "--more", "--new-space", "--no-mlflow", "--profile-only",
        "--ray-address", "--records", "--set", "--take-over", "--trials",
    ],
    "check": ["SPACE", "--help", "--json", "--records", "--sensitivity", "--set"],
    "try": ["STUDY", "VALUES", "--help", "--json", "--records"],
    "show": ["STUDY", "OTHER", "--all", "--help", "--json", "--records", "--watch", "--why"],
    "list": ["--help", "--json", "--records"],
    "export": ["STUDY", "--force", "--help", "--output", "--pick", "--records", "--to", "--trial"],
    "verify": ["FILE", "--help", "--json", "--timeout"],
    "log": ["STUDY", "--experiment", "--help", "--mlflow", "--records"],
    "ui": ["STUDY", "--help", "--mlflow", "--port", "--print-command", "--records"],
    "doctor": ["--help", "--json"],
    "schema": ["--help"],
    "completion": ["SHELL", "--help"],
}  # fmt: skip


def command(verb: str) -> click.Command:
    module, _, name = VERBS[verb][0].partition(":")
    found: click.Command = getattr(importlib.import_module(module), name)
    return found


def test_the_verbs_and_their_options_are_frozen() -> None:
    found = {}
    for verb in VERBS:
        context = click.Context(command(verb), help_option_names=["-h", "--help"])
        parameters = command(verb).get_params(context)
        arguments = [str(p.name).upper() for p in parameters if isinstance(p, click.Argument)]
        options = [max(p.opts, key=len) for p in parameters if isinstance(p, click.Option)]
        found[verb] = [*arguments, *sorted(options)]
    assert found == SURFACE


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_every_option_explains_itself(verb: str, tuner: Tuner) -> None:
    said = tuner(verb, "--help")
    assert (said.code, said.err) == (0, "")
    assert f"Usage: tuner {verb} " in said.out
    for parameter in command(verb).params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name  # type: ignore[attr-defined]


def test_help_names_every_verb_the_exit_codes_and_where_to_begin(tuner: Tuner) -> None:
    said = tuner("--help")
    assert said.code == 0
    for words in (*VERBS, "Exit codes", "130 interrupted", "tuner run quickstart", "TUNER_RECORDS"):
        assert words in said.out


def test_the_bare_program_prints_its_help_on_stderr_and_ends_with_2(tuner: Tuner) -> None:
    said = tuner()
    assert (said.code, said.out) == (2, "")
    assert "Verbs:" in said.err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["check", "byte_lm"], ["check", "zstd", "--json"], ["--version"]]
)
def test_a_light_command_loads_nothing_heavy(arguments: list[str], workplace: Path) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rum"], "tuner: no verb 'rum'; did you mean 'run'?"),
        (["frobnicate"], "there are init, run, check, try, show, list, export, verify, log, ui, doctor"),
        (["--verbos"], "tuner: no such option '--verbos'"),
        (["check", "zstd", "--jsno"], "--json"),
        (["run"], "tuner run: missing argument 'SPACE'; see: tuner run --help"),
        (["show", "one", "two", "three"], "unexpected extra argument"),
        (["run", "zstd", "--trials", "0"], "'0' is not a whole number of at least 1"),
        (["run", "zstd", "--trials", "1.5"], "'1.5' is not a whole number of at least 1"),
        (["run", "zstd", "--more", "x"], "'x' is not a whole number of at least 1"),
        (["run", "zstd", "--trials", "3", "--more", "2"], "--trials is the total, --more adds"),
        (["run", "zstd", "--trials", "3", "--set", "budget.trials=2"], "--trials and --set budget.trials"),
        (["run", "zstd", "--no-mlflow", "--set", "tracking.mlflow=x"], "use one of them"),
        (["run", "zstd", "--set", "budget"], "--set budget: write KEY=VALUE"),
        (["run", "zstd", "--set"], "--set"),
        (["run", "zstd", "--trials", "9" * 20], "is not a whole number from 1 to 1000000"),
        (["run", "zstd", "--more", "9" * 5000], "is not a whole number"),
        (["run", "zstd", "--set", f"budget.trials={'9' * 20}"], "must be at most 1,000,000"),
        (["show", "x", "--why", "9" * 20], "is not a whole number from 0 to 1000000"),
        (["show", f"x@{'9' * 20}"], "no such generation; write x@N with N from 1"),
        (["show", f"y@{'9' * 5000}"], "no such generation; write y@N with N from 1"),
        (["export", f"x@{2**31}"], "no such generation; write x@N with N from 1"),
        (["export", "x", "--trial", "9" * 20], "is not a whole number from 0 to 1000000"),
        (["show", "x", "y", "--watch"], "--watch follows one study"),
        (["show", "x", "--watch", "--json"], "leave out OTHER and --json"),
        (["try", "x"], "missing argument 'KEY=VALUE...'"),
        (["export", "x", "--trial", "-1"], "'-1' is not a whole number of at least 0"),
        (
            ["export", "x", "--to", "toml"],
            "--to toml: no such format; there are json, torchrun, vllm, yaml, artifact, csv, ",
        ),
        (["export", "x", "--pick", "best"], "--pick best: no such rule; write knee, first_objective"),
        (["export", "x", "--pick", "maximize"], "maximize:METRIC"),
        (["export", "x", "--pick", "knee", "--trial", "1"], "--pick and --trial: use one of them"),
        (["export", "x", "--to", "csv", "--trial", "1"], "--to csv writes every trial; leave out"),
        (["export", "x", "--to", "optuna"], "--to optuna: say where with -o: a file such as optuna.db"),
        (["export", "x", "-o", "."], "is a folder; name a file in it"),
        (["export", "x", "--to", "artifact"], "--to artifact writes a folder; say which with -o"),
        (["export", "x", "--to", "artifact", "-o", "no/model"], "the folder no does not exist"),
        (["check", "zstd", "--sensitivity", "int8_dynamic"], "is of kind command"),
        (["check", "digits_inference", "--sensitivity", "int9"], "--sensitivity int9: is not one of fp32, bf16"),
        (["check", "digits_inference", "--sensitivity", "fp8"], "engine=torch has no precision=fp8 on cpu"),
        (["export", "x", "-o", "no/best.yaml"], "the folder no does not exist"),
        (["verify", "x.yaml", "--timeout", "0"], "--timeout"),
        (["ui", "--port", "0"], "'0' is not a whole number from 1 to 65535"),
        (["ui", "--mlflow", "./mlruns"], "is a folder"),
        (["ui", "--mlflow", "http://host:5000"], "open it in a browser"),
        (["ui"], "no MLflow store at mlflow.db"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_clear_line_and_2(
    arguments: list[str], words: str, tuner: Tuner, workplace: Path
) -> None:
    said = tuner(*arguments)
    assert said.code == 2
    assert words in said.line
    assert list(workplace.iterdir()) == []
