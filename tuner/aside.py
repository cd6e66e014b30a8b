"""Runs a program of ``trials`` with a spec, apart from any study: ranking layers, building an artifact."""

from __future__ import annotations

import sys

from trials.contract import Measurement, TrialSpec
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import Job, Signal, Slots


class _One:
    """A source of one job."""

    def __init__(self, spec: TrialSpec) -> None:
        self._job: Job | None = Job(spec)
        self.measurement: Measurement | None = None

    def next_job(self, running: int) -> Job | Signal:
        if running:
            return Signal.WAIT
        job, self._job = self._job, None
        return job or Signal.FINISHED

    def on_result(self, job: Job, measurement: Measurement) -> None:
        self.measurement = measurement

    def must_stop(self) -> bool:
        return False


def run_aside(module: str, spec: TrialSpec, slot: Slots) -> Measurement | None:
    """What ``python -m MODULE spec.json`` measured, on this machine; None where it was interrupted.

    ExecutionError where the machine has not what the slot needs.
    """
    source = _One(spec)
    LocalExecutor(program=(sys.executable, "-m", module)).run(source, slot)
    return source.measurement
