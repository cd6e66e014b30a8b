"""The only module that talks to MLflow: makes a run look as its view says, however often it is asked.

Uses `mlflow.MlflowClient` directly: the fluent interface keeps a global active run, and one call per item
costs six times as much as one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from tuner.tracking.wire import Closing, Opening, Point, RunView

_KIND = {"mlflow.experimentKind": "custom_model_development"}  # or MLflow's UI takes it for chat traces
_PER_BATCH = 100  # MLflow's limit for parameters and for tags; metrics may be 1,000


@dataclass
class _Seen:
    """What MLflow holds of a run, as far as known: what is here is not sent again."""

    run_id: str
    name: str
    status: str
    params: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    points: set[tuple[str, int, float]] = field(default_factory=set)  # name, step, value
    texts: dict[str, str] = field(default_factory=dict)


class StudyWriter:
    """Writes one study into MLflow. What MLflow raises comes through; calling again goes on from there."""

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self._client = MlflowClient(tracking_uri=opening.uri)
        self._experiment_id: str | None = None
        self._parent: _Seen | None = None
        self._children: dict[int, _Seen] = {}

    def open(self) -> str:
        """Find or make the experiment and the study's run; gives the run's id."""
        parent = self._opened()
        self._update(parent, self.opening.run)
        return parent.run_id

    def trial(self, view: RunView) -> str:
        """Make a trial's run (or the study's, ``view.trial`` None) look as ``view``; gives the study's id."""
        parent = self._opened()
        if view.trial is None:
            self._update(parent, view)
            return parent.run_id
        child = self._children.get(view.trial)
        if child is None:
            child = self._children[view.trial] = self._create(view)
        self._update(child, view)
        return parent.run_id

    def finish(self, closing: Closing) -> str:
        """Everything as judged at the end: trials first, then the files and the study's run."""
        parent = self._opened()
        for view in closing.trials:
            self.trial(view)
        for path in sorted(Path(closing.files).iterdir()) if closing.files else ():
            self._client.log_artifact(parent.run_id, str(path))
        self._update(parent, closing.run)
        return parent.run_id

    def forget(self) -> None:
        """After an error: what was sent may or may not have arrived, so look again before writing."""
        self._parent, self._children = None, {}

    def abandon(self) -> None:
        """The driver is gone: leave no run that looks as if it still went on."""
        if self._parent is not None and self._parent.status == "RUNNING":
            self._client.set_terminated(self._parent.run_id, "KILLED")

    def _opened(self) -> _Seen:
        if self._parent is None:
            self._experiment_id = self._experiment()
            found = self._known_run() or self._find_parent()
            self._parent = _seen(found) if found else self._create(self.opening.run)
            self._recall_steps(self._parent)
            self._children = self._find_children(self._parent)
        return self._parent

    def _experiment(self) -> str:
        name = self.opening.experiment
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, self.opening.artifact_folder, _KIND))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another study may have made it meanwhile
                    raise
                found = self._client.get_experiment_by_name(name)
        if found is None or found.lifecycle_stage == "deleted":
            raise MlflowException(
                f"the experiment {name!r} is deleted; restore it, or set tracking.experiment"
            )
        return str(found.experiment_id)

    def _known_run(self) -> Run | None:
        if self.opening.known_run_id is None:
            return None
        try:
            run = self._client.get_run(self.opening.known_run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None  # the study was shown in another store before
        is_here = run.info.lifecycle_stage == "active" and run.info.experiment_id == self._experiment_id
        is_ours = self.opening.key.tags.items() <= run.data.tags.items()  # not an earlier generation's
        return run if is_here and is_ours else None

    def _find_parent(self) -> Run | None:
        return next((run for run in self._search() if MLFLOW_PARENT_RUN_ID not in run.data.tags), None)

    def _find_children(self, parent: _Seen) -> dict[int, _Seen]:
        runs = self._search(f" and tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent.run_id}'")
        return {int(run.data.tags["tuner.trial"]): _seen(run) for run in runs}

    def _search(self, condition: str = "") -> Iterator[Run]:
        """Runs of this study. Names are compared here, so that no quote in a name can break the query."""
        wanted, token = self.opening.key.tags, None
        query = f"tags.`tuner.created_at` = '{self.opening.key.created_at}'{condition}"
        while True:
            page = self._client.search_runs(
                [str(self._experiment_id)], query, max_results=500, page_token=token
            )
            yield from (run for run in page if wanted.items() <= run.data.tags.items())
            token = page.token
            if not token:
                return

    def _create(self, view: RunView) -> _Seen:
        tags = {**view.tags, **self.opening.key.tags}
        if view.trial is not None:
            assert self._parent is not None
            tags |= {"tuner.trial": str(view.trial), MLFLOW_PARENT_RUN_ID: self._parent.run_id}
        first = dict(
            sorted(tags.items(), key=lambda item: not item[0].startswith(("tuner.", "mlflow.")))[:_PER_BATCH]
        )
        run = self._client.create_run(str(self._experiment_id), view.started_ms, first, view.name)
        return _Seen(run.info.run_id, view.name, run.info.status, tags=first)

    def _recall_steps(self, parent: _Seen) -> None:
        """All points of the metrics of a run found again: a search gives the last one only."""
        for name in {name for name, _, _ in parent.points}:
            history = self._client.get_metric_history(parent.run_id, name)
            parent.points |= {(name, point.step, point.value) for point in history}

    def _update(self, seen: _Seen, view: RunView) -> None:
        params = {name: value for name, value in view.params.items() if name not in seen.params}
        tags = {name: value for name, value in view.tags.items() if seen.tags.get(name) != value}
        points = [p for p in view.points if (p.name, p.step, p.value) not in seen.points]
        for batch in _batches(points, params.items(), tags.items()):
            self._client.log_batch(seen.run_id, *batch)
        seen.params |= params.keys()
        seen.tags |= tags
        seen.points |= {(p.name, p.step, p.value) for p in points}
        for file, text in view.texts.items():
            if seen.texts.get(file) != text:
                self._client.log_text(seen.run_id, text, file)
                seen.texts[file] = text
        if view.name != seen.name:
            self._client.update_run(seen.run_id, name=view.name)
            seen.name = view.name
        if view.status != seen.status:
            self._set_status(seen, view)

    def _set_status(self, seen: _Seen, view: RunView) -> None:
        if view.status == "RUNNING":
            self._client.update_run(seen.run_id, status="RUNNING")
        else:
            self._client.set_terminated(seen.run_id, view.status, view.ended_ms)
        seen.status = view.status


def _seen(run: Run) -> _Seen:
    points = {(name, 0, value) for name, value in run.data.metrics.items()}  # a trial's metrics have one step
    info, data = run.info, run.data
    return _Seen(info.run_id, info.run_name or "", info.status, set(data.params), dict(data.tags), points)


def _batches(
    points: Iterable[Point], params: Iterable[tuple[str, str]], tags: Iterable[tuple[str, str]]
) -> Iterator[tuple[list[Metric], list[Param], list[RunTag]]]:
    """One batch for a usual trial; MLflow's limit of 100 parameters or tags a batch may ask for more."""
    metrics = [Metric(p.name, p.value, p.time_ms, p.step) for p in points]
    rows = (_chunks(metrics), _chunks([Param(*i) for i in params]), _chunks([RunTag(*i) for i in tags]))
    for batch in zip_longest(*rows):
        yield tuple(part or [] for part in batch)  # type: ignore[misc]


def _chunks(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + _PER_BATCH] for start in range(0, len(items), _PER_BATCH)]
