"""Ray Tune's view of a study: a Searcher that hands out jobs, a Stopper that cuts a run."""

from __future__ import annotations

import itertools
from typing import Any

from ray.tune import Callback, Stopper
from ray.tune.search import Searcher

from trials.contract import Measurement
from tuner.execution.feed import Feed
from tuner.execution.protocol import Job, Signal
from tuner.execution.supervisor import Place
from tuner.execution.trainable import RESULT_KEY, job_config, place_config

# Ray Tune pickles a searcher's and a stopper's arguments: they carry a number, the rest stays here
_feeds: dict[int, tuple[Feed, Place]] = {}
_numbers = itertools.count(1)


def register(feed: Feed, place: Place) -> int:
    """Make a feed reachable for the searcher and the stopper of one run, and what its jobs have in common."""
    number = next(_numbers)
    _feeds[number] = (feed, place)
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
        """The next job's configuration, None while there is nothing, FINISHED at the end."""
        feed, place = _feeds[self._number]
        job = feed.next_job(trial_id)
        if isinstance(job, Job):
            return place_config(place) | job_config(job.spec)
        return str(Searcher.FINISHED) if job is Signal.FINISHED else None

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Hand the job back."""
        has_reported = result is not None and not error and RESULT_KEY in result
        measurement = Measurement.from_json(result[RESULT_KEY]) if result and has_reported else None
        _feeds[self._number][0].complete(trial_id, measurement)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the records are what a study resumes from."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, as above."""


class Forgetting(Callback):  # type: ignore[misc]  # as above
    """Ray Tune keeps every trial to the end, with statistics of its result: 30 KB each that nobody reads."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Drop them; that it has reported stays."""
        kept = trial.run_metadata
        kept.metric_analysis.clear()
        kept.metric_n_steps.clear()
        kept.last_result = {"done": True}


class FeedStopper(Stopper):  # type: ignore[misc]  # as above
    """At full concurrency a searcher is not asked, so the order to stop comes from here."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """A single trial is never stopped by Ray Tune."""
        return False

    def stop_all(self) -> bool:
        """See ``Feed.must_stop``."""
        return _feeds[self._number][0].must_stop()
