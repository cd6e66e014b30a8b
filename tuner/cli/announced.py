"""Says that Ray starts: it takes seconds in which nothing else would be said."""

from __future__ import annotations

from collections.abc import Callable

from tuner.execution.protocol import Executor, JobSource, Slots


class Announced:
    """An executor that says a line before it begins."""

    def __init__(self, executor: Executor, say: Callable[[str], None]) -> None:
        self._executor, self._say = executor, say

    def run(self, source: JobSource, slots: Slots) -> None:
        """See `Executor`."""
        self._say("starting Ray, which takes some seconds ...")
        self._executor.run(source, slots)

    def interrupt(self) -> None:
        """See `Executor`."""
        self._executor.interrupt()
