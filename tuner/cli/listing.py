"""``tuner list``: the studies in the records, newest first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.console import echo
from tuner.cli.options import json_option, records_option
from tuner.cli.table import table, terminal_width

if TYPE_CHECKING:
    from tuner.records.owner import Owner
    from tuner.records.rows import StudySummary

_HEADER = ("study", "trials", "outcomes", "updated (UTC)", "folders", "stopped because")


@click.command("list")
@records_option
@json_option
def list_studies(records: str | None, as_json: bool) -> None:
    """List the studies in the records, newest first, with the size of their trial folders."""
    from tuner.records.repository import Records

    with Records.open(records, must_exist=True) as store:
        studies = store.studies(on_damage=lambda damage: echo(f"warning: {damage}", err=True))
        runners = {study.name: store.runner(study.name) for study in studies}
    if as_json:
        plain = {"schema_version": 1, "studies": [_plain(study) for study in studies]}
        click.echo(json.dumps(plain, indent=2))
    elif studies:
        echo(table([_row(study, runners[study.name]) for study in studies], _HEADER, terminal_width()))
    else:
        echo("no studies yet; begin with: tuner run quickstart", err=True)


def _plain(study: StudySummary) -> dict[str, Any]:
    """Keys are public API."""
    return {
        "name": study.name,
        "generation": study.generation,
        "trials": study.trials,
        "measurements": study.measurements,
        "counts": dict(study.counts),
        "created_at": study.created_at.isoformat(timespec="seconds"),
        "updated_at": study.updated_at.isoformat(timespec="seconds"),
        "stopped_because": study.stopped_because,
        "folders_mib": _folders_mib(study),
    }


def _row(study: StudySummary, runner: Owner | None) -> list[str]:
    from tuner.cli.state import running_by

    return [
        study.name,
        str(study.trials),
        ", ".join(f"{count} {outcome}" for outcome, count in study.counts.items()),
        f"{study.updated_at:%Y-%m-%d %H:%M:%S}",
        f"{_folders_mib(study)} MiB",
        running_by(runner) if runner else study.stopped_because or "not finished, and no process runs it",
    ]


def _folders_mib(study: StudySummary) -> float:
    from tuner.records.retention import folders_size

    return round(folders_size(study.log_dirs) / 2**20, 1)
