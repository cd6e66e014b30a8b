"""``tuner try``: one configuration of one's own, measured into a study."""

from __future__ import annotations

import click

from tuner.cli.errors import CliError
from tuner.cli.options import json_option, records_option, study_argument, visible_gpus


@click.command("try")
@study_argument
@click.argument("values", metavar="KEY=VALUE...", nargs=-1, required=True)
@records_option
@json_option
def try_(study: str, values: tuple[str, ...], records: str | None, as_json: bool) -> int:
    """Measure the configuration with these VALUES (the rest as in the baseline) into STUDY, and judge it.

    It counts as a trial of the study; tuner run learns from it, and confirms it where it is on the front.
    Exit code 3 where it fails or breaks a limit.
    """
    from tuner.cli.trying import try_values
    from tuner.records.repository import Records

    wanted: dict[str, str] = {}
    for key, text in map(_pair, values):
        if key in wanted:
            raise CliError(f"{key} is given twice; keep one of {key}={wanted[key]} and {key}={text}")
        wanted[key] = text
    with Records.open(records, must_exist=True) as store:
        return try_values(store, study, wanted, visible_gpus(), as_json)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise CliError(f"{text}: write KEY=VALUE, for example micro_batch_size=16")
    return key.strip(), value.strip()
