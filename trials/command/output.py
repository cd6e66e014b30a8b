"""Watches a program's output as it passes by: patterns over its lines and the tail for an error message.

Memory is bounded whatever the program prints: a line is looked at up to ``LONGEST_LINE``, the tail is a few
KiB, and of a pattern's matches only count, sum, smallest, largest and last are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LONGEST_LINE = 64 * 1024  # bytes; a longer one is looked at in pieces
TAIL_BYTES = 4096
_LINE_END = re.compile(rb"[\r\n]")  # a progress bar rewrites its line with \r


class Found:
    """The matches of one pattern so far, as numbers."""

    def __init__(self) -> None:
        self.n = 0
        self.last = self.total = 0.0
        self.lowest, self.highest = float("inf"), float("-inf")
        self.not_a_number: str | None = None  # the last match that float() does not read

    def add(self, text: str) -> None:
        """Take one match in."""
        try:
            value = float(text)
        except ValueError:
            self.not_a_number = text
            return
        self.n += 1
        self.last = value
        self.total += value
        # In a comparison with NaN the first operand stays, and a NaN among the matches must show.
        self.lowest = value if value != value else min(self.lowest, value)
        self.highest = value if value != value else max(self.highest, value)

    def value(self, pick: str) -> float:
        """The number that ``pick`` (last, mean, min, max) asks for; there is at least one."""
        return {"last": self.last, "mean": self.total / self.n, "min": self.lowest, "max": self.highest}[pick]


class Output:
    """Is fed the output in chunks as it comes."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {name: (re.compile(pattern), Found()) for name, pattern in patterns.items()}
        self._line = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        """Take a chunk in; a line counts when its end has come."""
        self._tail = (self._tail + chunk)[-TAIL_BYTES:]
        if not self._patterns:
            return
        *lines, self._line = _LINE_END.split(self._line + chunk)
        for line in lines:
            self._look_at(line)
        if len(self._line) > LONGEST_LINE:
            self.close()

    def close(self) -> None:
        """The output has ended: what is left counts as a line."""
        self._look_at(self._line)
        self._line = b""

    def found(self) -> dict[str, Found]:
        """The matches by metric name."""
        return {name: found for name, (_, found) in self._patterns.items()}

    @property
    def tail(self) -> str:
        """The last lines, at most ``TAIL_BYTES``, without a torn first line."""
        text = self._tail.decode("utf-8", "replace")
        if len(self._tail) == TAIL_BYTES and "\n" in text.rstrip("\n"):
            text = text.split("\n", 1)[1]
        return text.strip("\n")

    def _look_at(self, line: bytes) -> None:
        if not line:
            return
        text = line.decode("utf-8", "replace")
        for pattern, found in self._patterns.values():
            for match in pattern.finditer(text):
                found.add((match[1] if pattern.groups else match[0]) or "")
