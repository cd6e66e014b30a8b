"""Shows a running study in MLflow: between measurements only, and never able to end it."""

from __future__ import annotations

from collections.abc import Callable

from trials.contract import Measurement, Purpose
from tuner.cli.errors import CliError
from tuner.pareto import FrontTracker
from tuner.records.errors import RecordsError
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord
from tuner.results import StudyResult, judge, judge_trial
from tuner.results.model import BASELINE
from tuner.results.runs import search_losses
from tuner.space.model import StudyFile
from tuner.space.space import Config
from tuner.study import Ticket
from tuner.tracking import MlflowTracker, TrackingError
from tuner.tracking.stores import without_password

STORE_NOTE = "mlflow_store"
"""Under this key the records note where a study is logged, for ``tuner ui`` and ``tuner log``."""


class TrackerWatcher:
    """Hands trials to MLflow between measurements; waits a bounded time, so that no window is disturbed."""

    def __init__(self, tracker: MlflowTracker, records: Records, study: str) -> None:
        self._tracker, self._records, self._study = tracker, records, study
        self._is_open = False
        self._front: FrontTracker | None = None  # known once the reference point is

    def phase(self, name: str, detail: str) -> None:
        """Opens the study's run before the first trial; nobody waits: Ray starts at the same time."""
        if self._is_open:
            self._tracker.flush()
        else:
            self._is_open = True
            self._tracker.start(self._records.study(self._study))

    def started(self, ticket: Ticket, config: Config) -> None:
        """A measured window is about to open, so MLflow's own start must be over; the cold run may hear it."""
        if not ticket.is_cold:
            self._tracker.flush()

    def measured(
        self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None
    ) -> None:
        """Queue the trial and wait until it is written."""
        if ticket.is_cold:
            self._tracker.flush()
            return
        record = self._records.study(self._study, only=(BASELINE, ticket.number))
        is_search = ticket.purpose in (Purpose.SEARCH, Purpose.RETRY)
        hypervolume = self._hypervolume(record, ticket.number) if is_search else None
        self._tracker.trial(judge_trial(record, ticket.number), hypervolume)
        self._tracker.flush()

    def _hypervolume(self, record: StudyRecord, number: int) -> float | None:
        """Of the feasible trials so far, this one among them; None before the reference point is known.

        All trials are read once; after that each costs its own volume only.
        """
        if record.reference_point is None or record.bounds is None:
            return None
        new = [trial for trial in record.trials if trial.number == number]
        if self._front is None:
            self._front = FrontTracker([o.loss(record.reference_point[o.metric]) for o in record.objectives])
            new = list(self._records.study(self._study).trials)
        for trial in new:
            losses = search_losses(trial, record, record.bounds)
            if losses is not None:
                self._front.add(losses)
        return self._front.hypervolume

    def note(self, message: str) -> None:
        """Nothing."""


def tracker_for(file: StudyFile, records: Records, warn: Callable[[str], None]) -> MlflowTracker | None:
    """The tracker that the file asks for; the store is noted with the study. CliError for a bad address."""
    if file.tracking.mlflow is None:
        return None
    try:
        tracker = MlflowTracker(
            file.tracking.mlflow,
            file.tracking.experiment or file.name,
            known_run_id=records.study(file.name, only=()).notes.get("mlflow_run_id"),
            on_parent=lambda run_id: records.note(file.name, "mlflow_run_id", run_id),
            warn=warn,
        )
    except TrackingError as problem:
        raise CliError(str(problem)) from problem
    if without_password(tracker.uri) == tracker.uri:  # a secret does not go into the records
        records.note(file.name, STORE_NOTE, tracker.uri)
    return tracker


def finish_tracking(
    tracker: MlflowTracker,
    records: Records,
    study: str,
    result: StudyResult | None,
    warn: Callable[[str], None],
) -> None:
    """Write what the end of a study adds, its pictures too; whatever goes wrong is a warning.

    ``result`` None: the baseline is not known, so there is nothing to draw, and the study's run says so.
    """
    if result is None:
        try:
            tracker.finish(judge(records.study(study)))
        except RecordsError as problem:
            warn(f"warning: MLflow is not told how the study ended: {problem}")
            tracker.close()
        return
    artifacts: dict[str, str | bytes] = {}
    try:
        from tuner.cli.artifacts import (
            study_artifacts,
        )  # plotting libraries: only now, when nothing is measured

        artifacts = study_artifacts(result.record, result)
    except Exception as problem:  # noqa: BLE001 - a picture that cannot be drawn must not fail a measured study
        warn(f"warning: MLflow gets no pictures of the study: {type(problem).__name__}: {problem}")
    tracker.finish(result, artifacts)
