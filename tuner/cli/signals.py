"""What asks the program to end: Ctrl-C, SIGTERM (``kill``, a batch system) and SIGHUP (the terminal closed)."""

from __future__ import annotations

import signal
from types import FrameType

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def raise_interrupts() -> None:
    """From now on each of them raises KeyboardInterrupt, but for one that whoever started us made us ignore."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
