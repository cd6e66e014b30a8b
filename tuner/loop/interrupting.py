"""Ctrl-C while an executor runs: a request that is met between two steps, never an exception within one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""Exit code of a program that was ended by Ctrl-C."""


@contextmanager
def interruptible(*asks: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C (SIGTERM, SIGHUP) once: ``asks`` are called, safe in a signal handler, so that no new job starts and
    what runs is cut; twice: the process ends at once (guardians then kill).

    An exception instead could come while a lock of the executor is held, and wait for it for ever.
    """
    presses = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            os._exit(INTERRUPTED)
        for ask in asks:
            ask()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_kept_alive = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup: no terminal is needed
    numbers = [signal.SIGINT, signal.SIGTERM, *([] if is_kept_alive else [signal.SIGHUP])]
    previous = {sig: signal.signal(sig, on_signal) for sig in numbers}
    try:
        yield
    finally:
        for sig, handler in previous.items():
            signal.signal(sig, handler)
