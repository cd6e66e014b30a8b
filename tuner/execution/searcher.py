"""Ray Tune's view of a study: a Searcher that hands out jobs, a Stopper that cuts a run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from ray.tune import Stopper
from ray.tune.search import Searcher

from trials.contract import FailureKind, Measurement
from tuner.execution.classify import cut_before_it_ended
from tuner.execution.protocol import ExecutionError, Job, JobSource, Signal
from tuner.execution.trainable import RESULT_KEY, job_config

GRACE_S = 3.0  # how long a cut trial may take to report before Ray Tune ends its actor


class Feed:
    """Stands between the study and Ray Tune; everything here runs in the driver's main thread."""

    def __init__(self, source: JobSource, constants: dict[str, Any], cut: Callable[[], None]) -> None:
        self._source = source
        self._constants = constants
        self._cut = cut  # interrupts what runs
        self._running: dict[str, Job] = {}
        self._is_waiting = False  # the source has nothing until a job ends
        self._is_finished = False
        self._cut_at: float | None = None
        self.problem: Exception | None = None  # raised by the study: ends the run, and is raised again after it

    def suggest(self, tune_id: str) -> dict[str, Any] | str | None:
        """The next job's configuration for Ray Tune, None while there is nothing, FINISHED at the end."""
        if self._cut_at is not None or self._is_finished:
            return str(Searcher.FINISHED)
        if self._is_waiting and self._running:
            return None
        job = self._guarded(lambda: self._source.next_job(len(self._running)))
        if isinstance(job, Job):
            self._running[tune_id] = job
            return {**self._constants, **job_config(job.spec)}
        if job is Signal.WAIT and not self._running:
            self.problem = ExecutionError("the study waits for a result while nothing runs")
        self._is_waiting = job is Signal.WAIT
        self._is_finished = job is Signal.FINISHED or self.problem is not None
        return str(Searcher.FINISHED) if self._is_finished else None

    def complete(self, tune_id: str, result: dict[str, Any] | None) -> None:
        """Hand a job back; without a result its actor died, or was ended by a cut."""
        job = self._running.pop(tune_id, None)
        if job is None:
            return
        self._is_waiting = False
        if result and RESULT_KEY in result:
            measurement = Measurement.from_json(result[RESULT_KEY])
        elif self._cut_at is not None:
            measurement = cut_before_it_ended()
        else:
            measurement = Measurement.failed(FailureKind.KILLED, "the Ray actor that supervised this trial died")
        self._guarded(lambda: self._source.on_result(job, measurement))

    def must_stop(self) -> bool:
        """True when Ray Tune should end what is still there; asked after each of its events.

        A cut trial gets a moment to report, because its report says more than a killed actor.
        """
        if self._cut_at is None and (self.problem or self._guarded(self._source.must_stop)):
            self.interrupt()
        return self._cut_at is not None and (not self._running or time.monotonic() > self._cut_at + GRACE_S)

    def interrupt(self) -> None:
        """Cut what runs and ask for nothing more."""
        if self._cut_at is None:
            self._cut_at = time.monotonic()
        self._cut()

    def hand_back_the_rest(self) -> None:
        """After the run: whatever Ray Tune forgot ends as interrupted."""
        self._cut_at = self._cut_at or time.monotonic()
        for tune_id in list(self._running):
            self.complete(tune_id, None)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """An exception of the study would be lost inside Ray Tune: keep it, end the run."""
        if self.problem is not None:
            return None
        try:
            return call()
        except Exception as problem:  # noqa: BLE001 - whatever it was, it is raised again by the executor
            self.problem = problem
            return None


_feeds: dict[int, Feed] = {}  # Ray Tune pickles a searcher's and a stopper's arguments: they carry a number only
_numbers = itertools.count(1)


def register(feed: Feed) -> int:
    """Make a feed reachable for the searcher and the stopper of one run."""
    number = next(_numbers)
    _feeds[number] = feed
    return number


def forget(number: int) -> None:
    """The run is over."""
    del _feeds[number]


class FeedSearcher(Searcher):  # type: ignore[misc]  # Ray Tune's classes are untyped for us
    """Ray Tune asks here what to run next."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """See ``Feed.suggest``."""
        return _feeds[self._number].suggest(trial_id)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """See ``Feed.complete``."""
        _feeds[self._number].complete(trial_id, None if error else result)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the records are what a study resumes from."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, as above."""


class FeedStopper(Stopper):  # type: ignore[misc]  # as above
    """At full concurrency a searcher is not asked, so the order to stop comes from here."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """A single trial is never stopped by Ray Tune."""
        return False

    def stop_all(self) -> bool:
        """See ``Feed.must_stop``."""
        return _feeds[self._number].must_stop()
