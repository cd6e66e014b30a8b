"""``tuner log``: bring a study from the records into MLflow, again or for the first time."""

from __future__ import annotations

import click

from tuner.cli.errors import CliError, ExitCode
from tuner.cli.options import records_option, study_argument
from tuner.space.model import TrackingSettings


@click.command()
@study_argument
@click.option("--mlflow", "uri", metavar="URI", help="MLflow store or server. Default: sqlite:///mlflow.db.")
@click.option("--experiment", metavar="NAME", help="Default: the study's name.")
@records_option
def log(study: str, uri: str | None, experiment: str | None, records: str | None) -> int:
    """Write every trial of STUDY to MLflow; runs that are there already are brought up to date, not doubled."""
    from tuner.cli.artifacts import study_artifacts
    from tuner.records.repository import Records
    from tuner.results import judge
    from tuner.tracking import TrackingError, replay

    target = uri or str(TrackingSettings().mlflow)
    with Records.open(records, must_exist=True) as store:
        record = store.study(study)
        result = judge(record)
        try:
            run_id = replay(record, result, target, experiment or study, study_artifacts(record, result))
        except TrackingError as problem:
            raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem
    click.echo(f"logged {len(record.trials)} trials of '{study}' to {target} (run {run_id})")
    return ExitCode.DONE
