"""What the study loop calls. Shows a study in MLflow while it runs; can neither slow nor end it.

A trial is queued in microseconds and written by the logger process. `MlflowTracker.flush`, called between
trials, waits a bounded time for it, so that nothing is written inside a measured window. Where MLflow is away
this is said once, the study goes on, and the closing message (or, later, `tuner.tracking.replay`) brings what
is missing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, cast

from tuner.records.rows import StudyRecord
from tuner.results import StudyResult, TrialResult
from tuner.tracking.artifacts import folder_with
from tuner.tracking.link import LoggerLink
from tuner.tracking.stores import artifact_folder, checked_uri, without_password
from tuner.tracking.views import StudyViews
from tuner.tracking.wire import Closing, Opening

START_TIMEOUT_S = 20.0  # importing MLflow and making a new database take 3 s on a quiet machine
FINISH_TIMEOUT_S = 60.0
FINISH_TIMEOUT_PER_TRIAL_S = 0.2

P = ParamSpec("P")


def _harmless(
    method: Callable[Concatenate[MlflowTracker, P], bool],
) -> Callable[Concatenate[MlflowTracker, P], bool]:
    """Whatever goes wrong in ``method`` is a warning: a view of the study must not end the study."""

    @functools.wraps(method)
    def guarded(self: MlflowTracker, *args: P.args, **kwargs: P.kwargs) -> bool:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see above; the cause is shown
            self._say(f"{type(error).__name__}: {error}")
            return False

    return cast("Callable[Concatenate[MlflowTracker, P], bool]", guarded)


class MlflowTracker:
    """One study shown in one MLflow store. Every method returns True when what it asked for is written or
    queued.

    ``uri`` and ``experiment`` are the space file's (`TrackingSettings`); a bad address raises TrackingError
    here, before anything runs. ``on_parent`` is told the id of the study's run, to be kept and handed back as
    ``known_run_id`` when the study goes on. ``warn`` gets at most one line.
    """

    def __init__(
        self,
        uri: str,
        experiment: str,
        known_run_id: str | None = None,
        on_parent: Callable[[str], None] = lambda run_id: None,
        warn: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    ) -> None:
        self.uri = checked_uri(uri)
        self.experiment = experiment
        self.run_id = known_run_id
        self._on_parent, self._warn = on_parent, warn
        self._link: LoggerLink | None = None
        self._views: StudyViews | None = None
        self._is_ready = self._is_late = self._is_refused = self._has_warned = False

    @_harmless
    def start(self, study: StudyRecord) -> bool:
        """Start the logger process and open the study's run; does not wait (the next `flush` does).

        Calling it again does nothing.
        """
        if self._views is None:
            self._views = StudyViews(study)
            self._connect(study)
        return self._link is not None

    @_harmless
    def trial(self, trial: TrialResult, hypervolume: float | None = None) -> bool:
        """Queue the run of one trial; call again when it was measured again.

        ``hypervolume`` is that of the front so far, shown as a curve over the trials.
        """
        if self._link is None or self._views is None or self._is_refused:
            return False
        view = self._views.trial(trial)
        self._link.put(view)
        if hypervolume is not None and view.ended_ms is not None:
            self._link.put(self._views.progress(trial.number, hypervolume, view.ended_ms))
        return True

    @_harmless
    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until what is queued is written, at most ``timeout_s`` (longer for the first: MLflow starts).

        A store that is late once is not waited for again until it has caught up.
        """
        if self._link is None:
            return False
        limit_s = timeout_s if self._is_ready else max(timeout_s, START_TIMEOUT_S)
        is_done = self._link.wait(0.0 if self._is_late else limit_s)
        if not self._link.is_alive:
            self._lost()
        elif not is_done and not self._is_late:
            self._say(f"no answer within {limit_s:.0f} s")
        self._is_late = not is_done
        return is_done and not self._is_refused

    @_harmless
    def finish(
        self,
        result: StudyResult,
        artifacts: Mapping[str, str | bytes] | None = None,
        timeout_s: float | None = None,
    ) -> bool:
        """Write every run as judged at the end, and the files of the study; ends the logger process.

        ``artifacts``: file name -> content, shown with the study's run (``pareto_front.html`` ...). What was
        lost on the way, because MLflow was away or the process died, is brought now. Waits at most
        ``timeout_s``.
        """
        if self._views is None:
            return False
        limit_s = timeout_s or FINISH_TIMEOUT_S + FINISH_TIMEOUT_PER_TRIAL_S * len(result.trials)
        try:
            if self._link is None or not self._link.is_alive:
                self._connect(result.record)
            return self._closed(result, artifacts or {}, limit_s)
        finally:
            self.close()

    def close(self) -> None:
        """End the logger process without another word; a run that is still open is marked as killed."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _connect(self, study: StudyRecord) -> None:
        assert self._views is not None
        view = self._views.opening(study)
        opening = Opening(
            self.uri, self.experiment, artifact_folder(self.uri), self._views.key, view, self.run_id
        )
        self._link = LoggerLink(self._answered)
        self._link.put(opening)

    def _closed(self, result: StudyResult, artifacts: Mapping[str, str | bytes], limit_s: float) -> bool:
        assert self._link is not None and self._views is not None
        run, trials = self._views.closing(result)
        with folder_with(artifacts) as folder:
            self._link.put(Closing(run, trials, folder))
            is_done = self._link.wait(limit_s)
        if not self._link.is_alive:
            self._lost()
        elif not is_done:
            self._say(f"not everything was written within {limit_s:.0f} s")
        return is_done and not self._is_refused

    def _answered(self, answer: Mapping[str, Any]) -> None:
        """The logger process did, or could not do, what a message asked."""
        self._is_ready = True
        self._is_refused = "done" not in answer
        if self._is_refused:
            self._say(str(answer["why"]))
        elif answer["parent_id"] != self.run_id:
            self.run_id = str(answer["parent_id"])
            self._on_parent(self.run_id)

    def _lost(self) -> None:
        assert self._link is not None
        self._say(f"its process ended: {self._link.last_words()}")
        self.close()

    def _say(self, why: str) -> None:
        """One line for the whole study, however often MLflow fails."""
        if not self._has_warned:
            self._has_warned = True
            name = self._views.key.study if self._views else "STUDY"
            self._warn(
                f"warning: MLflow at {without_password(self.uri)} does not show the study ({why}); "
                f"the study goes on, and 'tuner log {name}' brings what is missing"
            )
