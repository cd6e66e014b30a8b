"""Where the warm-up ends. Decided after the run from the recorded step times, so that nothing runs between
steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from trials.measurement.statistics import quantile

MIN_WARMUP_STEPS = 3
BLOCK_STEPS = 5
TOLERANCE = 0.05
_SLOW_START = 3.0
"""A first step this many tolerances above the level still belongs to the warm-up."""


@dataclass(frozen=True)
class SteadyWindow:
    """Steps ``first`` to the last one are the window; ``is_steady`` is False where they still trend."""

    first: int
    is_steady: bool


def steady_window(durations_s: Sequence[float], earliest: int = MIN_WARMUP_STEPS) -> SteadyWindow:
    """Drop steps until the step time stops trending: at least ``earliest``, at most half of what is left
    then.

    A step starts the window when the median of it and its next neighbours is within 5% of the median of what
    comes after them (or within the scatter of such a median, where steps scatter more). Medians, so that one
    slow step is not taken for a trend; but the window does not begin with a slow one, since two of them at the
    end of the warm-up hide in a block's median. ``first == len(durations_s)`` means that no step is left.
    """
    n = len(durations_s)
    if n - earliest < 4 * BLOCK_STEPS:
        return SteadyWindow(min(earliest, n), is_steady=n > earliest)
    latest = earliest + (n - earliest) // 2
    tolerance = _tolerance(durations_s[earliest:])
    for first in range(earliest, latest + 1):
        block, rest = durations_s[first : first + BLOCK_STEPS], durations_s[first + BLOCK_STEPS :]
        level = quantile(rest, 0.5)
        is_slow_itself = durations_s[first] > level * (1 + _SLOW_START * tolerance)
        if abs(quantile(block, 0.5) / level - 1) <= tolerance and not is_slow_itself:
            return SteadyWindow(first, is_steady=True)
    return SteadyWindow(latest, is_steady=False)


def _tolerance(durations_s: Sequence[float]) -> float:
    """5%, or twice the standard error of a block's median where steps scatter more than that.

    Scatter is taken from the differences of neighbours, in which a trend does not show.
    """
    jumps = [abs(after - before) for before, after in pairwise(durations_s)]
    sigma = quantile(jumps, 0.5) / (0.6745 * math.sqrt(2))  # of a normal distribution
    error = 1.253 * sigma / math.sqrt(BLOCK_STEPS)  # of the median of a block
    return max(TOLERANCE, 2 * error / quantile(durations_s, 0.5))
