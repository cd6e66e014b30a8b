"""Makes a phase of load, in this process or in several, and reads its window."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from trials.serving.apis import Api, api
from trials.serving.client import Target
from trials.serving.generator import Phase, Recording, make_load
from trials.serving.load_settings import Load
from trials.serving.process import on_cores
from trials.serving.window import Window, read_window

_START_DELAY_S = 0.05
_POOL_DELAY_S = 0.5  # for the processes of a pool to take their share up


@dataclass
class Loader:
    """Hands out phases of load against one server; no prompt is used twice, so no cache is flattered.

    ``cpus`` are the cores of the client's processes (empty: those of the trial).
    """

    target: Target
    api_name: str
    model: str
    seed: int
    processes: int = 1
    cpus: Sequence[int] = ()
    _used: int = 0
    _pool: ProcessPoolExecutor | None = None

    def __post_init__(self) -> None:
        _raise_open_files()
        if self.processes > 1:
            context = multiprocessing.get_context("spawn")
            with on_cores(self.cpus):  # the pool's processes inherit them
                self._pool = ProcessPoolExecutor(self.processes, context)
                list(
                    self._pool.map(_ready, range(4 * self.processes))
                )  # imports are over before the first phase

    @property
    def api(self) -> Api:
        """The protocol, for reading answers."""
        return api(self.api_name)(self.model, {})

    def window(self, load: Load, drain_s: float) -> tuple[Window | None, list[Recording]]:
        """Make the load; its window (None where it was not filled) and what each process saw."""
        delay_s = _POOL_DELAY_S if self._pool else _START_DELAY_S
        start_s = time.monotonic() + delay_s
        phase = Phase(self.target, self.api_name, self.model, load, self.seed, self._used, start_s, drain_s)
        recordings = self._made(phase)
        self._used += sum(len(one.exchanges) for one in recordings) + load.warmup + load.measured_requests
        return read_window(recordings, self.api, is_open=load.is_open), recordings

    def _made(self, phase: Phase) -> list[Recording]:
        if self._pool is None:
            with on_cores(self.cpus):
                return [make_load(phase)]
        shares = range(self.processes)
        futures = [self._pool.submit(make_load, phase, share, self.processes) for share in shares]
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the processes."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)


def _ready(_number: int) -> int:
    return os.getpid()


def _raise_open_files() -> None:
    """An open loop against a stalled server needs a connection for every request under way."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
