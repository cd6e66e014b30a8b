"""``tuner log``: a study from the records into MLflow, in this process and in the foreground."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.records.rows import StudyRecord
from tuner.results import StudyResult
from tuner.tracking.artifacts import folder_with
from tuner.tracking.logger import one_line, silence
from tuner.tracking.stores import TrackingError, artifact_folder, checked_uri, without_password
from tuner.tracking.views import StudyViews
from tuner.tracking.wire import Closing, Opening


def replay(
    study: StudyRecord,
    result: StudyResult,
    uri: str,
    experiment: str,
    artifacts: Mapping[str, str | bytes] | None = None,
) -> str:
    """Make MLflow show the study as recorded; gives the id of its run.

    Runs that are there are brought up to date, never doubled: they are found by their tags, or by the run id
    in the study's notes. TrackingError, one line, where MLflow cannot be reached or refuses.
    """
    where = checked_uri(uri)
    silence()
    from tuner.tracking.writer import StudyWriter

    views = StudyViews(study)
    known = study.notes.get("mlflow_run_id")
    opening = Opening(where, experiment, artifact_folder(where), views.key, views.opening(study), known)
    run, trials = views.closing(result)
    try:
        with folder_with(artifacts or {}) as folder:
            return StudyWriter(opening).finish(Closing(run, trials, folder))
    except Exception as error:  # MLflow, its database driver and the network raise what they like
        raise TrackingError(f"MLflow at {without_password(where)}: {one_line(error)}") from error
