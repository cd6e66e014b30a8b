"""``tuner init``: a first space file for this machine, from a task or from a command line."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError


@click.command()
@click.option(
    "--kind",
    metavar="KIND",
    help="training or inference (a task class), or command (any program). Default: by --task or --run, else training.",
)
@click.option(
    "--task", metavar="FILE.py:CLASS", help="The task to train or to serve. Default: the one in this folder."
)
@click.option("--run", "line", metavar="'PROGRAM ...'", help="The command line as you run it today.")
@click.option("-o", "--output", metavar="FILE", help="Default: named after the task or program; - prints it.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def init(kind: str | None, task: str | None, line: str | None, output: str | None, force: bool) -> None:
    """Write a short space file, with comments, that runs on this machine as it is.

    The parameters are read from the source of the task, or from the flags of the command line; their values of
    today are the baseline.
    """
    from tuner.cli.draft.command import EXAMPLE_RUN, command_draft
    from tuner.cli.draft.inference import EXAMPLE_TASK, inference_draft
    from tuner.cli.draft.text import study_name, text_of
    from tuner.cli.draft.training import training_draft
    from tuner.cli.hardware import this_machine

    kind = _kind(kind, task, line)
    folder = Path() if output in (None, "-") else Path(str(output)).parent
    hardware = this_machine()
    if kind == "command":
        draft = command_draft(_example("--run", EXAMPLE_RUN) if line is None else line, folder, hardware)
    elif kind == "inference":
        draft = inference_draft(_example("--task", EXAMPLE_TASK) if task is None else task, folder, hardware)
    else:
        draft = training_draft(_task_here() if task is None else task, folder, hardware)
    if output == "-":
        click.echo(text_of(draft, hardware), nl=False)
        return
    path = Path(output or f"{draft.study}.yaml")
    _write(path, text_of(replace(draft, study=study_name(path.stem)), hardware), force)
    varied = len(draft.parameters)
    echo(f"wrote {path}: {varied} parameter{'s' if varied != 1 else ''} for {hardware}", err=True)
    echo(f"next: {shlex.join(['tuner', 'check', str(path)])}", err=True)


def _kind(kind: str | None, task: str | None, line: str | None) -> str:
    from tuner.cli.draft.inference import is_served

    if task is not None and line is not None:
        raise CliError("--task is for training and inference, --run for a command; use one of them")
    if kind not in (None, "training", "inference", "command"):
        raise CliError(f"--kind {kind}: no such kind to begin with; write training, inference or command")
    if kind is not None and (
        kind == "command" if task is not None else line is not None and kind != "command"
    ):
        option = "--task" if task is not None else "--run"
        raise CliError(f"--kind {kind} does not go with {option}; leave out one of them")
    if kind is None and line is not None:
        return "command"
    return kind or ("inference" if task is not None and is_served(task) else "training")


def _task_here() -> str:
    from tuner.cli.draft.training import EXAMPLE_TASK, tasks_here

    found = tasks_here(Path())
    if len(found) > 1:
        raise CliError(f"this folder has several tasks: {', '.join(found)}; choose one with --task")
    return found[0] if found else _example("--task", EXAMPLE_TASK)


def _example(option: str, example: str) -> str:
    echo(f"no {option}: the file tunes the shipped example, {example}", err=True)
    return example


def _write(path: Path, text: str, force: bool) -> None:
    from trials.contract import write_atomically

    if path.is_dir():
        raise CliError(f"-o {path} is a folder; name a file in it")
    if path.exists() and not force:
        raise CliError(f"{path} exists and is left as it is; -o FILE writes another, --force overwrites it")
    try:
        write_atomically(path, text)
    except OSError as problem:
        raise CliError(f"cannot write {path}: {problem.strerror}; name another place with -o") from problem
