from __future__ import annotations

import math

import pytest

from tuner.comparison import Difference, Estimate
from tuner.results.wording import estimate_text, gain_text, number_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(24_891.7, "24,892"), (2.31723, "2.3172"), (1.2e-7, "1.2e-07"), (0.0, "0"), (-31_190.0, "-31,190"),
     (99_999.9, "100,000"), (2_800.0, "2,800"), (2_345.6, "2,345.6"), (math.inf, "inf"), (3e12, "3e+12")],
)  # fmt: skip
def test_numbers_are_short_and_grouped(value: float, text: str) -> None:
    assert number_text(value) == text


def test_two_digits_of_a_large_spread_are_no_power_of_ten() -> None:
    assert number_text(143.2, 2) == "140" and number_text(0.0134, 2) == "0.013"


def test_every_ratio_is_a_factor_with_more_digits_near_1() -> None:
    assert gain_text(Difference(2.11, 2.05, 2.17, True, "")) == "x2.11 (2.05 to 2.17)"
    assert gain_text(Difference(1.032, 1.029, 1.035, True, "")) == "x1.0320 (1.0290 to 1.0350)"
    assert gain_text(Difference(2.3, 2.25, 2.36, True, "")) == "x2.30 (2.25 to 2.36)"
    assert gain_text(Difference(-0.02, None, None, False, "")) == "-0.02, interval unknown"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(98.0, 102.0, "100 ± 2 tokens/s"), (61.2, 163.4, "100 (61.2 to 163) tokens/s")],
)
def test_an_interval_whose_sides_differ_is_written_by_its_ends(low: float, high: float, text: str) -> None:
    found = Estimate(100.0, "tokens/s", low, high, 3, 3, None, None, None, math.inf, "built")
    assert estimate_text(found) == text
