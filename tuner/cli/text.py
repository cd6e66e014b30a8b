"""How values are written for a person: configurations, durations, numbers with their interval, tables."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any


def shown_value(value: Any) -> str:
    """One value of a configuration: words bare, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def shown_config(config: Mapping[str, Any], names: Sequence[str] | None = None) -> str:
    """A configuration on one line; ``names`` picks and orders the parameters (missing ones are inactive)."""
    chosen = config if names is None else {name: config[name] for name in names if name in config}
    return " ".join(f"{name}={shown_value(value)}" for name, value in chosen.items())


def shown_duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if math.isinf(seconds):
        return "no limit"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def shown_number(value: float | None) -> str:
    """Four significant digits, thousands set apart; '-' where there is none."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def shown_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A value with its 95% interval."""
    text = shown_number(value)
    if value is None or low is None or high is None:
        return text
    return f"{text} [{shown_number(low)}, {shown_number(high)}]"


def table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """Aligned columns under a header; numbers to the right, words to the left."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    right = [all(_is_number(row[i]) for row in rows) if rows else False for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if is_right else cell.ljust(w) for cell, w, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def styled(text: str, code: str, stream: IO[str] | None = None) -> str:
    """``text`` in an ANSI style on a terminal that wants colour (NO_COLOR is honoured)."""
    stream = stream or sys.stdout
    wants = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if wants else text


def _is_number(cell: str) -> bool:
    return cell[:1] in "-0123456789" or cell == ""
