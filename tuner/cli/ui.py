"""``tuner ui``: MLflow's UI on the store that studies are logged to."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
from pathlib import Path
from types import FrameType

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError
from tuner.cli.offers import studies
from tuner.cli.options import WholeNumber, mlflow_option, records_option


@click.command()
@click.argument("study", metavar="[STUDY]", required=False, shell_complete=studies)
@mlflow_option
@records_option
@click.option(
    "--port", type=WholeNumber(1, 65535), default=5000, show_default=True, help="Port on 127.0.0.1."
)
@click.option("--print-command", is_flag=True, help="Print the command instead of running it.")
def ui(study: str | None, uri: str | None, records: str | None, port: int, print_command: bool) -> int:
    """Open MLflow's UI (on this machine only) and stay until Ctrl-C.

    On the store that STUDY was logged to, by default ./mlflow.db.
    """
    from tuner.tracking.server import ui_address, ui_command
    from tuner.tracking.stores import TrackingError

    store = uri or _store_of(study, records)
    try:
        command = ui_command(store, port)
    except TrackingError as problem:
        raise CliError(str(problem)) from problem
    if print_command:
        click.echo(shlex.join(command))
        return 0
    _refuse_a_missing_file(store)
    _refuse_a_busy_port(port)
    echo(f"{ui_address(store, port)}  (Ctrl-C ends it)", err=True)
    return _wait_for(command)


def _store_of(study: str | None, records: str | None) -> str:
    from tuner.space.model import TrackingSettings

    default = str(TrackingSettings().mlflow)
    if study is None:
        return default
    from tuner.cli.mlflow_watch import STORE_NOTE
    from tuner.records.repository import Records

    with Records.open(records, must_exist=True) as store:
        notes = store.study(study, only=()).notes
    return str(notes.get(STORE_NOTE) or default)


def _refuse_a_missing_file(uri: str) -> None:
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.exists():
        raise CliError(
            f"no MLflow store at {path}; run `tuner run` or `tuner log STUDY` first, or give --mlflow"
        )


def _refuse_a_busy_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise CliError(
                f"port {port} cannot be used ({why}); give another: --port {port % 65535 + 1}"
            ) from problem


def _wait_for(command: list[str]) -> int:
    """The server's exit code; 0 where Ctrl-C or SIGTERM ended it, which is the way to end it.

    The server's workers are processes of their own: the whole group is ended, or they would keep the port.
    """
    with subprocess.Popen(command, start_new_session=True) as server:
        previous = {sig: signal.signal(sig, _interrupt) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            return server.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            for sig, handler in previous.items():
                signal.signal(sig, handler)
            _end_group(server)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end_group(server: subprocess.Popen[bytes]) -> None:
    for sig in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=5)
