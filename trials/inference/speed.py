"""From the durations of calls to metrics: samples per second of the same mix of shapes for everyone, latencies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.inference.serving import Pass
from trials.measurement.statistics import mean, percentile, quantile, rate
from trials.measurement.steady import steady_window
from trials.metrics import Key, unit_of

_PERCENTILES = {Key.LATENCY_P50_MS: 50, Key.LATENCY_P90_MS: 90, Key.LATENCY_P99_MS: 99}
_MOST_STEPS = 500


@dataclass(frozen=True)
class Rate:
    """Work per second of one replica, and of which steps of its run it was taken."""

    value: MetricValue
    warmup_s: float
    measured_s: float
    is_steady: bool


def rate_of(served: Pass, per_pass: Counter[tuple[int, int]], work: float, unit: str) -> Rate:
    """``work`` of a pass over the time of a pass; ``per_pass`` counts the calls of each shape in one.

    The time of a pass is taken shape by shape (calls in a pass x their mean duration), so that a window which
    ends inside a pass counts the same mix of short and long batches as any other. The warm-up is cut off by the
    durations relative to those of the same shape.
    """
    durations, shapes = served.durations_s, served.shapes
    typical = {shape: quantile(times, 0.5) for shape, times in _by_shape(durations, shapes).items()}
    relative = [seconds / typical[shape] for seconds, shape in zip(durations, shapes, strict=True)]
    together = math.ceil(len(relative) / _MOST_STEPS)  # calls of some us each come in hundreds of thousands
    steps = [mean(relative[begin : begin + together]) for begin in range(0, len(relative), together)]
    window = steady_window(steps, earliest=0)
    first = window.first * together
    kept = _by_shape(durations[first:], shapes[first:])
    means = {shape: mean(times) for shape, times in {**_by_shape(durations, shapes), **kept}.items()}
    pass_s = math.fsum(count * means[shape] for shape, count in per_pass.items())
    calls, steps_kept = per_pass.total(), len(durations) - first
    # each step as if all shapes took the same time: their mean is that of a call in a pass, and a shape that was
    # seen seldom, for its part in a pass, counts for more in the scatter
    alike = [
        (pass_s + (seconds - means[shape]) * per_pass[shape] * steps_kept / len(kept[shape])) / calls
        for seconds, shape in zip(durations[first:], shapes[first:], strict=True)
    ]
    return Rate(
        rate(alike, work / calls, unit), sum(durations[:first]), sum(durations[first:]), window.is_steady
    )


def summed(rates: Sequence[MetricValue]) -> MetricValue:
    """The sum over replicas that ran at the same time; their intervals are independent."""
    if len(rates) == 1:
        return rates[0]
    value = math.fsum(one.value for one in rates)
    below = [None if one.low is None else one.value - one.low for one in rates]
    above = [None if one.high is None else one.high - one.value for one in rates]
    flags = tuple(dict.fromkeys(flag for one in rates for flag in one.flags))
    return MetricValue(
        value,
        rates[0].unit,
        sum(one.n or 0 for one in rates),
        None if None in below else value - math.hypot(*(part or 0.0 for part in below)),
        None if None in above else value + math.hypot(*(part or 0.0 for part in above)),
        f"sum of {len(rates)} instances; {rates[0].method}",
        flags,
    )


def latencies(durations_s: Sequence[float]) -> dict[str, MetricValue]:
    """Percentiles of single requests."""
    if not durations_s:
        raise TrialFailure(FailureKind.UNSTABLE, "no request was answered")
    milliseconds = [seconds * 1000 for seconds in durations_s]
    return {key: percentile(milliseconds, percent, "requests") for key, percent in _PERCENTILES.items()}


def samples_rate(served: Pass, per_pass: Counter[tuple[int, int]], samples: int) -> Rate:
    """Samples per second of one replica."""
    return rate_of(served, per_pass, samples, unit_of(Key.SAMPLES_PER_S))


def _by_shape(
    durations_s: Sequence[float], shapes: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = {}
    for seconds, shape in zip(durations_s, shapes, strict=True):
        found.setdefault(shape, []).append(seconds)
    return found
