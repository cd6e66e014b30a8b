"""``tuner check``: what a space file says, without running anything."""

from __future__ import annotations

import json

import click

from tuner.cli.console import echo
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
@click.option(
    "--sensitivity",
    metavar="PRECISION",
    help="For kind: inference, rank the layers by what they lose when each alone is quantised to PRECISION "
    "(int8_dynamic, ...) in the baseline's engine; this builds and runs the model.",
)
@records_option
@json_option
def check(
    space: str, settings: tuple[str, ...], sensitivity: str | None, records: str | None, as_json: bool
) -> int | None:
    """Read SPACE, count its configurations before and after rules, and print what a run would do.

    SPACE is a path or the name of a shipped file. Exit code 2, with file:line of every problem, where it is
    wrong. Where the records hold the study already, their runs tell how long the rest will take.
    """
    from tuner.cli.outline import describe, outline_of
    from tuner.cli.recorded import what_is_recorded
    from tuner.cli.refusals import refuse_an_unknown_sampler
    from tuner.space import load_study_file

    file = load_study_file(find_space(space), parse_settings(settings), gpus=visible_gpus())
    refuse_an_unknown_sampler(file)
    for warning in file.warnings:
        echo(f"warning: {warning}", err=True)
    if sensitivity is not None:
        from tuner.cli.sensitivity import show_sensitivity

        return show_sensitivity(file, sensitivity, as_json)
    outline = describe(file, what_is_recorded(file, records))
    if as_json:
        click.echo(json.dumps(outline, indent=2))
    else:
        echo(outline_of(file, outline))
    return None
