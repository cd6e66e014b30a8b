"""Student's t without scipy, whose import would cost `tuner show` a second.

The distribution function goes through the regularised incomplete beta function, evaluated as a continued
fraction (Numerical Recipes, section 6.4, gives the recurrence; the code is ours).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300


def cdf(t: float, degrees: float) -> float:
    """P(T <= t) with ``degrees`` of freedom; infinite degrees give the normal distribution."""
    if math.isinf(degrees) or math.isinf(t):
        return NormalDist().cdf(t)
    tail = 0.5 * _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def quantile(probability: float, degrees: float) -> float:
    """The t below which a share ``probability`` (0-1, exclusive) lies."""
    if math.isinf(degrees):
        return NormalDist().inv_cdf(probability)
    if probability < 0.5:
        return -quantile(1.0 - probability, degrees)
    low, high = 0.0, 2.0
    while cdf(high, degrees) < probability:
        low, high = high, high * 2
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    scale = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return scale * _fraction(a, b, x) / a
    return 1.0 - scale * _fraction(b, a, 1.0 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for numerator in (even, odd):
            d = 1.0 / _nonzero(1.0 + numerator * d)
            c = _nonzero(1.0 + numerator / c)
            value *= c * d
        if abs(value - before) <= 1e-15 * abs(value):
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
