"""Synthetic step times: where the warm-up ends is known."""

import random

from trials.measurement.steady import MIN_WARMUP_STEPS, steady_window


def noisy(means, spread=0.02, seed=0):
    source = random.Random(seed)
    return [mean * (1 + source.gauss(0, spread)) for mean in means]


def test_flat_steps_lose_only_the_least_warm_up():
    found = steady_window(noisy([0.01] * 60))
    assert found.first <= MIN_WARMUP_STEPS + 2
    assert found.is_steady


def test_a_slow_start_is_dropped_and_the_rest_kept():
    found = steady_window(noisy([0.05] * 15 + [0.01] * 85))
    assert 11 <= found.first <= 17  # a window may hold up to half a block of slow steps
    assert found.is_steady


def test_a_slow_decay_is_followed_until_it_is_flat():
    means = [0.01 * (1 + 2 * 0.9**step) for step in range(200)]
    found = steady_window(noisy(means))
    assert means[found.first] < 0.0115
    assert found.is_steady


def test_single_slow_steps_are_not_taken_for_a_trend():
    means = [0.01] * 100
    means[4] = means[50] = means[90] = 0.2
    assert steady_window(noisy(means)).first <= MIN_WARMUP_STEPS + 2


def test_steps_that_trend_to_the_end_give_half_of_the_run_and_say_so():
    found = steady_window([0.01 * 1.05**step for step in range(60)])
    assert not found.is_steady
    assert found.first == MIN_WARMUP_STEPS + (60 - MIN_WARMUP_STEPS) // 2


def test_a_short_run_loses_the_least_warm_up_without_a_test_of_trend():
    assert steady_window([0.01] * 6).first == MIN_WARMUP_STEPS


def test_a_run_no_longer_than_the_warm_up_leaves_no_step():
    found = steady_window([0.01] * 3)
    assert found.first == 3
    assert not found.is_steady
