"""The timed loops: passes over the data at the batch (offline), and requests one by one (single stream).

Batches lie ready in memory (as in MLPerf offline): tokenising and padding are no work of an engine. Every
replica serves its share of each pass until all have served a whole one and the least time has passed, so that none
is timed while another already rests. The outputs of the first pass are what quality is judged by.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trials.inference.engine import Batch, Engine
from trials.inference.samples import PlannedBatch, Samples
from trials.measurement.steady import MIN_WARMUP_STEPS

Outputs = dict[int, dict[str, np.ndarray]]
"""Outputs by sample number and name."""
LEAST_REQUESTS, ENOUGH_REQUESTS = 50, 1000
"""Enough for p50, and for p99."""
REQUESTS_S = 2.0
"""After so long no more requests are sent than are needed: what a trial is judged by decides."""
_WARM_REQUESTS = 10


@dataclass
class Pass:
    """What one replica did: the duration of each call, its shape, and the samples' outputs."""

    durations_s: list[float]
    shapes: list[tuple[int, int]]
    outputs: Outputs = field(default_factory=dict)


class Turnstile:
    """One byte per replica in a shared file: set when the replica has done what it must; read in 0.1 us.

    When a replica has died, the byte says that instead, and what the others do is of no use any more.
    """

    _THROUGH, _GIVEN_UP = b"\1", b"\2"

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as stream:
            self._flags = mmap.mmap(stream.fileno(), 0)

    @classmethod
    def new(cls, path: Path, instances: int) -> Turnstile:
        """A closed one at this path, for so many replicas."""
        path.write_bytes(bytes(instances))
        return cls(path)

    def pass_through(self, instance: int) -> None:
        """This replica has served enough, or never will."""
        self._flags[instance : instance + 1] = self._THROUGH

    def give_up(self) -> None:
        """Nobody is to serve on: there is no result."""
        self._flags[:] = self._GIVEN_UP * len(self._flags)

    @property
    def is_given_up(self) -> bool:
        """True when a replica has died."""
        return self._flags.find(self._GIVEN_UP) >= 0

    @property
    def is_done(self) -> bool:
        """True when every replica is through."""
        return self._flags.find(b"\0") < 0


def warm_up(engine: Engine, batches: Sequence[tuple[PlannedBatch, Batch]]) -> int:
    """Every shape at least once, and at least three calls; returns their number."""
    of_each_shape = {planned.shape: batch for planned, batch in batches}
    calls = [*of_each_shape.values()]
    calls += [batches[number % len(batches)][1] for number in range(max(0, MIN_WARMUP_STEPS - len(calls)))]
    for batch in calls:
        engine.run(batch)
    return len(calls)


def serve(
    engine: Engine,
    batches: Sequence[tuple[PlannedBatch, Batch]],
    window_s: float,
    begin_at_s: float,
    turnstile: Turnstile,
    instance: int,
) -> Pass:
    """Passes over the batches from ``begin_at_s`` (monotonic clock) on, until every replica is through.

    Without outputs where one has died before this one was through.
    """
    found, has_passed = Pass([], []), False
    first: list[dict[str, np.ndarray]] = []
    time.sleep(max(0.0, begin_at_s - time.monotonic()))
    begin = last = time.perf_counter()
    while not (has_passed and turnstile.is_done):
        for planned, batch in batches:
            outputs = engine.run(batch)
            now = time.perf_counter()
            found.durations_s.append(now - last)
            found.shapes.append(planned.shape)
            last = now
            if len(first) < len(batches):
                first.append(outputs)
            if has_passed and turnstile.is_done:
                break
            if not has_passed and len(first) == len(batches) and now - begin >= window_s:
                has_passed = True
                turnstile.pass_through(instance)
            if not has_passed and turnstile.is_given_up:
                return found
    for (planned, _), outputs in zip(batches, first, strict=True):
        for row, index in enumerate(planned.indices):
            found.outputs[index] = {name: array[row] for name, array in outputs.items()}
    return found


def answer_requests(engine: Engine, requests: Iterator[Batch], at_least: int) -> list[float]:
    """Seconds of each request; more than ``at_least`` of them while there is time, up to 1,000."""
    for _ in range(_WARM_REQUESTS):
        engine.run(next(requests))
    durations_s: list[float] = []
    begin = time.perf_counter()
    while len(durations_s) < max(ENOUGH_REQUESTS, at_least):
        request = next(requests)
        sent = time.perf_counter()
        engine.run(request)
        answered = time.perf_counter()
        durations_s.append(answered - sent)
        if len(durations_s) >= at_least and answered - begin >= REQUESTS_S:
            break
    return durations_s


def prepared(planned: Sequence[PlannedBatch], samples: Samples) -> list[tuple[PlannedBatch, Batch]]:
    """The batches in memory."""
    return [(batch, batch.arrays(samples)) for batch in planned]
