"""Durations as people write them: ``20 s``, ``30 min``, ``1 h 30 min``."""

from __future__ import annotations

import re

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_D = 365
"""Days: a longer time is a slip of the pen, and the clocks that wait for its end would overflow."""
_PART = re.compile(r"([0-9.]+)\s*([A-Za-z]+)")
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")


def seconds(value: object) -> float:
    """The duration in seconds; ValueError, whose text ends in the way out, where it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"has no unit; write {value:g} s or {value:g} min")
    parts = _PART.findall(value) if isinstance(value, str) else []
    known = [
        (number, SECONDS[unit]) for number, unit in parts if unit in SECONDS and _NUMBER.fullmatch(number)
    ]
    rest = _PART.sub("", value).strip() if isinstance(value, str) else "?"
    if not parts or len(known) < len(parts) or rest:
        raise ValueError("is not a duration; write 20 s, 30 min, 1 h or 1 h 30 min")
    total = sum(float(number) * factor for number, factor in known)
    if total <= 0:
        raise ValueError("must be longer than 0; write 30 min")
    if total > LONGEST_D * SECONDS["d"]:
        raise ValueError(f"is longer than a year; write {LONGEST_D} d or less")
    return total
