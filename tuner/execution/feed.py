"""Stands between the study and Ray Tune: what runs, what comes next, when all is to stop. Knows no Ray."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trials.contract import FailureKind, Measurement
from tuner.execution.classify import cut_before_it_ended
from tuner.execution.protocol import ExecutionError, Job, JobSource, Signal

LOOK_S = 1.0  # how often the study looks on and says whether to stop; Ray Tune asks ten times a second
GRACE_S = 3.0  # how long a cut trial may take to report before Ray Tune ends its actor


class Feed:
    """Hands out the source's jobs and hands each back once; all calls come from the driver's main thread."""

    def __init__(self, source: JobSource, cut: Callable[[], None]) -> None:
        self._source = source
        self._cut = cut  # interrupts what runs
        self._running: dict[str, Job] = {}
        self._is_waiting = False  # the source has nothing until a job ends
        self._is_finished = False
        self._cut_at: float | None = None
        self._look_at = 0.0
        self.problem: Exception | None = (
            None  # raised by the study: ends the run, and is raised again after it
        )

    def next_job(self, tune_id: str) -> Job | Signal:
        """The next job, to be known to Ray Tune as ``tune_id``; WAIT only while something runs."""
        if self._cut_at is not None or self._is_finished:
            return Signal.FINISHED
        if self._is_waiting and self._running:
            return Signal.WAIT
        job = self._guarded(lambda: self._source.next_job(len(self._running)))
        if isinstance(job, Job):
            self._running[tune_id] = job
            return job
        if job is Signal.WAIT and not self._running:
            self.problem = ExecutionError("the study waits for a result while nothing runs")
        self._is_waiting = job is Signal.WAIT
        self._is_finished = job is Signal.FINISHED or self.problem is not None
        return Signal.FINISHED if self._is_finished else Signal.WAIT

    def complete(self, tune_id: str, measurement: Measurement | None) -> None:
        """Hand a job back, once; None: its actor died, or was ended by a cut, before it could report."""
        job = self._running.pop(tune_id, None)
        if job is None:
            return
        self._is_waiting = False
        if measurement is None and self._cut_at is not None:
            measurement = cut_before_it_ended()
        known = measurement or Measurement.failed(
            FailureKind.KILLED,
            "the Ray actor that supervised this trial died: it was killed, or could not start on its node",
        )
        self._guarded(lambda: self._source.on_result(job, known))

    def must_stop(self) -> bool:
        """True when Ray Tune should end what is still there; asked after each of its events.

        A cut trial gets a moment to report, because its report says more than a killed actor.
        """
        if self._cut_at is None and self._is_told_to_stop():
            self.interrupt()
        return self._cut_at is not None and (not self._running or time.monotonic() > self._cut_at + GRACE_S)

    def _is_told_to_stop(self) -> bool:
        if self.problem:
            return True
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + LOOK_S
        self._guarded(self._source.look)
        return bool(self._guarded(self._source.must_stop)) or self.problem is not None

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
