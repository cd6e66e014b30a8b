"""What a program reported: numbers from a JSON file, from JSON lines, or from patterns over its output.

Non-finite numbers are passed on as they are; the study types them. A file that this run did not write is not
read: a number left over from another run would be a result that nobody measured.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.command.output import Found
from trials.contract import MetricValue
from trials.metrics import CATALOGUE, Direction, unit_of

LARGEST_FILE_BYTES = 16 * 1024 * 1024
MOST_METRICS = 1000
Stamp = tuple[int, int, int] | None  # of a file: inode, size, time written; None where there is none


class Reported:
    """The metrics that came, and in words what was wrong with the others."""

    def __init__(self) -> None:
        self.metrics: dict[str, MetricValue] = {}
        self.not_numbers: dict[str, str] = {}
        self.problems: list[str] = []

    def take(self, values: Mapping[str, Any], method: str) -> None:
        """Keep every number among the values; later ones replace earlier ones of the same name."""
        for key, value in values.items():
            number = _number(value)
            if number is None:
                self.not_numbers[key] = repr(value)[:80]
            elif key in self.metrics or len(self.metrics) < MOST_METRICS:
                self.metrics[key] = MetricValue(number, unit_of(key), n=1, method=method)

    def take_found(self, found: Mapping[str, Found], picks: Mapping[str, str]) -> None:
        """Keep the numbers that patterns found in the output."""
        for key, matches in found.items():
            if matches.n:
                value = matches.value(resolved_pick(key, picks[key]))
                method = f"{picks[key]} of {matches.n} matches in the output"
                self.metrics[key] = MetricValue(value, unit_of(key), n=matches.n, method=method)
            elif matches.not_a_number is not None:
                self.not_numbers[key] = repr(matches.not_a_number[:80])
            else:
                self.problems.append(f"the pattern of {key} is nowhere in the output")

    def missing(self, wanted: Sequence[str]) -> str | None:
        """Why wanted metrics are not there, with what did come and the nearest name; None: all are there."""
        absent = [key for key in wanted if key not in self.metrics]
        if not absent:
            return None
        said = [self._absence(key) for key in absent]
        came = ", ".join(sorted(self.metrics)[:20]) or "nothing"
        return "; ".join([*said, *self.problems, f"reported: {came}"])

    def _absence(self, key: str) -> str:
        if key in self.not_numbers:
            return f"{key} is {self.not_numbers[key]}, not a number"
        import difflib  # here: only a failure needs it

        near = difflib.get_close_matches(key, self.metrics, 1) or [
            name for name in self.metrics if name.rsplit(".", 1)[-1] == key
        ]
        return f"{key} was not reported" + (f" (did you mean {near[0]}?)" if near else "")


def resolved_pick(key: str, pick: str) -> str:
    """``best`` as the min or max that the catalogue's direction makes it."""
    if pick != "best":
        return pick
    return "max" if CATALOGUE[key].direction is Direction.MAXIMIZE else "min"


def stamp_of(path: Path) -> Stamp:
    """What tells one writing of a file from another."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns


def read_file(path: Path, before: Stamp, reported: Reported) -> None:
    """Take the numbers of a JSON object, nested keys with dots."""
    text = _text(path, before, reported)
    if text is None:
        return
    try:
        values = dict(_flat(json.loads(text)))
    except (ValueError, RecursionError) as problem:
        reported.problems.append(f"{path} is not a JSON object: {problem}")
        return
    reported.take(values, f"read from {path.name}")


def read_lines(path: Path, before: Stamp, reported: Reported) -> None:
    """Take the numbers of JSON lines, of each key the last one. Other lines are counted and said."""
    text = _text(path, before, reported)
    if text is None:
        return
    bad = 0
    for line in text.splitlines():
        try:
            values = dict(_flat(json.loads(line))) if line.strip() else {}
        except (ValueError, RecursionError):
            bad += 1
            continue
        reported.take(values, f"last line of {path.name} that has it")
    if bad:
        reported.problems.append(f"{bad} lines of {path} are not JSON objects")


def _text(path: Path, before: Stamp, reported: Reported) -> str | None:
    problem = _why_unreadable(path, before)
    if problem is None:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read: {error}"
    reported.problems.append(f"{path} {problem}")
    return None


def _why_unreadable(path: Path, before: Stamp) -> str | None:
    now = stamp_of(path)
    if now is None:
        return "was not written"
    if now == before:
        return "is from before this run and was not written by it"
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a pipe would be waited on for ever
        return "is not a file"
    if now[1] > LARGEST_FILE_BYTES:
        return f"has {now[1]} bytes, more than the {LARGEST_FILE_BYTES} that are read"
    return None


def flat_numbers(value: Any) -> dict[str, float]:
    """The numbers of a JSON object, nested keys with dots. ValueError where it is none."""
    numbers = {key: _number(item) for key, item in _flat(value)}
    return {key: number for key, number in numbers.items() if number is not None}


def _flat(value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError(f"it holds {_kind(value)}")
    for key, item in value.items():
        if isinstance(item, dict):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(item))
        else:
            yield str(key), item


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "null", bool: "a boolean"}.get(type(value), "a number")


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond what a float holds
        return math.inf if value > 0 else -math.inf
