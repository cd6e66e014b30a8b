"""``tuner list``: the studies in the records, newest first."""

from __future__ import annotations

import json

import click

from tuner.cli.options import json_option, records_option
from tuner.cli.text import table


@click.command("list")
@records_option
@json_option
def list_studies(records: str | None, as_json: bool) -> None:
    """List the studies in the records, newest first, with the size of their trial folders."""
    from tuner.records.repository import Records
    from tuner.records.retention import folders_size

    with Records.open(records, must_exist=True) as store:
        studies = store.studies()
    rows = [
        {
            "name": study.name,
            "generation": study.generation,
            "trials": study.trials,
            "measurements": study.measurements,
            "counts": dict(study.counts),
            "created_at": study.created_at.isoformat(timespec="seconds"),
            "updated_at": study.updated_at.isoformat(timespec="seconds"),
            "stopped_because": study.stopped_because,
            "folders_mib": round(folders_size(study.log_dirs) / 2**20, 1),
        }
        for study in studies
    ]
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "studies": rows}, indent=2))
        return
    click.echo(
        table(
            [
                [
                    str(row["name"]),
                    str(row["trials"]),
                    " ".join(f"{outcome}:{count}" for outcome, count in study.counts.items()),
                    str(row["updated_at"]),
                    f"{row['folders_mib']} MiB",
                    study.stopped_because or "not finished",
                ]
                for row, study in zip(rows, studies, strict=True)
            ],
            ["study", "trials", "outcomes", "updated (UTC)", "folders", "stopped because"],
        )
    )
