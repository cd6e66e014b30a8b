"""Runs a program of ``trials`` with a spec, apart from any study: ranking layers, building an artifact."""

from __future__ import annotations

import sys

from trials.contract import Measurement, TrialSpec
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import Job, Signal, Slots
from tuner.loop.interrupting import interruptible


def run_aside(module: str, spec: TrialSpec, slot: Slots) -> Measurement:
    """What ``python -m MODULE spec.json`` measured, on this machine, failed or not.

    ExecutionError where the machine has not what the slot needs; KeyboardInterrupt, after the program has been
    ended, where Ctrl-C was pressed.
    """
    source = _One(spec)
    executor = LocalExecutor(program=(sys.executable, "-m", module))
    with interruptible(source.interrupt, executor.interrupt):
        executor.run(source, slot)
    if source.is_interrupted or source.measurement is None:
        raise KeyboardInterrupt
    return source.measurement


class _One:
    """A source of one job."""

    def __init__(self, spec: TrialSpec) -> None:
        self._job: Job | None = Job(spec)
        self.measurement: Measurement | None = None
        self.is_interrupted = False

    def next_job(self, running: int) -> Job | Signal:
        if running:
            return Signal.WAIT
        job, self._job = self._job, None
        return job or Signal.FINISHED

    def on_result(self, job: Job, measurement: Measurement) -> None:
        self.measurement = measurement

    def must_stop(self) -> bool:
        return self.is_interrupted

    def interrupt(self) -> None:
        self.is_interrupted = True

    def look(self) -> None:
        pass
