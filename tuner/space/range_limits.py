"""What a range of numbers may not be: each rule says the values and the way out."""

from __future__ import annotations

import math
import sys
from decimal import Decimal

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that databases, samplers and trials all take."""
MOST_VALUES = 2**53
"""More steps than this a float cannot count, so neither can a sampler."""
SMALLEST = sys.float_info.min
"""Numbers nearer to 0 than this lose their digits one by one."""


def number_problem(key: str, value: int | float) -> str | None:
    """Why ``min``, ``max`` or ``step`` cannot be worked with; None where it can."""
    if isinstance(value, int):
        too_large = abs(value) > LARGEST_WHOLE
        return f"is a whole number above {LARGEST_WHOLE}; write a smaller one" if too_large else None
    if not math.isfinite(value):
        return "is not a number; write a number"
    if 0 < abs(value) < SMALLEST:
        zero = "" if key == "step" else "0, or "
        return f"is so near to 0 that its digits are lost; write {zero}{SMALLEST:.2g} or more"
    return None


def range_problem(low: float, high: float, step: float | None, scale: str) -> str | None:
    """Why these numbers, each fine by itself, make no range; None where they do."""
    if low > high:
        return "has its min above its max; swap them"
    if scale != "linear" and low <= 0:
        start = "1" if high >= 1 else f"{high / 100:g}"
        return f"cannot begin at {low:g} with scale: {scale}; write min: {start}, or scale: linear"
    if scale != "linear" and step is not None:
        return f"cannot have a step with scale: {scale}; {_powers_way_out(low, high)}"
    if high - low == math.inf:
        return "is wider than numbers go; write smaller bounds"
    return None if step is None else _step_problem(low, high, step)


def _step_problem(low: float, high: float, step: float) -> str | None:
    if step <= 0:
        return "has a step that does not go up; write a step above 0"
    way_out = "write a larger step, or delete it"
    if (Decimal(high) - Decimal(low)) / Decimal(step) >= MOST_VALUES:
        return f"has more steps than can be counted; {way_out}"
    are_whole = all(isinstance(number, int) for number in (low, high, step))
    if not are_whole and low < high and step < 2 * math.ulp(max(abs(low), abs(high))):
        return f"has a step that is lost beside numbers of this size; {way_out}"
    return None


def _powers_way_out(low: float, high: float) -> str:
    powers = [f"{low * 2**power:g}" for power in range(5) if low * 2**power <= high]
    return f"delete the step, or write scale: log2 alone ({', '.join(powers)}, ...)"
