"""``tuner show``: a study from the records."""

from __future__ import annotations

import json

import click

from tuner.cli.options import WholeNumber, json_option, records_option, study_argument


@click.command()
@study_argument
@click.option(
    "--generation", type=WholeNumber(1), metavar="N", help="An older generation (default: the latest)."
)
@records_option
@json_option
def show(study: str, generation: int | None, records: str | None, as_json: bool) -> None:
    """Show the front of STUDY, its gain over the baseline, limits, failures and what mattered.

    With --json: every trial with every measurement.
    """
    from tuner.cli.summary import summary_of
    from tuner.records.repository import Records
    from tuner.results import as_json as plain
    from tuner.results import judge

    with Records.open(records, must_exist=True) as store:
        result = judge(store.study(study, generation))
    if as_json:
        click.echo(json.dumps(plain(result), indent=2))
        return
    click.echo(summary_of(result))
    click.echo(f"\nstopped: {result.record.stopped_because or 'not finished; tuner run goes on with it'}")
