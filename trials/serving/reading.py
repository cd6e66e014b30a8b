"""Reads the maps of a serving section: every value typed, everything wrong noted with its key and a way out."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.workloads.base import WorkloadProblem
from trials.workloads.durations import seconds

MOST = 1_000_000_000
"""Of whatever is counted: requests, clients, tokens."""


class Reader:
    """One map of the section. ``prefix`` is its dotted key; problems go to the list that was handed in.

    A value that is wrong is noted and read as its default, so that everything wrong is said at once.
    """

    def __init__(self, raw: Any, prefix: str, problems: list[WorkloadProblem]) -> None:
        self.prefix, self.problems = prefix, problems
        self.raw: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        if raw is not None and not isinstance(raw, Mapping):
            self.problem("", f"is {shown(raw)}, and should be a map", "write key: value pairs")

    def problem(self, key: str, message: str, way_out: str = "") -> None:
        """Note something wrong with a key of this map (or, with "", the map itself)."""
        name = ".".join(part for part in (self.prefix, key) if part)
        self.problems.append(WorkloadProblem(name or "server", message, way_out))

    def only(self, known: Iterable[str]) -> None:
        """Note every key that is not known, with the nearest that is."""
        names = list(known)
        for key in self.raw:
            if key not in names:
                import difflib  # here: a right file needs it not

                near = difflib.get_close_matches(str(key), names, 1)
                self.problem(
                    str(key),
                    "is not known",
                    f"did you mean {near[0]}?" if near else f"use {', '.join(names)}",
                )

    def number(
        self, key: str, default: float | None = None, *, low: float = 0.0, above: bool = False
    ) -> float | None:
        """A finite number of at least ``low`` (``above``: more than it)."""
        value = self.raw.get(key)
        if value is None:
            return default
        if not is_number(value) or value < low or (above and value == low):
            self.problem(key, f"is {shown(value)}, no number {'above' if above else 'of at least'} {low:g}")
            return default
        return float(value)

    def whole(self, key: str, default: int | None = None, *, low: int = 0) -> int | None:
        """A whole number of at least ``low`` and at most ``MOST``."""
        value = self.raw.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            self.problem(key, f"is {shown(value)}, no whole number of at least {low}")
            return default
        if value > MOST:
            self.problem(key, f"is {shown(value)}, more than {MOST:,}", f"write {MOST} or less")
            return default
        return value

    def seconds(self, key: str, default: float | None = None) -> float | None:
        """A duration with its unit."""
        value = self.raw.get(key)
        if value is None:
            return default
        try:
            return seconds(value)
        except ValueError as problem:
            message, _, way_out = str(problem).partition("; ")
            self.problem(key, f"{shown(value)} {message}", way_out)
            return default

    def text(self, key: str, way_out: str = "write a text") -> str | None:
        """A text that is not empty."""
        value = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value or "\0" in value:
            self.problem(key, f"is {shown(value)}", way_out)
            return None
        return value

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str | None:
        """One of the words."""
        value = self.raw.get(key)
        if value is None:
            return default
        if value not in choices or not isinstance(value, str):
            self.problem(key, f"is {shown(value)}", f"use {', '.join(choices)}")
            return default
        return value

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A map; empty where it is not given."""
        value = self.raw.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.problem(key, f"is {shown(value)}, and should be a map", "write key: value pairs")
        return value if isinstance(value, Mapping) else {}

    def file(self, key: str, folder: Path) -> str | None:
        """The absolute path of a file that is there."""
        value = self.text(key, "write the path of a file")
        if value is None:
            return None
        path = absolute(value, folder)
        if not os.path.isfile(path):  # noqa: PTH113 - may hold anything that YAML can
            self.problem(key, f"{path} is not a file", "paths are relative to the space file")
        return path


def absolute(path: str, folder: Path) -> str:
    """The path as text, ``~`` and relative parts resolved against the space file's folder."""
    return os.path.abspath(folder / os.path.expanduser(path))  # noqa: PTH100, PTH111 - text that stays as it is


def is_number(value: Any) -> bool:
    """A finite number that is no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def shown(value: Any) -> str:
    """A value of the file as the reader wrote it, cut where it is long."""
    words = {True: "true", False: "false"}
    text = "empty" if value in (None, "") else words[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
