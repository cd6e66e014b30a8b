"""MLflow's own UI on a store."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

from tuner.tracking.stores import TrackingError, checked_uri, is_server

# Without these, eight more processes start, for background jobs that a tuner's study never has.
_LIGHT = ("MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false", "MLFLOW_DISABLE_TELEMETRY=true")
# Deprecations inside MLflow and its progress are nothing that a user could act on; errors still come through.
_QUIET = ("PYTHONWARNINGS=ignore", "MLFLOW_LOGGING_LEVEL=WARNING")
_LATEST = """
    SELECT runs.experiment_id FROM runs JOIN tags ON tags.run_uuid = runs.run_uuid
    WHERE tags.key = 'tuner.kind' AND tags.value = 'study' ORDER BY runs.start_time DESC LIMIT 1
"""


def ui_command(uri: str, port: int = 5000) -> list[str]:
    """The command that shows ``uri`` in MLflow's own UI, reachable from this machine only.

    Raises TrackingError for a server, which has its UI already.
    """
    if is_server(uri):
        raise TrackingError(f"{uri} is an MLflow server already: open it in a browser")
    store = checked_uri(uri)
    where = ["--backend-store-uri", store, "--registry-store-uri", store]  # or it remarks on the second
    where += ["--host", "127.0.0.1", "--port", str(port)]
    how = ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    return ["env", *_LIGHT, *_QUIET, sys.executable, "-m", "mlflow", "server", *where, *how]


def ui_address(uri: str, port: int = 5000) -> str:
    """What to open in a browser: the runs of the latest study where the store is an sqlite file that has one.

    The bare address opens MLflow's pages for chat traces, which look as if nothing had been logged.
    """
    base = f"http://127.0.0.1:{port}/"
    experiment = _latest_experiment(checked_uri(uri))
    return base if experiment is None else f"{base}#/experiments/{experiment}?workflowType=machine_learning"


def _latest_experiment(uri: str) -> str | None:
    if not uri.startswith("sqlite:///"):
        return None
    try:
        with closing(sqlite3.connect(f"file:{uri.removeprefix('sqlite:///')}?mode=ro", uri=True)) as database:
            row = database.execute(_LATEST).fetchone()
    except sqlite3.Error:  # no file yet, or a layout of another MLflow: the bare address works too
        return None
    return None if row is None else str(row[0])
