"""The contract suite of tracking on an MLflow server of our own, on loopback; a healthy one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from tests.contracts.tracking_suite import TrackingSuite
from tests.faults.processes import wait_until
from tests.faults.test_mlflow_away import free_port
from tests.unit.tracking.mlflow_store import EXPERIMENT, new_store

START_WITHIN_S = 180.0


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with a database and a folder for files of its own."""
    with tempfile.TemporaryDirectory(prefix="tuner-mlflow-") as folder:
        port = free_port()
        command = [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
            "--backend-store-uri", new_store(Path(folder)), "--artifacts-destination", f"{folder}/files",
            "--workers", "1",
        ]  # fmt: skip
        light = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        log = Path(folder, "server.log")
        with (
            log.open("wb") as stream,
            subprocess.Popen(
                command,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **light},
                cwd=folder,
                start_new_session=True,
            ) as process,
        ):
            try:
                address = f"http://127.0.0.1:{port}"
                assert wait_until(lambda: _is_healthy(address), START_WITHIN_S), log.read_text()
                yield address
            finally:
                os.killpg(process.pid, signal.SIGKILL)


def _is_healthy(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


class TestMlflowServer(TrackingSuite):
    @pytest.fixture
    def store(self, server: str) -> Iterator[str]:
        """The server, with no experiment of the tests' name: that of the test before is renamed."""
        yield server
        client = MlflowClient(server)
        for experiment in client.search_experiments(view_type=ViewType.ALL):
            if experiment.name == EXPERIMENT:
                if experiment.lifecycle_stage == "deleted":
                    client.restore_experiment(experiment.experiment_id)
                client.rename_experiment(experiment.experiment_id, uuid.uuid4().hex)

    def test_files_of_a_study_go_through_the_server_and_not_to_a_folder_here(self, store: str) -> None:
        client = MlflowClient(store)
        experiment = client.get_experiment(client.create_experiment(EXPERIMENT))
        assert experiment.artifact_location.startswith("mlflow-artifacts:")
