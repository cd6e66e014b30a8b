"""``tuner run``: measure a space."""

from __future__ import annotations

import json

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.options import (
    WholeNumber,
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
@click.option("--trials", type=WholeNumber(1), metavar="N", help="Total number of configurations to run.")
@click.option(
    "--more", type=WholeNumber(1, 1_000_000), metavar="N", help="Run N more than the study already has."
)
@click.option("--dry-run", is_flag=True, help="Check, print what would run, run nothing.")
@click.option(
    "--new-space", is_flag=True, help="The file was edited: begin a new generation, reuse what still fits."
)
@click.option(
    "--take-over", is_flag=True, help="Go on with a study that a run on another machine left claimed."
)
@click.option("--ray-address", metavar="ADDRESS", help="An existing Ray cluster: auto or HOST:PORT.")
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

    SPACE is a path or the name of a shipped file. A study that is in the records goes on where it stopped.
    Ctrl-C ends it with everything saved.
    """
    from tuner.cli.refusals import refuse_an_unknown_sampler
    from tuner.space import load_study_file

    overrides = _overrides(settings, trials, more, no_mlflow)
    file = load_study_file(find_space(space), overrides, gpus=visible_gpus())
    refuse_an_unknown_sampler(file)
    for warning in file.warnings:
        echo(f"warning: {warning}", err=True)
    if dry_run:
        from tuner.cli.dry_run import dry_run_of

        outline, text = dry_run_of(file, records, more, new_space=new_space, ray_address=ray_address)
        if as_json:
            click.echo(json.dumps(outline, indent=2))
        else:
            echo(text)
        echo("dry run: nothing was run", err=True)
        return ExitCode.DONE
    from tuner.cli.running import Wishes, run_file

    repeated = [space]
    for setting in settings:
        repeated += ["--set", setting]
    for option, value in (("--ray-address", ray_address), ("--records", records)):
        repeated += [option, value] if value is not None else []
    wishes = Wishes(
        more=more,
        has_total=trials is not None or more is not None,
        new_space=new_space,
        take_over=take_over,
        ray_address=ray_address,
        as_json=as_json,
        records=records,
        arguments=(*repeated, *(["--no-mlflow"] if no_mlflow else [])),
    )
    return run_file(file, wishes)


def _overrides(
    settings: tuple[str, ...], trials: int | None, more: int | None, no_mlflow: bool
) -> dict[str, str]:
    """What the options put into the file. CliError where they contradict one another."""
    overrides = parse_settings(settings)
    if trials is not None and more is not None:
        raise CliError("--trials and --more: use one of them; --trials is the total, --more adds")
    for option, key, is_given in (
        ("--trials", "budget.trials", trials is not None),
        ("--more", "budget.trials", more is not None),
        ("--no-mlflow", "tracking.mlflow", no_mlflow),
    ):
        if is_given and key in overrides:
            raise CliError(f"{option} and --set {key}: use one of them")
    if trials is not None:
        overrides["budget.trials"] = str(trials)
    if no_mlflow:
        overrides["tracking.mlflow"] = "null"
    return overrides
