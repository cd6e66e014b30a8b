"""Synthetic step times whose truth is known."""

import random

import pytest

from trials.measurement.statistics import FEW_SAMPLES, mean_of, percentile, quantile, rate, t_quantile, wilson
from trials.metrics import SAMPLES_NEEDED


def steps(n, mean_s=0.01, spread=0.1, seed=0):
    source = random.Random(seed)
    return [source.gauss(mean_s, mean_s * spread) for _ in range(n)]


def test_a_rate_is_all_work_over_all_time():
    found = rate([0.01] * 9 + [0.11], work_per_step=32, unit="samples/s")
    assert found.value == pytest.approx(320 / 0.2)
    assert found.n == 10


def test_the_interval_of_a_rate_holds_the_true_rate_in_about_95_of_100_runs():
    hits = sum(
        (found := rate(steps(200, seed=seed), 32, "samples/s")).low <= 3200 <= found.high
        for seed in range(300)
    )
    assert 270 <= hits <= 299


def test_correlated_steps_widen_the_interval_beyond_that_of_independent_ones():
    source, drift, correlated = random.Random(1), 0.0, []
    for _ in range(400):
        drift = 0.95 * drift + source.gauss(0, 0.03)
        correlated.append(0.01 * (1 + drift))
    shuffled = correlated[:]
    source.shuffle(shuffled)
    wide, narrow = rate(correlated, 1, "1/s"), rate(shuffled, 1, "1/s")
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_a_rate_of_three_steps_has_no_interval_and_says_so():
    found = rate([0.01, 0.02, 0.01], 32, "samples/s")
    assert (found.low, found.high) == (None, None)
    assert found.flags == (FEW_SAMPLES,)


@pytest.mark.parametrize("percent", sorted(SAMPLES_NEEDED))
def test_a_percentile_is_flagged_until_it_has_the_samples_it_needs(percent):
    needed = SAMPLES_NEEDED[percent]
    assert percentile(steps(needed - 1), percent).flags == (FEW_SAMPLES,)
    assert percentile(steps(needed), percent).flags == ()


def test_the_interval_of_a_percentile_holds_the_true_one_in_about_95_of_100_runs():
    def uniform(seed):
        source = random.Random(seed)
        return [source.random() for _ in range(300)]

    hits = sum((found := percentile(uniform(seed), 90)).low <= 0.9 <= found.high for seed in range(300))
    assert 275 <= hits <= 300


def test_a_percentile_with_too_few_samples_above_it_has_no_upper_end():
    assert percentile(steps(50), 99).high is None


def test_a_percentile_lies_between_neighbours():
    assert quantile([1, 2, 3, 4], 0.5) == 2.5
    assert quantile([7], 0.99) == 7


def test_shares_get_an_interval_that_is_not_empty_at_the_ends():
    found = mean_of([1.0] * 50, "fraction", "answers")
    assert found.value == 1.0
    assert found.low < 0.95
    assert wilson(0.0, 50)[1] > 0.05


def test_a_mean_of_one_sample_has_no_interval():
    assert mean_of([2.5], "nats", "samples").low is None


def test_student_quantiles_come_from_the_table_and_approach_the_normal_one():
    assert t_quantile(9) == 2.262
    assert 1.96 < t_quantile(200) < 1.98
    with pytest.raises(ValueError, match="at least two samples"):
        t_quantile(0)
