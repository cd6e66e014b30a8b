"""From the window of a load to metrics, and to the verdict on it: is it a measurement, is the SLO met?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.measurement.statistics import FEW_SAMPLES, mean_of, percentile, quantile, rate_in_window
from trials.metrics import SAMPLES_NEEDED, Key, unit_of
from trials.serving.load_settings import Load
from trials.serving.slo import Slo
from trials.serving.window import Served, Window

PERCENTS = (50, 90, 99)
SATURATED_CPU_SHARE = 0.9
SATURATED_LAG_SHARE, NOTED_LAG_SHARE = 0.2, 0.05
"""Of the median latency: a generator later than this measures itself."""
LEAST_LAG_MS = 5.0
_TREND = 0.1
"""perf_analyzer: windows within 10% of one another are steady."""
CENSORED = "lower_bound"


def check_is_measurement(window: Window, load: Load) -> None:
    """TrialFailure where the window says nothing of the server: no answers, too many failures, a client that was
    too slow.
    """
    if not window.served:
        said = window.failures() or f"{len(window.unfinished_ms)} requests were never answered"
        kind = FailureKind.CRASH if window.failed else FailureKind.UNSTABLE
        raise TrialFailure(kind, f"no request was answered: {said}")
    failed_pct = 100 * len(window.failed) / window.counted
    if failed_pct > load.max_failed_pct:
        raise TrialFailure(
            FailureKind.CRASH,
            f"{len(window.failed)} of {window.counted} requests failed ({failed_pct:.1f}%, load.max_failed_pct is "
            f"{load.max_failed_pct:g}): {window.failures()}",
        )
    reason = saturation(window)
    if reason:
        raise TrialFailure(FailureKind.UNSTABLE, reason)


def saturation(window: Window) -> str | None:
    """Why the load generator, not the server, set these numbers; None where it did not."""
    lag_ms = _lag(window)
    waits = [1000 * (one.ended_s - one.exchange.sent_s) for one in window.served]
    allowed_ms = max(LEAST_LAG_MS, SATURATED_LAG_SHARE * quantile(waits, 0.5)) if waits else LEAST_LAG_MS
    if window.cpu_share <= SATURATED_CPU_SHARE and lag_ms <= allowed_ms:
        return None
    return (
        f"the load generator was saturated (its processor {window.cpu_share:.0%} busy, p99 of its own lag "
        f"{lag_ms:.1f} ms, {allowed_ms:.1f} ms allowed): this is no measurement of the server; give it "
        "load.client_processes or load.client_cpus, or a smaller load"
    )


def remarks(window: Window) -> list[str]:
    """What the reader of the numbers should know."""
    found = []
    waits = [1000 * (one.ended_s - one.exchange.sent_s) for one in window.served]
    if waits and _lag(window) > max(LEAST_LAG_MS, NOTED_LAG_SHARE * quantile(waits, 0.5)):
        found.append(f"the load generator itself was up to {_lag(window):.1f} ms late (p99)")
    if is_trending(window):
        found.append("throughput was still trending inside the window; make it longer")
    if any(not one.answer.arrivals_s for one in window.served if one.answer.tokens):
        found.append("some answers have tokens and no text; they have no time to first token")
    return found


def is_trending(window: Window) -> bool:
    """Whether the first and the last third of the window differ by more than 10% and more than chance."""
    third = window.seconds / 3
    first = sum(one.ended_s <= window.begin_s + third for one in window.in_time)
    last = sum(one.ended_s > window.end_s - third for one in window.in_time)
    mean = len(window.in_time) / 3
    return abs(first - last) > max(_TREND * mean, 3 * math.sqrt(2 * mean))


def load_metrics(window: Window, slo: Slo) -> dict[str, MetricValue]:
    """Throughput, latencies, goodput and counts of the window."""
    ended = [(one.ended_s, 1.0) for one in window.in_time]
    edges = (window.begin_s, window.end_s)
    found: dict[str, MetricValue] = {
        Key.REQUESTS_PER_S: rate_in_window(ended, *edges, unit_of(Key.REQUESTS_PER_S), "requests"),
        Key.FAILED_REQUESTS: _count(Key.FAILED_REQUESTS, len(window.failed), window.counted),
        Key.UNFINISHED_REQUESTS: _count(Key.UNFINISHED_REQUESTS, len(window.unfinished_ms), window.counted),
    }
    tokens = [(one.ended_s, float(one.answer.tokens)) for one in window.in_time if one.answer.tokens]
    if tokens:
        found[Key.OUTPUT_TOKENS_PER_S] = rate_in_window(
            tokens, *edges, unit_of(Key.OUTPUT_TOKENS_PER_S), "answers"
        )
    for quantity in ("ttft", "tpot", "itl", "latency"):
        found |= _percentiles(quantity, window)
    if window.lags_ms:
        lag = percentile(window.lags_ms, 99, "wake-ups of the load generator")
        found[Key.CLIENT_LAG_P99_MS] = lag
    if slo:
        good = [(one.exchange.scheduled_s, 1.0) for one in window.served if is_good(one, slo)]
        found[Key.GOODPUT_REQUESTS_PER_S] = rate_in_window(
            good, *edges, unit_of(Key.GOODPUT_REQUESTS_PER_S), "good requests"
        )
    known = [float(is_right(one)) for one in window.served if one.exchange.prompt.answer is not None]
    if known:
        found[Key.LOAD_ACCURACY] = mean_of(known, unit_of(Key.LOAD_ACCURACY), "prompts with a known answer")
    return found


def is_right(served: Served) -> bool:
    """Whether the answer is the known one: equal values, or a text that is it, white space at the ends aside."""
    known = served.exchange.prompt.answer
    if isinstance(known, str):
        return served.answer.text.strip() == known.strip()
    return bool(served.answer.value == known)


def is_good(served: Served, slo: Slo) -> bool:
    """Whether one request is within every bound itself."""
    return all(
        max(_values(bound.quantity, [served]), default=0.0) <= bound.at_most_ms for bound in slo.bounds
    )


def misses(window: Window, slo: Slo) -> list[str]:
    """The bounds that the window does not meet, in words; failed and unfinished requests are over every bound."""
    lost = [math.inf] * (len(window.failed) + len(window.unfinished_ms))
    found = []
    for bound in slo.bounds:
        values = [*_values(bound.quantity, window.served), *lost]
        # the nearest rank above: with infinities nothing can be interpolated
        rank = max(0, math.ceil(len(values) * bound.percent / 100) - 1)
        value = sorted(values)[rank] if values else math.inf
        if value > bound.at_most_ms:
            found.append(f"{bound.key} {value:.0f} > {bound.at_most_ms:g}")
    return found


def _percentiles(quantity: str, window: Window) -> dict[str, MetricValue]:
    """Requests that were never answered count with the time that they were waited for, a lower bound."""
    values = _values(quantity, window.served)
    waiting = window.unfinished_ms if quantity in ("ttft", "latency") and values else []
    if not values:
        return {}
    what = "tokens" if quantity == "itl" else "requests"
    found = {}
    for percent in PERCENTS:
        metric = percentile([*values, *waiting], percent, what)
        if waiting:
            metric = dataclasses.replace(metric, flags=(*metric.flags, CENSORED))
        found[f"{quantity}_p{percent}_ms"] = metric
    return found


def _values(quantity: str, served: Sequence[Served]) -> list[float]:
    if quantity == "latency":
        return [one.latency_ms for one in served]
    if quantity == "itl":
        return [gap for one in served for gap in one.itl_ms()]
    singles = [one.ttft_ms if quantity == "ttft" else one.tpot_ms for one in served]
    return [value for value in singles if value is not None]


def _lag(window: Window) -> float:
    return quantile(window.lags_ms, 0.99) if window.lags_ms else 0.0


def _count(key: Key, count: int, of: int) -> MetricValue:
    return MetricValue(count, unit_of(key), of, method=f"of {of} counted requests")


__all__ = ["FEW_SAMPLES", "SAMPLES_NEEDED", "check_is_measurement", "load_metrics", "misses", "remarks"]
