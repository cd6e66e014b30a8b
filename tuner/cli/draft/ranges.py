"""The values worth searching around today's, read off a parameter's name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tuner.space.yaml_source import read_scalar

_LONG_FORMATS = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "tf32",
    "bf16": "bfloat16",
    "fp16": "float16",
}
_SIZES = {"width", "hidden", "dim", "embed", "embd", "channels", "units"}
_WORD = re.compile(r"-{0,2}[A-Za-z_](?:[\w./:-]*[\w./-])?|\.{0,2}/[\w./-]*", re.ASCII)
_HUGE = 1e15
_STEPS = 8
"""Of a whole number about so many steps lie between it and its double."""
_COUNTS = {"depth", "layer", "layers", "blocks"}


def around(name: str, today: Any, cores: int, precisions: Sequence[str]) -> str | None:
    """A domain as YAML that holds ``today``; None where the name does not tell what would be sensible."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if isinstance(today, str):
        return _formats(today, precisions) if words & {"precision", "dtype"} else None
    if not _is_number(today):
        return None
    if isinstance(today, int) and (found := _whole(words, name.lower(), today, cores)):
        return found
    if "dropout" in words and 0 <= today <= 0.5:
        return "{min: 0.0, max: 0.5}"
    if {"weight", "decay"} <= words or "wd" in words:
        return magnitudes(today) if today > 0 else choices([float(today), 0.01, 0.1])
    is_rate = "lr" in words or {"learning", "rate"} <= words
    return magnitudes(today) if is_rate and isinstance(today, float) and today > 0 else None


def _whole(words: set[str], name: str, today: int, cores: int) -> str | None:
    if today < 1:
        return choices(range(min(cores, 4) + 1)) if "workers" in words and today == 0 else None
    if "accum" in name:
        return doublings(today, down=3, up=2)
    if ("batch" in name and "batches" not in name) or "bs" in words:
        return doublings(today, down=2, up=2)
    if "workers" in words:
        return _several([*range(1, min(cores, 4) + 1), today])
    if "threads" in words:
        return _several([max(1, cores // 2), cores, today])
    if words & _SIZES:
        return doublings(today, down=1, up=1)
    return f"{{min: {max(1, today - 1)}, max: {today + 1}}}" if words & _COUNTS else None


def of_any_number(today: Any) -> str | None:
    """A domain around a number whose name says nothing."""
    if not _is_number(today) or today <= 0:
        return None
    if isinstance(today, float):
        return magnitudes(today)
    is_power = today & (today - 1) == 0
    return doublings(today, down=1, up=1) if is_power and today > 1 else _half_to_double(today)


def _half_to_double(today: int) -> str:
    """From half of it to twice, evenly, in steps that meet today's value."""
    step = max(1, today // _STEPS)
    low = today - step * ((today - max(1, today // 2)) // step)
    high = today + step * (today // step)
    return f"{{min: {low}, max: {high}{f', step: {step}' if step > 1 else ''}}}"


def doublings(today: int, down: int, up: int) -> str:
    """Halves, as long as they are whole, and doubles."""
    low = today
    for _ in range(down):
        low = low // 2 if low % 2 == 0 else low
    return f"{{min: {low}, max: {today * 2**up}, scale: log2}}"


def magnitudes(today: float) -> str:
    """From a tenth to ten times."""
    low, high = (float(f"{today * factor:.3g}") for factor in (0.1, 10.0))
    return f"{{min: {low}, max: {high}, scale: log}}"


def choices(values: Iterable[Any]) -> str:
    """A list, each value once, numbers in their order."""
    unique = list(dict.fromkeys(values))
    ordered = sorted(unique) if all(type(value) is int for value in unique) else unique
    return f"[{', '.join(map(written, ordered))}]"


def _is_number(value: Any) -> bool:
    """A number with room for a tenth and ten times of it."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and (value == 0 or 1 / _HUGE < abs(value) < _HUGE)


def _several(values: list[int]) -> str | None:
    return choices(values) if len(set(values)) > 1 else None


def written(value: Any) -> str:
    """A value as it can stand anywhere in YAML, a list or a map in braces included."""
    is_word = isinstance(value, str) and _WORD.fullmatch(value) and isinstance(read_scalar(value), str)
    return str(value) if is_word else "".join(map(_readable, json.dumps(value, ensure_ascii=False)))


def _readable(char: str) -> str:
    """YAML takes no control characters, not even in quotes."""
    return char if char.isprintable() or ord(char) > 0xFFFF else f"\\u{ord(char):04x}"


def _formats(today: str, precisions: Sequence[str]) -> str | None:
    is_long = today in _LONG_FORMATS.values()
    spellings = _LONG_FORMATS if is_long else {name: name for name in _LONG_FORMATS}
    offered = ["fp32", *precisions] if today == spellings["fp64"] else precisions
    found = list(dict.fromkeys([today, *(spellings[name] for name in offered)]))
    return choices(found) if today in spellings.values() and len(found) > 1 else None
