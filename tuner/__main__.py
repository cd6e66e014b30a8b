"""``tuner`` and ``python -m tuner``. Ctrl-C is quiet from the first line on: the imports below take a while."""

from __future__ import annotations

import os
import signal
from types import FrameType

_INTERRUPTED = 130


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)  # nothing has begun that would have to be put away


def main() -> None:
    """Entry point of the program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a program in the background has none
        signal.signal(signal.SIGINT, _end_at_once)
    from tuner.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
