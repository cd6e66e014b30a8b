"""How values are written for a person: configurations, durations, numbers with their interval."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import IO, Any

from tuner.comparison import is_lopsided
from tuner.space.errors import printable
from tuner.space.yaml_source import read_scalar

_LONGEST_LINE = 160
_LONGEST_WHOLE, _LONGEST = 1e15, 1e9
"""Whole numbers are written out up to the first, numbers with their interval up to the second."""
_SMALLEST_RATIO = 1e-3
_TOKENS_AT_ONCE = 100_000  # some MiB of text


def print_json(plain: Any) -> None:
    """Print a large document in pieces: as one text a study of 10,000 trials would take gigabytes."""
    tokens = json.JSONEncoder(indent=2).iterencode(plain)
    while piece := "".join(islice(tokens, _TOKENS_AT_ONCE)):
        sys.stdout.write(piece)
    print()


def shown_value(value: Any) -> str:
    """One value of a configuration: words bare; ``1``, ``1.0``, ``true`` and ``"1"`` stay apart."""
    if isinstance(value, str):
        return value if _is_word(value) else _as_json(value)
    if isinstance(value, float):
        return _shown_float(value)
    return _as_json(value)


def _as_json(value: Any) -> str:
    """JSON leaves characters that turn the direction of writing as they are."""
    return printable(json.dumps(value, ensure_ascii=False))


def shown_config(config: Mapping[str, Any], names: Sequence[str] | None = None) -> str:
    """A configuration on one line; ``names`` picks and orders the parameters (missing ones are inactive)."""
    chosen = config if names is None else {name: config[name] for name in names if name in config}
    return " ".join(f"{name}={shown_value(value)}" for name, value in chosen.items())


def shown_trial(config: Mapping[str, Any], baseline: Mapping[str, Any], names: Sequence[str]) -> str:
    """A configuration on one line: what differs from the baseline where that is shorter, else all ``names``."""
    whole = shown_config(config, names)
    changed = [n for n in names if n in config and (n not in baseline or _differ(config[n], baseline[n]))]
    if not changed:
        return whole
    short = f"baseline + {shown_config(config, changed)}"
    return short if len(short) < len(whole) else whole


def _differ(one: Any, other: Any) -> bool:
    """1, 1.0 and true are three values."""
    return shown_value(one) != shown_value(other)


def shown_duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if math.isinf(seconds):
        return "no limit"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def shown_number(value: float | None) -> str:
    """Four significant digits, thousands set apart; '-' where there is none."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if 1000 <= abs(value) < _LONGEST_WHOLE:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def shown_measure(value: float, low: float | None, high: float | None) -> str:
    """A value with half its 95% interval, to the digits that the interval leaves: ``15,680 ± 120``.

    ``100 (60 to 170)`` where the interval's sides differ.
    """
    if low is None or high is None:
        return shown_number(value)
    half = (high - low) / 2
    if not 0 < half < math.inf or not math.isfinite(value):
        return f"{shown_number(value)} ± {shown_number(half)}"
    if not _has_room(value, half):
        shown = (shown_number(value), shown_number(low), shown_number(high), f"{half:.2g}")
        return "{} ({} to {})".format(*shown) if is_lopsided(value, low, high) else f"{shown[0]} ± {shown[3]}"
    digits = _digits_after_point(value, half)
    if is_lopsided(value, low, high):
        return f"{_rounded(value, digits)} ({shown_number(low)} to {shown_number(high)})"
    return f"{_rounded(value, digits)} ± {_rounded(half, digits)}"


def shown_ratio(value: float, low: float | None, high: float | None) -> str:
    """A factor with its interval: ``x1.40 (1.38 to 1.42)``."""
    if not all(_SMALLEST_RATIO <= abs(number or 1.0) < 1 / _SMALLEST_RATIO for number in (value, low, high)):
        ends = "" if low is None or high is None else f" ({low:.3g} to {high:.3g})"
        return f"x{value:.3g}{ends}"
    if low is None or high is None:
        return f"x{value:.2f}"
    if low == high:
        return f"x{value:.2f} ± 0"
    digits = min(max(_digits_after_point(value, (high - low) / 2), 2), 4)
    return f"x{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def plural(count: int, word: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def first_line(message: str, longest: int = _LONGEST_LINE) -> str:
    """What a foreign message begins with, without control characters, which could play with a terminal."""
    line = next((part for part in message.splitlines() if part.strip()), "(no message)")
    clean = "".join(char if char.isprintable() else " " for char in line).strip()
    return clean if len(clean) <= longest else f"{clean[: longest - 3]}..."


def styled(text: str, code: str, stream: IO[str] | None = None) -> str:
    """A line in an ANSI style on a terminal that wants colour (NO_COLOR is honoured)."""
    text = printable(text)
    stream = stream or sys.stdout
    wants = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if wants else text


def _is_word(text: str) -> bool:
    """True where the text, written bare, cannot be taken for anything else."""
    return text.isprintable() and not any(c in ' "' for c in text) and isinstance(read_scalar(text), str)


def _shown_float(value: float) -> str:
    text = f"{value:.4g}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def _has_room(value: float, half: float) -> bool:
    """Whether a column has room for the value's digits; else it is written with an exponent."""
    return max(abs(value), half) < _LONGEST and (not value or abs(value) > 1 / _LONGEST)


def _digits_after_point(value: float, half: float) -> int:
    """Two digits of the interval, but at least three and at most seven significant digits of the value."""
    if not half > 0:
        return 2
    of_interval = 1 - math.floor(math.log10(half))
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    return max(min(max(of_interval, 2 - magnitude), 6 - magnitude), 0)


def _rounded(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"
