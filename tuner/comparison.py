"""Comparing noisy measurements: estimates over repeats, gains, limits, what comes next.

Noise has two levels: within a run (a run's own interval) and between runs. One run knows only the first,
which is too narrow, so the baseline's repeats lend every configuration their between-run spread until it
has enough runs of its own. Throughput, time, memory and loss scale, so a spread is carried over as a share
of the value.

Intervals of one value are ``value -+ reach``, except that a positive metric's never reach 0: its ends are
``value x exp(-+ reach / value)``, the same for a small share and lopsided for a large one. A fraction's ends
stay within 0 and 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, fmean, median, stdev

from trials.contract import MetricValue, Outcome, is_comparable
from trials.measurement.statistics import SAME_EXAMPLES
from tuner import student_t
from tuner.objectives import Bound, Objective
from tuner.records.rows import MeasurementRecord

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
_FOREIGN = 2.0
"""A configuration this many times noisier than what it is pooled with is judged by its own spread alone."""
_LARGEST_EXPONENT = 20.0
"""The ends of an interval stay within exp(20) of the middle, a number that can be shown and written."""
_LOPSIDED_FROM = 1.2
_LARGEST_SPREAD = 1e150
"""Of what is carried to another value: its square is still a number."""
_LARGEST_LOG = 700.0
"""The logarithm of a ratio that a float holds."""
_SMALLEST_SPREAD = 1e-7
"""Share of the value that a prediction allows a metric that never moved (last digits of a sum)."""


@dataclass(frozen=True)
class Spread:
    """How much one run differs from the next: standard deviation ``sd`` seen around the value ``around``."""

    sd: float
    around: float
    degrees: int

    @property
    def relative(self) -> float | None:
        """The standard deviation as a share of the value; None around 0."""
        return min(self.sd / abs(self.around), _LARGEST_SPREAD) if self.around else None

    def at(self, value: float) -> float:
        """The standard deviation expected around another value of the same metric."""
        return min(self.sd * abs(value / self.around), _LARGEST_SPREAD) if self.around and value else self.sd


@dataclass(frozen=True)
class Estimate:
    """A metric of one configuration over its runs.

    ``value`` is the mean of the runs and ``low``/``high`` its 95% interval (None where it cannot be given),
    lopsided where it is wide and the values are positive.
    ``within`` and ``between`` are the standard deviations inside a run and from run to run (None unknown);
    ``spread`` is what was used for one run, with ``degrees`` of freedom; ``n`` counts samples over all runs.
    """

    value: float
    unit: str
    low: float | None
    high: float | None
    n_runs: int
    n: int
    within: float | None
    between: float | None
    spread: float | None
    degrees: float
    method: str
    flags: tuple[str, ...] = ()

    @property
    def error(self) -> float | None:
        """Standard error of the value."""
        return None if self.spread is None else self.spread / math.sqrt(self.n_runs)


class LimitStatus(StrEnum):
    """Whether a limit holds, judged by the ends of the interval."""

    MET = "met"
    NOT_MET = "not_met"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Difference:
    """One value against another: ``value`` with its 95% interval (None where it cannot be given).

    A ratio (neutral at 1) where both values are positive, else a difference (neutral at 0). ``degrees``
    are the degrees of freedom that the interval was made with.
    """

    value: float
    low: float | None
    high: float | None
    is_ratio: bool
    method: str
    degrees: float = math.inf

    @property
    def is_beyond_noise(self) -> bool:
        """True when the interval excludes 'no difference'."""
        neutral = 1.0 if self.is_ratio else 0.0
        return self.low is not None and self.high is not None and not self.low <= neutral <= self.high

    def is_improvement(self, objective: Objective, among: int = 1) -> bool:
        """True when the interval excludes 'no difference' and the difference is to the better.

        Who picks the best of several looks for luck: ``among`` so many differences, the interval of each is
        widened until all hold together with 95% confidence.
        """
        neutral = 1.0 if self.is_ratio else 0.0
        if not self.is_beyond_noise or not objective.loss(self.value) < objective.loss(neutral):
            return False
        assert self.low is not None and self.high is not None  # known, where it is beyond noise
        distances = [abs(self._scaled(end) - self._scaled(self.value)) for end in (self.low, self.high)]
        share = (1 - CONFIDENCE) / 2
        wider = student_t.quantile(1 - share / among, self.degrees) / student_t.quantile(
            1 - share, self.degrees
        )
        return abs(self._scaled(self.value)) > max(distances) * wider

    def _scaled(self, value: float) -> float:
        """On the scale where the interval is even, with 'no difference' at 0."""
        return math.log(value) if self.is_ratio else value


def usable_runs(measurements: Iterable[MeasurementRecord], metric: str) -> list[MeasurementRecord]:
    """The complete runs that were not thrown away and have a value of the metric that can be compared."""
    return [
        run
        for run in measurements
        if run.outcome is Outcome.COMPLETE
        and not run.is_discarded
        and metric in run.metrics
        and run.metrics[metric].is_finite
    ]


def spread_between(measurements: Iterable[MeasurementRecord], metric: str) -> Spread | None:
    """The between-run spread of a metric; None with fewer than two runs.

    Also None where every run had the same seed and the same value: that says nothing about another seed.
    """
    runs = usable_runs(measurements, metric)
    if len(runs) < 2:
        return None
    values = [run.metrics[metric].value for run in runs]
    sd = standard_deviation(values)
    if sd == 0 and len({run.seed for run in runs}) == 1:
        return None
    return Spread(sd, fmean(values), len(runs) - 1)


def noise_floor(baseline: Sequence[MeasurementRecord]) -> dict[str, float]:
    """By metric, how much one run of the baseline differs from the next: relative standard deviation."""
    metrics = sorted({key for run in baseline for key in run.metrics})
    spreads = {key: spread_between(baseline, key) for key in metrics}
    return {k: s.relative for k, s in spreads.items() if s is not None and s.relative is not None}


def pool(runs: Iterable[MeasurementRecord], metric: str, prior: Spread | None = None) -> Estimate | None:
    """The metric over all usable runs; ``prior`` is the baseline's between-run spread. None without a run."""
    used = usable_runs(runs, metric)
    if not used:
        return None
    return pool_values([run.metrics[metric] for run in used], prior, n_seeds=len({run.seed for run in used}))


def pool_values(
    runs: Sequence[MetricValue], prior: Spread | None = None, n_seeds: int | None = None
) -> Estimate:
    """One estimate from at least one run's value; ``n_seeds`` 1 says that no repeat changed the seed."""
    values = [run.value for run in runs]
    value = fmean(values) if len(values) > 1 else values[0]
    within = _within(runs)
    between = standard_deviation(values) if len(values) > 1 else None
    one_seed = n_seeds == 1
    spread, degrees, method = _spread_of_one_run(value, between, len(values), within, prior, one_seed)
    half = (
        None
        if spread is None
        else student_t.quantile(0.5 + CONFIDENCE / 2, degrees) * spread / len(values) ** 0.5
    )
    if within and all(SAME_EXAMPLES in run.flags for run in runs):
        half = max(half or 0.0, _Z * within)  # an interval over the same examples, run after run
    low, high = (None, None) if half is None else _ends(value, half, values, runs[0].unit)
    flags = runs[0].flags if len(runs) == 1 else tuple(dict.fromkeys(f for run in runs for f in run.flags))
    return Estimate(
        value=value,
        unit=runs[0].unit,
        low=low,
        high=high,
        n_runs=len(values),
        n=sum(run.n or 1 for run in runs),
        within=within,
        between=between,
        spread=spread,
        degrees=degrees,
        method=method,
        flags=flags,
    )


def limit_status(bound: Bound, estimate: Estimate | None) -> LimitStatus:
    """Met when the pessimistic end of the interval is inside, not met when the optimistic end is outside.

    A missing value is not met; a value without interval decides by itself.
    """
    if estimate is None or not math.isfinite(estimate.value):
        return LimitStatus.NOT_MET
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    pessimistic, optimistic = (high, low) if bound.is_upper else (low, high)
    if bound.violation(pessimistic) <= 0:
        return LimitStatus.MET
    return LimitStatus.NOT_MET if bound.violation(optimistic) > 0 else LimitStatus.UNDECIDED


def prediction_interval(
    values: Sequence[float],
    confidence: float = CONFIDENCE,
    within: float = 0.0,
    prior: Spread | None = None,
    unit: str = "",
) -> tuple[float, float]:
    """Where one more run will land, from the values of earlier runs; ``unit`` "fraction" keeps it in 0 to 1.

    Holds the uncertainty of the mean and the scatter of a single run. ``within`` (standard deviation inside
    a run) is the least spread that is believed: three runs that agree by luck promise too much. ValueError
    without values, or where one value has neither ``within`` nor ``prior``.
    """
    if not values:
        raise ValueError("a prediction needs at least one earlier value")
    runs = [MetricValue(value, "", low=value - _Z * within, high=value + _Z * within) for value in values]
    estimate = pool_values(runs, prior, n_seeds=len(values))
    if estimate.spread is None or (len(values) == 1 and prior is None and within == 0):
        raise ValueError(
            "one value alone does not say how far the next may be; give more runs or their spread"
        )
    spread = max(estimate.spread, within, _SMALLEST_SPREAD * abs(estimate.value))
    reach = (
        student_t.quantile(0.5 + confidence / 2, estimate.degrees) * spread * math.sqrt(1 + 1 / len(values))
    )
    return _ends(estimate.value, reach, values, unit)


def is_lopsided(value: float, low: float, high: float) -> bool:
    """True where one side of an interval is over 20% longer than the other, so that one ± misleads."""
    below, above = value - low, high - value
    if not math.isfinite(below + above):
        return False
    return max(below, above) > _LOPSIDED_FROM * min(below, above) + 1e-9 * abs(value)


def gain_over_baseline(trial: Estimate, baseline: Estimate) -> Difference:
    """The trial against the baseline, unpaired: from the two estimates and their standard errors."""
    is_ratio = trial.value > 0 and baseline.value > 0
    center = log_ratio(trial.value, baseline.value) if is_ratio else trial.value - baseline.value
    if trial.error is None or baseline.error is None:
        return difference_of(center, None, math.inf, is_ratio, "single values")
    scale = (trial.value, baseline.value) if is_ratio else (1.0, 1.0)
    parts = (trial.error / scale[0], baseline.error / scale[1])
    error = math.hypot(*parts)
    return difference_of(
        center, error, _welch(parts, (trial.degrees, baseline.degrees)), is_ratio, "separate runs"
    )


def paired_difference(
    ours: Sequence[float], theirs: Sequence[float], confidence: float = CONFIDENCE
) -> Difference:
    """The mean difference of values that belong together: the same round and seed, or the same example.

    ValueError where the lengths differ; one pair gives no interval.
    """
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    mean, n = fmean(differences), len(differences)
    if n < 2:
        return Difference(mean, None, None, False, "one pair")
    reach = student_t.quantile(0.5 + confidence / 2, n - 1) * standard_deviation(differences) / math.sqrt(n)
    return Difference(mean, mean - reach, mean + reach, False, f"{n} pairs", n - 1)


def repeats_needed(
    spread: float, difference: float, confidence: float = CONFIDENCE, at_most: int = 1000
) -> int:
    """How many runs of each of two configurations show a ``difference``, one run scattering by ``spread``.

    Both in the same unit (or both as shares). Returns ``at_most`` where even that would not do.
    """
    if difference == 0:
        return at_most
    for repeats in range(2, at_most):
        reach = student_t.quantile(0.5 + confidence / 2, 2 * (repeats - 1)) * spread * math.sqrt(2 / repeats)
        if reach <= abs(difference):
            return repeats
    return at_most


def _spread_of_one_run(
    value: float, between: float | None, n: int, within: float | None, prior: Spread | None, one_seed: bool
) -> tuple[float | None, float, str]:
    """Standard deviation of one run, its degrees of freedom, and how it was found."""
    if between is None:
        if prior is None:
            return within, math.inf, "one run, its own interval (too narrow)" if within else "one run"
        return (
            max(prior.at(value), within or 0.0) or None,
            prior.degrees,
            "one run, spread of the baseline's repeats",
        )
    if prior is not None and prior.sd > 0 and between <= _FOREIGN * prior.at(value):
        degrees = prior.degrees + n - 1
        pooled = math.sqrt((prior.degrees * prior.at(value) ** 2 + (n - 1) * between**2) / degrees)
        return pooled, degrees, f"mean of {n} runs, their spread pooled with the baseline's"
    if between > 0:
        return between, n - 1, f"mean of {n} runs"
    if within:
        return within, math.inf, f"the same in {n} runs, interval of one run"
    if one_seed:
        return None, math.inf, f"the same in {n} runs of one seed, other seeds unknown"
    return 0.0, math.inf, f"the same in {n} runs"


def _ends(middle: float, reach: float, values: Sequence[float], unit: str) -> tuple[float, float]:
    """The interval's ends; see the top of this file."""
    if unit == "fraction":
        return max(middle - reach, min(0.0, *values)), min(middle + reach, max(1.0, *values))
    if min(values) <= 0:
        return middle - reach, middle + reach
    exponent = min(reach / middle, _LARGEST_EXPONENT)
    return middle * math.exp(-exponent), middle * math.exp(exponent)


def _within(runs: Sequence[MetricValue]) -> float | None:
    errors = [(run.high - run.low) / (2 * _Z) for run in runs if run.low is not None and run.high is not None]
    usable = [error for error in errors if error >= 0 and is_comparable(error)]
    return median(usable) if usable else None


def difference_of(
    center: float, error: float | None, degrees: float, is_ratio: bool, method: str
) -> Difference:
    """A difference from its center and standard error (both of logarithms where it is a ratio)."""
    turn = _ratio if is_ratio else float
    if error is None:
        return Difference(turn(center), None, None, is_ratio, method)
    reach = student_t.quantile(0.5 + CONFIDENCE / 2, degrees) * error
    return Difference(turn(center), turn(center - reach), turn(center + reach), is_ratio, method, degrees)


def _welch(errors: tuple[float, float], degrees: tuple[float, float]) -> float:
    """Satterthwaite's degrees of freedom, rounded down (cautious, and few distinct values to look up)."""
    largest = max(errors)
    if largest == 0:
        return math.inf
    if math.isinf(largest):
        return max(1.0, min(degrees))
    parts = [(error / largest) ** 2 for error in errors]
    shares = sum(part**2 / freedom for part, freedom in zip(parts, degrees, strict=True))
    return math.inf if shares == 0 else max(1.0, float(math.floor(sum(parts) ** 2 / shares + 1e-9)))


def log_ratio(one: float, other: float) -> float:
    """The logarithm of a ratio of positive numbers, also where the ratio is no float."""
    ratio = one / other  # nearer to the truth than a difference of logarithms, where it is a float
    return math.log(ratio) if sys.float_info.min < ratio < math.inf else math.log(one) - math.log(other)


def _ratio(log: float) -> float:
    return math.exp(max(min(log, _LARGEST_LOG), -_LARGEST_LOG))


def standard_deviation(values: Sequence[float]) -> float:
    """Standard deviation; exactly 0 for equal values (the mean of equal floats may be off by a digit)."""
    return 0.0 if min(values) == max(values) else stdev(values)
