"""Values with intervals: block means, percentiles, means and shares. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.metrics import SAMPLES_NEEDED

FEW_SAMPLES = "few_samples"
SAME_EXAMPLES = "same_examples"
"""Flags an interval over examples that every run evaluates again: repeats do not narrow it."""
Z_95 = 1.959964
BLOCKS = 10

# Two-sided 95% quantiles of Student's t by degrees of freedom 1..30 (any statistics table).
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def t_quantile(degrees_of_freedom: int) -> float:
    """The two-sided 95% quantile of Student's t; ValueError below one degree of freedom."""
    if degrees_of_freedom < 1:
        raise ValueError(f"{degrees_of_freedom} degrees of freedom: an interval needs at least two samples")
    return (
        _T_95[degrees_of_freedom - 1] if degrees_of_freedom <= len(_T_95) else Z_95 + 2.4 / degrees_of_freedom
    )


def rate(durations_s: Sequence[float], work_per_step: float, unit: str) -> MetricValue:
    """Work per second over consecutive steps.

    The value is all work over all time. The interval comes from the means of up to ten blocks of consecutive
    steps, because neighbouring steps are not independent (method of batch means); with fewer than four steps
    there is none. TrialFailure ``unstable`` where there is no step, or no time passed.
    """
    n = len(durations_s)
    if sum(durations_s) <= 0:
        raise TrialFailure(FailureKind.UNSTABLE, f"no time passed during {n} timed steps; train for longer")
    value = work_per_step * n / sum(durations_s)
    blocks = _block_means(durations_s)
    if len(blocks) < 4:
        return MetricValue(value, unit, n, method=f"{n} steps over their time", flags=(FEW_SAMPLES,))
    centre = mean(blocks)
    half = t_quantile(len(blocks) - 1) * deviation(blocks) / math.sqrt(len(blocks))
    return MetricValue(
        value,
        unit,
        n,
        low=work_per_step / (centre + half),
        high=work_per_step / (centre - half) if half < centre else None,
        method=f"{n} steps over their time; interval from {len(blocks)} blocks of steps",
    )


def rate_in_window(
    events: Sequence[tuple[float, float]], begin_s: float, end_s: float, unit: str, what: str
) -> MetricValue:
    """Work per second of a window, from (time, work) of what ended in it.

    The interval comes from the work of ten equal stretches of the window (batch means); with fewer than two
    events a stretch there is none.
    """
    seconds, n = end_s - begin_s, len(events)
    value = math.fsum(work for _, work in events) / seconds
    if n < 2 * BLOCKS:
        return MetricValue(value, unit, n, method=f"{n} {what} over the window", flags=(FEW_SAMPLES,))
    blocks = [0.0] * BLOCKS
    for at_s, work in events:
        blocks[min(BLOCKS - 1, max(0, int(BLOCKS * (at_s - begin_s) / seconds)))] += work
    half = t_quantile(BLOCKS - 1) * deviation(blocks) / math.sqrt(BLOCKS) * BLOCKS / seconds
    method = f"{n} {what} over the window; interval from {BLOCKS} stretches of it"
    return MetricValue(value, unit, n, max(0.0, value - half), value + half, method)


def percentile(durations_ms: Sequence[float], percent: int, what: str = "steps") -> MetricValue:
    """A percentile (linear between neighbours) with the order statistics that bound it at 95%, in ms.

    Flagged ``few_samples`` below the counts of ``SAMPLES_NEEDED``.
    """
    ordered, n, share = sorted(durations_ms), len(durations_ms), percent / 100
    spread = Z_95 * math.sqrt(n * share * (1 - share))
    below, above = math.floor(n * share - spread) - 1, math.ceil(n * share + spread)
    return MetricValue(
        quantile(ordered, share),
        "ms",
        n,
        low=ordered[below] if below >= 0 else None,
        high=ordered[above] if above < n else None,
        method=f"p{percent} of {n} {what}; interval from order statistics",
        flags=() if n >= SAMPLES_NEEDED[percent] else (FEW_SAMPLES,),
    )


def mean_of(values: Sequence[float], unit: str, what: str) -> MetricValue:
    """The mean with its 95% interval; where every value is 0 or 1, Wilson's interval of a share."""
    n, centre = len(values), mean(values)
    if all(value in (0.0, 1.0) for value in values):
        low, high = wilson(centre, n)
        return MetricValue(centre, unit, n, low, high, f"share of {n} {what}; Wilson interval")
    if n < 2 or not math.isfinite(centre):
        return MetricValue(
            centre, unit, n, method=f"mean of {n} {what}", flags=(FEW_SAMPLES,) if n < 2 else ()
        )
    half = t_quantile(n - 1) * deviation(values) / math.sqrt(n)
    return MetricValue(centre, unit, n, centre - half, centre + half, f"mean of {n} {what}")


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share out of ``n`` (Wilson 1927); not empty at 0 and 1."""
    z2 = Z_95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


UNSEEN_CHANGES = 2
"""Examples, one lost and one gained, that are added to those that changed: where all answers are the same, the
interval of the share that is lost must not be empty (Agresti and Min 2005, for differences of paired shares)."""


def recovery(ours: Sequence[float], theirs: Sequence[float]) -> MetricValue:
    """100 x mean(ours) / mean(theirs) over paired examples, with the 95% interval of a ratio (delta method).

    The interval is one over examples: measuring again on the same ones does not narrow it (``same_examples``).
    """
    n, level = len(ours), mean(theirs)
    ratio = mean(ours) / level
    spread = math.fsum((a - ratio * b) ** 2 for a, b in zip(ours, theirs, strict=True)) + UNSEEN_CHANGES
    half = Z_95 * math.sqrt(spread) / n / level
    return MetricValue(
        100 * ratio,
        "%",
        n,
        100 * (ratio - half),
        100 * (ratio + half),
        f"paired with the float32 reference on {n} examples",
        (SAME_EXAMPLES,),
    )


def paired_loss(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """mean(theirs) - mean(ours) over paired examples, and its 95% interval: value, low, high."""
    n, lost = len(ours), mean(theirs) - mean(ours)
    spread = math.fsum((b - a - lost) ** 2 for a, b in zip(ours, theirs, strict=True)) + UNSEEN_CHANGES
    half = Z_95 * math.sqrt(spread) / n
    return lost, lost - half, lost + half


def examples_to_decide(loss: float, changed: float = 0.0, level: float = 1.0) -> int:
    """How many examples show that at most the share ``loss`` of what was right is lost, where a share ``changed`` of
    the answers changes without losing any on balance; ``level`` is the share that the reference answers rightly.
    """
    allowed = (loss * level / Z_95) ** 2  # the interval of ``recovery``, solved for n
    return math.ceil((changed + math.sqrt(changed**2 + 4 * allowed * UNSEEN_CHANGES)) / (2 * allowed) - 1e-9)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean (the standard library's module costs every check 10 ms to import)."""
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """The sample standard deviation; ValueError below two values."""
    if len(values) < 2:
        raise ValueError("a standard deviation needs at least two values")
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0-1) of the values lie, linear between neighbours."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _block_means(values: Sequence[float]) -> list[float]:
    """Means of consecutive blocks: ten of equal size where there are 20 values, else the values themselves.

    What does not fill the blocks is left out at the start, where it is closest to the warm-up.
    """
    size = len(values) // BLOCKS
    if size < 2:
        return list(values)
    first = len(values) - size * BLOCKS
    return [mean(values[begin : begin + size]) for begin in range(first, len(values), size)]
