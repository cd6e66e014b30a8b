"""``tuner ui``: MLflow's UI on the store that studies are logged to."""

from __future__ import annotations

import subprocess

import click

from tuner.space.model import TrackingSettings


@click.command()
@click.option("--mlflow", "uri", metavar="URI", default=None, help="MLflow store. Default: sqlite:///mlflow.db.")
@click.option("--port", default=5000, show_default=True, help="Port on 127.0.0.1.")
@click.option("--print-command", is_flag=True, help="Print the command instead of running it.")
def ui(uri: str | None, port: int, print_command: bool) -> int:
    """Open MLflow's UI (on this machine only) and stay until Ctrl-C."""
    from tuner.tracking.server import ui_command

    command = ui_command(uri or str(TrackingSettings().mlflow), port)
    if print_command:
        click.echo(" ".join(command))
        return 0
    click.echo(f"http://127.0.0.1:{port}  (Ctrl-C ends it)", err=True)
    return subprocess.call(command)
