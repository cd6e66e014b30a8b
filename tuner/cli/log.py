"""``tuner log``: bring a study from the records into MLflow, again or for the first time."""

from __future__ import annotations

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.options import mlflow_option, records_option, study_argument


@click.command()
@study_argument
@mlflow_option
@click.option("--experiment", metavar="NAME", help="Default: the study's name.")
@records_option
def log(study: str, uri: str | None, experiment: str | None, records: str | None) -> int:
    """Write every trial of STUDY to MLflow.

    Runs that are there already are brought up to date, not doubled.
    """
    return log_study(study, uri, experiment, records)


def log_study(study: str, uri: str | None, experiment: str | None, records: str | None) -> int:
    """What the verb does; ``tuner export --to mlflow`` is the same."""
    from tuner.cli.mlflow_watch import STORE_NOTE
    from tuner.records.repository import Records
    from tuner.results import judge
    from tuner.space.model import TrackingSettings
    from tuner.tracking import TrackingError, replay
    from tuner.tracking.stores import checked_uri, without_password

    with Records.open(records, must_exist=True) as store:
        record = store.study(study)
    target = uri or record.notes.get(STORE_NOTE) or str(TrackingSettings().mlflow)
    try:
        checked_uri(target)
    except TrackingError as problem:
        raise CliError(str(problem)) from problem
    from tuner.cli.artifacts import study_artifacts

    result = judge(record)
    try:
        run_id = replay(record, result, target, experiment or study, study_artifacts(record, result))
    except TrackingError as problem:
        raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem
    echo(f"logged {len(record.trials)} trials of '{study}' to {without_password(target)} (run {run_id})")
    return ExitCode.DONE
