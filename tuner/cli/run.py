"""``tuner run``: measure a space."""

from __future__ import annotations

import json

import click

from tuner.cli.check import describe, table_of
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.options import (
    find_space,
    json_option,
    parse_settings,
    records_option,
    set_option,
    space_argument,
    visible_gpus,
)


@click.command()
@space_argument
@set_option
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Total number of configurations to run.")
@click.option("--more", type=click.IntRange(min=1), metavar="N", help="Run N more than the study already has.")
@click.option("--dry-run", is_flag=True, help="Check, print what would run, run nothing.")
@click.option("--new-space", is_flag=True, help="The file was edited: begin a new generation, reuse what still fits.")
@click.option("--take-over", is_flag=True, help="Go on with a study that a run on another machine left claimed.")
@click.option("--ray-address", metavar="ADDRESS", help="An existing Ray cluster, for example 'auto' or HOST:PORT.")
@click.option("--no-mlflow", is_flag=True, help="Do not log to MLflow (tuner log does it later).")
@records_option
@json_option
def run(
    space: str,
    settings: tuple[str, ...],
    trials: int | None,
    more: int | None,
    dry_run: bool,
    new_space: bool,
    take_over: bool,
    ray_address: str | None,
    no_mlflow: bool,
    records: str | None,
    as_json: bool,
) -> int:
    """Measure the configurations of SPACE, confirm the best ones, and say which to use.

    SPACE is a path or the name of a shipped file. A study that exists in the records goes on where it stopped.
    """
    from tuner.space import load_study_file

    path = find_space(space)
    overrides = parse_settings(settings)
    if trials is not None and more is not None:
        raise CliError("--trials and --more: use one of them; --trials is the total, --more adds")
    if trials is not None:
        overrides["budget.trials"] = str(trials)
    if no_mlflow:
        overrides["tracking.mlflow"] = "null"
    file = load_study_file(path, overrides, gpus=visible_gpus())
    for warning in file.warnings:
        click.echo(f"warning: {warning}", err=True)
    if dry_run:
        click.echo(json.dumps(describe(file), indent=2) if as_json else table_of(file))
        click.echo("dry run: nothing was run", err=True)
        return ExitCode.DONE
    from tuner.cli.running import Wishes, run_file

    wishes = Wishes(more, new_space, take_over, ray_address, as_json, name_typed=space)
    return run_file(file, records, wishes)
