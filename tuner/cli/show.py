"""``tuner show``: a study from the records, one that runs, or two to compare."""

from __future__ import annotations

import json

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError
from tuner.cli.offers import studies
from tuner.cli.options import WholeNumber, json_option, records_option, study_argument


@click.command()
@study_argument
@click.argument("other", metavar="[OTHER]", required=False, shell_complete=studies)
@click.option("--watch", "is_watching", is_flag=True, help="Follow a study while another process runs it.")
@click.option("--all", "shows_all", is_flag=True, help="Every trial in one table, failed ones too.")
@click.option(
    "--why", type=WholeNumber(0), metavar="N", help="Why trial N was proposed, and what was expected of it."
)
@records_option
@json_option
def show(
    study: str,
    other: str | None,
    is_watching: bool,
    shows_all: bool,
    why: int | None,
    records: str | None,
    as_json: bool,
) -> None:
    """Show the front of STUDY, its gain over the baseline, limits, failures and what mattered.

    With OTHER: the two side by side, the configurations that both measured, what differs. STUDY@N is the Nth
    generation of a study, by default the latest. With --json: every trial with every measurement.
    """
    if shows_all and (other is not None or is_watching or as_json):
        raise CliError(
            "--all is a table of one study; leave out OTHER, --watch and --json (which has them all)"
        )
    if why is not None:
        if other is not None or is_watching or shows_all:
            raise CliError("--why asks about one trial of one study; leave out OTHER, --watch and --all")
        _explain(study, why, records, as_json)
    elif is_watching:
        if other is not None or as_json:
            raise CliError("--watch follows one study on the screen; leave out OTHER and --json")
        from tuner.cli.watch import watch

        watch(study, records)
    elif other is not None:
        _compare(study, other, records, as_json)
    else:
        _show(study, records, as_json=as_json, shows_all=shows_all)


def _explain(study: str, number: int, records: str | None, as_json: bool) -> None:
    from tuner.cli.recorded import read_study
    from tuner.cli.why import why_plain, why_text
    from tuner.results import judge

    result = judge(read_study(study, records)[0])
    try:
        if as_json:
            click.echo(json.dumps(why_plain(result, number), indent=2))
        else:
            echo(why_text(result, number))
    except KeyError as unknown:
        raise CliError(str(unknown.args[0])) from unknown


def _show(study: str, records: str | None, *, as_json: bool, shows_all: bool) -> None:
    from tuner.cli.all_trials import all_trials_table
    from tuner.cli.recorded import read_with_runner
    from tuner.cli.state import state_of
    from tuner.cli.summary import summary_of
    from tuner.cli.text import print_json
    from tuner.results import as_json as plain
    from tuner.results import judge

    record, runner = read_with_runner(study, records)
    result = judge(record)
    if as_json:
        print_json(plain(result))
        return
    echo(all_trials_table(result) if shows_all else summary_of(result))
    if shows_all:
        return
    echo(f"\n{state_of(record, runner)}")


def _compare(study: str, other: str, records: str | None, as_json: bool) -> None:
    from tuner.cli.compare import compared, comparison_text
    from tuner.cli.recorded import read_study
    from tuner.results import judge

    one, two = (read_study(name, records)[0] for name in (study, other))
    if (one.name, one.generation) == (two.name, two.generation):
        raise CliError(
            f"{study} and {other} are the same; name two studies, or two generations: {one.name}@1"
        )
    results = (judge(one), judge(two))
    plain = compared(results, (study, other))
    if as_json:
        click.echo(json.dumps(plain, indent=2))
    else:
        echo(comparison_text(plain, results))
