"""From durations to rates: the mix of shapes is that of a pass, wherever the window ends; latencies need samples."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.inference.serving import Pass
from trials.inference.speed import latencies, rate_of, summed
from trials.metrics import Key

SHORT, LONG = (32, 16), (32, 64)
TIMES_S = {SHORT: 0.01, LONG: 0.04}


def served(calls, noise=0.0, slow_start=0, seed=0):
    chance = random.Random(seed)
    durations = [
        TIMES_S[shape] * (1 + noise * chance.uniform(-1, 1)) * (3 if number < slow_start else 1)
        for number, shape in enumerate(calls)
    ]
    return Pass(durations, list(calls))


def rate(calls, per_pass, work=96, **how):
    return rate_of(served(calls, **how), per_pass, work, "samples/s")


PER_PASS = Counter({SHORT: 2, LONG: 1})
TRUE_RATE = 96 / 0.06


@pytest.mark.parametrize("cut", [3, 4, 5, 7, 30, 31])
def test_the_rate_does_not_depend_on_where_the_window_ends(cut):
    calls = [SHORT, LONG, SHORT] * 11
    assert rate(calls[:cut], PER_PASS).value.value == pytest.approx(TRUE_RATE)


def test_the_interval_holds_the_true_rate_about_95_times_in_100():
    found = [rate([SHORT, LONG, SHORT] * 30, PER_PASS, noise=0.3, seed=seed).value for seed in range(200)]
    assert 0.9 < sum(one.low < TRUE_RATE < one.high for one in found) / len(found) <= 0.99


def test_the_interval_narrows_with_the_window():
    few, many = (rate([SHORT, LONG, SHORT] * count, PER_PASS, noise=0.3).value for count in (10, 300))
    assert many.high - many.low < (few.high - few.low) / 3


def test_a_slow_start_is_cut_off_and_counted_as_warm_up():
    found = rate([SHORT, LONG, SHORT] * 30, PER_PASS, slow_start=9)
    assert found.value.value == pytest.approx(TRUE_RATE)
    assert found.warmup_s == pytest.approx(3 * 3 * 0.06)
    assert found.is_steady


def test_a_run_that_only_slows_down_is_not_steady():
    durations = [0.01 * 1.02**number for number in range(60)]
    found = rate_of(Pass(durations, [SHORT] * 60), Counter({SHORT: 1}), 32, "samples/s")
    assert not found.is_steady


def test_hundreds_of_thousands_of_calls_are_judged_in_little_time():
    durations = [1e-5 * (1 + 0.5 * (number % 7 == 0)) for number in range(200_000)]
    found = rate_of(Pass(durations, [SHORT] * len(durations)), Counter({SHORT: 10}), 320, "samples/s")
    assert found.value.value == pytest.approx(32 / (1e-5 * (1 + 0.5 / 7)), rel=1e-3)


def test_instances_add_up_and_their_intervals_as_independent_ones():
    one = MetricValue(100.0, "samples/s", 10, 97.0, 103.0, "m")
    two = summed([one, MetricValue(50.0, "samples/s", 10, 46.0, 54.0, "m", ("few_samples",))])
    assert (two.value, two.low, two.high, two.n) == (150.0, 145.0, 155.0, 20)
    assert two.flags == ("few_samples",) and "2 instances" in two.method
    assert summed([one]) is one
    assert summed([one, MetricValue(50.0, "samples/s", 3)]).low is None


def test_latencies_are_percentiles_that_say_whether_there_were_enough_requests():
    found = latencies([0.001 * number for number in range(1, 301)])
    assert found[Key.LATENCY_P50_MS].value == pytest.approx(150.5)
    assert found[Key.LATENCY_P90_MS].value == pytest.approx(270.1)
    assert [bool(found[key].flags) for key in found] == [False, False, True]
    assert "300 requests" in found[Key.LATENCY_P50_MS].method
    with pytest.raises(TrialFailure) as failure:
        latencies([])
    assert failure.value.kind is FailureKind.UNSTABLE
