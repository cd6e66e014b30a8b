"""MLflow's own UI on a store."""

from __future__ import annotations

import sys

from tuner.tracking.stores import TrackingError, checked_uri, is_server


# Without these, eight more processes start, for background jobs that a tuner's study never has.
_LIGHT = ("MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false", "MLFLOW_DISABLE_TELEMETRY=true")


def ui_command(uri: str, port: int = 5000) -> list[str]:
    """The command that shows ``uri`` in MLflow's own UI, reachable from this machine only.

    Raises TrackingError for a server, which has its UI already.
    """
    if is_server(uri):
        raise TrackingError(f"{uri} is an MLflow server already: open it in a browser")
    where = ["--backend-store-uri", checked_uri(uri), "--host", "127.0.0.1", "--port", str(port)]
    return ["env", *_LIGHT, sys.executable, "-m", "mlflow", "server", *where, "--workers", "1"]
