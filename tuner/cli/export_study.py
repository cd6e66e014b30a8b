"""``tuner export --to csv | optuna | mlflow``: a whole study, every trial of it."""

from __future__ import annotations

import errno
from pathlib import Path

import click

from trials.contract import write_atomically
from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.log import log_study
from tuner.cli.recorded import read_study
from tuner.cli.text import plural

STUDY_TARGETS = ("csv", "optuna", "mlflow")


def export_study(study: str, target: str, output: str | None, records: str | None) -> int:
    """Write every trial of a study; returns the exit code."""
    if target == "mlflow":
        return log_study(study, output, None, records)
    if target == "optuna":
        return _to_optuna(study, output, records)
    return _to_csv(study, output, records)


def _to_csv(study: str, output: str | None, records: str | None) -> int:
    from tuner.export.table import render_csv
    from tuner.results import judge

    path = None if output is None else output_path(output)
    text = render_csv(judge(read_study(study, records)[0]))
    if path is None:
        click.echo(text, nl=False)
    else:
        write_output(path, text)
        echo(f"wrote {path}", err=True)
    return ExitCode.DONE


def _to_optuna(study: str, output: str | None, records: str | None) -> int:
    if output is None:
        raise CliError("--to optuna: say where with -o: a file such as optuna.db, or an SQLAlchemy URL")
    url = output if "://" in output else f"sqlite:///{output_path(output).absolute()}"
    record, _ = read_study(study, records)
    from tuner.results import judge
    from tuner.search.optuna_export import OptunaExportError, write_optuna_study
    from tuner.tracking.stores import without_password

    try:
        count = write_optuna_study(judge(record), url, study)
    except OptunaExportError as problem:
        raise CliError(f"-o {without_password(output)}: {problem}") from problem
    shown = without_password(url)
    echo(
        f"wrote {plural(count, 'trial')} of '{study}'; look at them: optuna-dashboard {shown}\n"
        "(where it is missing: pip install optuna-dashboard)",
        err=True,
    )
    return ExitCode.DONE


def output_path(name: str) -> Path:
    """Where to write; refused before any work."""
    path = Path(name)
    if path.is_dir():
        raise CliError(f"-o {name}: is a folder; name a file in it, such as {path / 'best.yaml'}")
    if not path.parent.is_dir():
        raise CliError(f"-o {name}: the folder {path.parent} does not exist; create it first")
    return path


def write_output(path: Path, text: str) -> None:
    """Write the file whole or not at all. CliError where it cannot be."""
    try:
        write_atomically(path, text)
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise CliError(f"{path}: the disk is full; free some space, or name another place") from problem
        raise CliError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
