"""``tuner export --to csv | optuna | mlflow``: a whole study, every trial of it."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.log import log_study
from tuner.cli.output import output_path, refuse_the_records, write_output
from tuner.cli.recorded import read_study
from tuner.cli.text import plural

STUDY_TARGETS = ("csv", "optuna", "mlflow")


def export_study(study: str, target: str, output: str | None, records: str | None, *, force: bool) -> int:
    """Write every trial of a study; returns the exit code."""
    if target == "mlflow":
        return log_study(study, output and _mlflow_store(output, records), None, records)
    if target == "optuna":
        return _to_optuna(study, output, records)
    return _to_csv(study, output, records, force)


def _to_csv(study: str, output: str | None, records: str | None, force: bool) -> int:
    from tuner.export.table import render_csv
    from tuner.results import judge

    path = None if output in (None, "-") else output_path(str(output), records, force=force)
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
    url = _store(output, records)
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


def _store(output: str, records: str | None) -> str:
    """The URL of the database that is meant by a path or a URL; what is in it is added to, never replaced."""
    refuse_the_records(output, records)
    return output if "://" in output else f"sqlite:///{output_path(output, records, force=True).absolute()}"


def _mlflow_store(output: str, records: str | None) -> str:
    """The same; a name without an ending is left for MLflow's own check, which knows the folders of old."""
    refuse_the_records(output, records)
    return _store(output, records) if Path(output).suffix else output
