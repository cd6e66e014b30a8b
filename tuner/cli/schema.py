"""``tuner schema``: the JSON Schema of the space file."""

from __future__ import annotations

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of space files, with which an editor completes and checks them.

    tuner schema > space.schema.json puts it beside a file that names it in its first line.
    """
    from tuner.space.schema import schema_text

    click.echo(schema_text(), nl=False)
