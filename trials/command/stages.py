"""A program that reports JSON lines says on the way how it goes: lines with ``progress``, from 0 to 1.

The first line at or beyond each point that the spec names becomes a stage, with the numbers that came by then.
Only what is new in the file is read, once a second, and nothing where the program gives no such lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from trials.command.metrics import LARGEST_FILE_BYTES, Reported, Stamp, flat_numbers, stamp_of
from trials.stages import Stage

PROGRESS = "progress"
"""The key of a line that says how much of the work is done."""


class LineStages:
    """Follows one file of JSON lines. ``before`` is the file's stamp before the program started."""

    def __init__(
        self,
        path: Path,
        before: Stamp,
        report_at: Sequence[float],
        wanted: Sequence[str],
        say: Callable[[Stage], None],
    ) -> None:
        self._path, self._before, self._say = path, before, say
        self._ahead, self._wanted = list(report_at), wanted
        self._offset: int | None = None
        self._reported = Reported()

    def look(self) -> None:
        """Read what is new and report the stages that it reaches."""
        if not self._ahead or (now := stamp_of(self._path)) is None or now == self._before:
            return
        if self._offset is None:  # what an earlier run left in the same file is not this run's
            is_continued = self._before is not None and self._before[0] == now[0] and now[1] > self._before[1]
            self._offset = self._before[1] if is_continued and self._before else 0
        for line in self._new_lines():
            self._take(line)

    def _new_lines(self) -> list[bytes]:
        assert self._offset is not None
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                text = stream.read(LARGEST_FILE_BYTES)
        except OSError:
            return []
        end = text.rfind(b"\n") + 1
        self._offset += end
        return text[:end].splitlines()

    def _take(self, line: bytes) -> None:
        try:
            numbers = flat_numbers(json.loads(line))
        except (ValueError, RecursionError):
            return
        self._reported.take(numbers, "on the way")
        progress = numbers.get(PROGRESS)
        if progress is None or not 0 <= progress < 1:
            return
        reached = [fraction for fraction in self._ahead if fraction <= progress]
        if reached:  # a program that skips a point says nothing of it
            self._ahead = [fraction for fraction in self._ahead if fraction > progress]
            metrics = {
                key: self._reported.metrics[key] for key in self._wanted if key in self._reported.metrics
            }
            self._say(Stage(reached[-1], metrics))
