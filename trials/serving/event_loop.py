"""An event loop whose timers are exact to some 0.1 ms."""

from __future__ import annotations

import asyncio
import select
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _FineSelector(selectors.EpollSelector):
    """Waits with ``select`` on the epoll descriptor: epoll's own timeout is in whole milliseconds, rounded up, and
    every request of an open loop would be up to one late.
    """

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """``asyncio.run`` on such a loop."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_FineSelector())) as runner:
        return runner.run(work)
