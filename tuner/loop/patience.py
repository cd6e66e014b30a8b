"""Patience with the records: a lock or a full disk is waited out for a while, then the study stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tuner.loop.failure import StudyFailed
from tuner.records.errors import RecordsUnavailable

T = TypeVar("T")

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0)
"""Waits between tries: a minute in all, besides what one try waits for a lock."""


class Patience:
    """Calls the records again while they are away. ``is_over`` True: there is no point in waiting."""

    def __init__(
        self, sleep: Callable[[float], None], say: Callable[[str], None], is_over: Callable[[], bool]
    ) -> None:
        self._sleep, self._say, self._is_over = sleep, say, is_over

    def __call__(self, call: Callable[[], T]) -> T:
        """What ``call`` returns. StudyFailed where the records stay away."""
        pauses = iter(PAUSES_S)
        while True:
            try:
                return call()
            except RecordsUnavailable as problem:
                pause_s = next(pauses, None)
                if pause_s is None or self._is_over():
                    raise StudyFailed(
                        f"{problem}\nwhat the trials measured is in their folders; the same command goes on"
                    ) from problem
                self._say(f"{problem}; next try in {pause_s:g} s")
                self._sleep(pause_s)
