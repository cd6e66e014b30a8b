"""A real MLflow store on sqlite for tests, copied from one that was set up once (a second or more)."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tuner.tracking.logger import silence

silence()

from mlflow import MlflowClient  # noqa: E402 - silenced first
from mlflow.entities import Run  # noqa: E402

EXPERIMENT = "lm-training"


@cache
def _template() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        MlflowClient(f"sqlite:///{folder}/m.db").search_experiments()
        return (Path(folder) / "m.db").read_bytes()


def new_store(folder: Path) -> str:
    """The address of a fresh store in ``folder``."""
    (folder / "mlflow.db").write_bytes(_template())
    shutil.rmtree(folder / "mlartifacts", ignore_errors=True)
    return f"sqlite:///{folder}/mlflow.db"


def runs(uri: str, experiment: str = EXPERIMENT) -> list[Run]:
    """Every run of an experiment, the study's first, then the trials by number."""
    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        return []
    return sorted(client.search_runs([found.experiment_id], max_results=1000), key=_order)


def history(uri: str, run_id: str, name: str) -> list[tuple[int, float]]:
    """Steps and values of a metric."""
    return [(point.step, point.value) for point in MlflowClient(uri).get_metric_history(run_id, name)]


def artifacts(uri: str, run_id: str) -> list[str]:
    """Names of a run's artifacts."""
    return [item.path for item in MlflowClient(uri).list_artifacts(run_id)]


def _order(run: Run) -> Any:
    return int(run.data.tags.get("tuner.trial", -1))
