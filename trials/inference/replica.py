"""One copy of the model in its own engine on its own cores; in the trial's process, or in one of its own.

Replicas are processes, not threads: Python's lock, and thread pools that some engines share within a process,
would tie threads together. The first one is the trial's own process, so that a trial of one instance has no other.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from trials.contract import TrialFailure, TrialSpec

CLOSE = "close"


@dataclass(frozen=True)
class Place:
    """Which of ``instances`` replicas this is, and what it holds."""

    instance: int
    instances: int
    cpus: tuple[int, ...]
    gpus: tuple[str, ...]
    threads: int

    def take(self) -> None:
        """Keep to the cores and see the device; called before anything starts threads or loads a driver."""
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        if self.gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(self.gpus)


def places(spec: TrialSpec, config: Mapping[str, Any]) -> list[Place]:
    """Where the replicas of a trial run: equal shares of its cores; its devices in turn."""
    cores = sorted(spec.cpus or os.sched_getaffinity(0))
    instances = int(config.get("instances") or 1)
    share = len(cores) // instances
    return [
        Place(
            instance,
            instances,
            tuple(cores[instance * share : (instance + 1) * share]) if instances > 1 else tuple(cores),
            (spec.gpus[instance % len(spec.gpus)],) if spec.gpus else (),
            int(config.get("threads") or max(1, share)),
        )
        for instance in range(instances)
    ]


@dataclass
class Loaded:
    """What loading gave: seconds by phase, and what really runs."""

    phases: dict[str, float] = field(default_factory=dict)
    description: dict[str, Any] = field(default_factory=dict)


class Replica:
    """The engine of one place, and what is asked of it. Methods are called by name from ``Fleet``."""

    def __init__(
        self,
        spec: TrialSpec,
        place: Place,
        phase: Callable[[str], Any] | None = None,
        phases: dict[str, float] | None = None,
        served: Any = None,
    ) -> None:
        self.spec, self.place, self.served = spec, place, served
        self._phases: dict[str, float] = {} if phases is None else phases
        self._phase = phase or self._timed

    def load(self) -> Loaded:
        """Data, model and engine, ready to run."""
        from trials.inference.engines import start_engine
        from trials.inference.model import prepare
        from trials.inference.serving import prepared

        with self._phase("data_s"):
            self.served = self.served or prepare(self.spec, self.place.threads)
            planned = self.served.pass_over(self.place.instance, self.place.instances)
            self._batches = prepared(planned, self.served.evaluation)
        folder = self.spec.trial_dir / f"engine-{self.place.instance}"
        folder.mkdir(parents=True, exist_ok=True)
        with self._phase("load_total_s"):
            self.engine = start_engine(
                self.served.source, self.served.settings, folder, self._phase, len(self.place.gpus)
            )
        return Loaded(dict(self._phases), _plain(self.engine.describe()))

    @property
    def calls_per_pass(self) -> Counter[tuple[int, int]]:
        """How many calls of each shape serve this replica's share of the data."""
        return Counter(planned.shape for planned, _ in self._batches)

    def warm_up(self) -> int:
        """Every shape once; returns the number of calls. Unsupported where the engine refuses one of them."""
        from trials.inference.engine import Unsupported
        from trials.inference.engines import first_line
        from trials.inference.serving import warm_up

        try:
            return warm_up(self.engine, self._batches) if self._batches else 0
        except (TrialFailure, MemoryError):
            raise
        except Exception as error:
            if "OutOfMemoryError" in {base.__name__ for base in type(error).__mro__}:
                raise
            traceback.print_exc()
            shapes = ", ".join(
                f"{rows} x {length}" if length else str(rows) for rows, length in self.calls_per_pass
            )
            raise Unsupported(
                f"{self.served.settings.engine} refuses a batch (of {shapes}): {first_line(error)}"
            ) from error

    def serve(self, window_s: float, begin_at_s: float, turnstile: Path) -> tuple[Any, Any]:
        """This replica's share of the passes: what it did, and its rate in samples per second.

        Nothing and None where another replica has died, which the one who asked will learn from that.
        """
        from trials.inference.serving import Turnstile, serve
        from trials.inference.speed import samples_rate

        gate = Turnstile(turnstile)
        try:
            found = serve(self.engine, self._batches, window_s, begin_at_s, gate, self.place.instance)
        finally:
            gate.pass_through(self.place.instance)  # the others would wait for ever
        if not found.outputs:
            return {}, None
        rate = samples_rate(found, self.calls_per_pass, len(found.outputs))
        return found.outputs, rate

    def answer_requests(self, at_least: int) -> list[float]:
        """Seconds of single requests, one after the other."""
        from trials.inference.samples import single_requests
        from trials.inference.serving import answer_requests

        requests = single_requests(self.served.evaluation, self.served.padding)
        return answer_requests(self.engine, requests, at_least)

    def describe(self) -> dict[str, Any]:
        """What really runs, as plain values."""
        return _plain(self.engine.describe())

    def cores(self) -> tuple[int, ...]:
        """The cores that any thread of this process may run on, by the kernel's word."""
        allowed: set[int] = set()
        for task in Path("/proc/self/task").iterdir():
            try:
                allowed |= os.sched_getaffinity(int(task.name))
            except ProcessLookupError:  # that thread has ended
                continue
        return tuple(sorted(allowed))

    def close(self) -> None:
        """Free the model."""
        if hasattr(self, "engine"):
            self.engine.close()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - begin


def _plain(description: Any) -> dict[str, Any]:
    return {
        "engine": description.engine,
        "engine_version": description.version,
        "provider": description.provider,
        "threads": description.threads,
        "matmul_dtypes": dict(description.matmul_dtypes),
        "quantised_layers": list(description.quantised),
        "kept_layers": list(description.kept),
        **dict(description.details),
    }


def main(descriptor: int) -> None:
    """A replica in a process of its own: does what comes through the connection until it closes."""
    connection = Connection(descriptor)
    text, place = connection.recv()
    place.take()
    replica = Replica(TrialSpec.from_json(text), place)
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        if method == CLOSE:
            return
        connection.send(_answer(replica, method, arguments))


def _answer(replica: Replica, method: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    from trials.runner import kind_of

    try:
        return "done", getattr(replica, method)(*arguments)
    except TrialFailure as failure:
        return "failed", (failure.kind, failure.message)
    except Exception as error:  # noqa: BLE001 - an engine may raise anything; it ends as a typed outcome
        traceback.print_exc()
        return "failed", (kind_of(error), f"{type(error).__name__}: {error}".strip()[:2000])
