from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.builders import failed, measurement, objective, repeats
from trials.contract import MetricValue
from tuner import student_t
from tuner.comparison import (
    Estimate,
    LimitStatus,
    Spread,
    gain_over_baseline,
    is_lopsided,
    limit_status,
    noise_floor,
    paired_difference,
    pool,
    pool_values,
    prediction_interval,
    repeats_needed,
    spread_between,
)
from tuner.objectives import Bound
from tuner.rounds import Rounds, name_winner

UP = objective("x")


def values(*numbers: float) -> list[MetricValue]:
    return [MetricValue(number, "1/s", n=40) for number in numbers]


def estimate(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value, "", low, high, 3, 3, None, None, None, math.inf, "built")


def upper(bound: float) -> Bound:
    return Bound("x", True, bound, f"x <= {bound}")


@pytest.mark.parametrize("degrees", [1, 2, 3, 7.5, 30, 1e4, math.inf])
def test_students_t_agrees_with_scipy(degrees: float) -> None:
    for probability in (0.5, 0.9, 0.975, 0.9995, 0.025):
        assert student_t.quantile(probability, degrees) == pytest.approx(
            stats.t.ppf(probability, degrees), rel=1e-8, abs=1e-9
        )
    for t in (-4.0, -0.3, 0.0, 1.0, 12.0):
        assert student_t.cdf(t, degrees) == pytest.approx(stats.t.cdf(t, degrees), abs=1e-9)


def test_a_single_run_borrows_the_baselines_spread_because_its_own_interval_is_too_narrow() -> None:
    run = measurement({"x": (100.0, 99.0, 101.0)})
    prior = spread_between(repeats({"x": [198.0, 200.0, 202.0]}, "baseline"), "x")
    alone, with_prior = pool([run], "x"), pool([run], "x", prior)
    assert (
        alone is not None and with_prior is not None and alone.low is not None and with_prior.low is not None
    )
    assert alone.low == pytest.approx(100 * math.exp(-0.01))
    assert with_prior.low == pytest.approx(100 * math.exp(-stats.t.ppf(0.975, 2) / 100))


def test_a_single_run_without_any_spread_has_no_interval() -> None:
    found = pool([measurement({"x": 5.0})], "x")
    assert found is not None
    assert (found.value, found.low, found.high, found.n_runs) == (5.0, None, None, 1)


def test_failed_discarded_and_non_finite_runs_are_no_part_of_an_estimate() -> None:
    runs = [
        measurement({"x": 10.0}),
        measurement({"x": 99.0}, is_discarded=True),
        failed(values={"x": 99.0}),
        measurement({"x": math.nan}),
        measurement({"y": 1.0}),
    ]
    found = pool(runs, "x")
    assert found is not None and (found.value, found.n_runs) == (10.0, 1)
    assert pool(runs, "z") is None


def test_own_spread_is_pooled_with_the_baselines_unless_it_is_far_larger() -> None:
    prior = Spread(sd=1.0, around=100.0, degrees=2)
    assert pool_values(values(99, 100, 101), prior).degrees == 4
    noisy = pool_values(values(90, 100, 110), prior)
    assert noisy.degrees == 2
    assert noisy.spread == pytest.approx(10.0)


@pytest.mark.parametrize(("noise", "least"), [(0.3, 0.93), (1.0, 0.93), (5.0, 0.89)])
def test_intervals_and_predictions_of_three_runs_cover_the_truth(noise: float, least: float) -> None:
    """``noise``: how much noisier the configuration is than the baseline that lends its spread."""
    rng = np.random.default_rng(7)
    covered = predicted = 0
    studies = 1500
    for _ in range(studies):
        base = 1000 * (1 + 0.015 * rng.normal(size=3))
        runs = [float(x) for x in 2000 * (1 + noise * 0.015 * rng.normal(size=4))]
        prior = Spread(float(base.std(ddof=1)), float(base.mean()), 2)
        found = pool_values(values(*runs[:3]), prior)
        low, high = prediction_interval(runs[:3], prior=prior)
        covered += found.low <= 2000 <= found.high  # type: ignore[operator]  # three runs have an interval
        predicted += low <= runs[3] <= high
    assert covered / studies > least
    assert predicted / studies > least


def test_equal_values_of_one_seed_say_nothing_about_other_seeds() -> None:
    same_seed = [measurement({"x": 2.5}, seed=0) for _ in range(3)]
    assert spread_between(same_seed, "x") is None
    found = pool(same_seed, "x")
    assert found is not None and found.low is None and "other seeds unknown" in found.method


def test_equal_values_of_different_seeds_fall_back_on_the_interval_within_a_run() -> None:
    accuracy = [measurement({"accuracy": (0.97, 0.95, 0.99)}, seed=seed) for seed in range(3)]
    found = pool(accuracy, "accuracy")
    assert found is not None and found.low is not None and found.low < 0.96


def test_a_metric_that_never_moves_is_exact() -> None:
    found = pool(repeats({"x": [4.0, 4.0, 4.0]}), "x")
    assert found is not None and (found.low, found.high) == (4.0, 4.0)


def test_a_prediction_allows_a_metric_that_never_moved_its_last_digits_only() -> None:
    low, high = prediction_interval([4.0, 4.0, 4.0])
    assert low < 4.0 * (1 - 1e-8) and high > 4.0 * (1 + 1e-8)
    assert high - low < 1e-5


def test_a_prediction_is_the_t_interval_of_one_more_run() -> None:
    low, high = prediction_interval([98.0, 100.0, 102.0])
    reach = stats.t.ppf(0.975, 2) * 2 * math.sqrt(4 / 3)
    assert low == pytest.approx(100 * math.exp(-reach / 100))
    assert high == pytest.approx(100 * math.exp(reach / 100))
    below, above = prediction_interval([-2.0, 0.0, 2.0])
    assert (below, above) == pytest.approx((-reach, reach))
    narrow, wide = prediction_interval([98, 100, 102], 0.9), prediction_interval([98, 100, 102], 0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_a_wide_interval_of_positive_values_stays_above_zero_and_a_narrow_one_is_even() -> None:
    wild = pool_values(values(20, 100, 300))
    assert wild.low is not None and wild.high is not None and 0 < wild.low < 20 and wild.high > 300
    low, high = prediction_interval([20.0, 100.0, 300.0], 0.999)
    assert 0 < low < wild.low and wild.high < high < math.inf
    calm = pool_values(values(999, 1000, 1001))
    assert calm.low is not None and calm.high is not None
    assert calm.high - 1000 == pytest.approx(1000 - calm.low, rel=0.01)
    assert not is_lopsided(1000, calm.low, calm.high) and is_lopsided(140, wild.low, wild.high)


def test_the_interval_of_a_fraction_stays_between_0_and_1() -> None:
    found = pool_values([MetricValue(value, "fraction") for value in (0.9, 0.97, 1.0)])
    assert found.high == 1.0 and found.low is not None and 0.8 < found.low < 0.9
    low, high = prediction_interval([0.02, 0.2, 0.0], unit="fraction")
    assert low == 0.0 and 0.2 < high < 1.0


def test_the_best_of_many_differences_needs_a_wider_margin_than_one_alone() -> None:
    gain = gain_over_baseline(pool_values(values(102, 103, 104)), pool_values(values(99, 100, 101)))
    assert gain.is_improvement(UP) and not gain.is_improvement(UP, among=20)
    assert not gain.is_improvement(objective("x", "minimize"))


def test_runs_that_agree_by_luck_do_not_promise_more_than_one_run_knows() -> None:
    lucky = prediction_interval([99.99, 100.0, 100.01])
    sensible = prediction_interval([99.99, 100.0, 100.01], within=1.0)
    assert sensible[1] - sensible[0] > 20 * (lucky[1] - lucky[0])


def test_one_value_alone_predicts_nothing() -> None:
    with pytest.raises(ValueError, match="one value alone"):
        prediction_interval([5.0])
    with pytest.raises(ValueError, match="at least one"):
        prediction_interval([])


def test_the_noise_floor_is_relative_and_leaves_out_what_was_measured_once() -> None:
    floor = noise_floor([*repeats({"x": [99.0, 101.0]}, "baseline"), measurement({"y": 1.0}, "baseline")])
    assert floor == {"x": pytest.approx(math.sqrt(2) / 100)}


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (8.0, 9.9, LimitStatus.MET),
        (9.0, 10.1, LimitStatus.UNDECIDED),
        (10.1, 11.0, LimitStatus.NOT_MET),
        (8.0, 10.0, LimitStatus.MET),
    ],
)
def test_a_limit_is_judged_by_the_ends_of_the_interval(low: float, high: float, status: LimitStatus) -> None:
    middle = (low + high) / 2
    assert limit_status(upper(10.0), estimate(middle, low, high)) is status
    mirrored = Bound("x", False, -10.0, "x >= -10")
    assert limit_status(mirrored, estimate(-middle, -high, -low)) is status


def test_a_value_without_interval_decides_by_itself_and_a_missing_one_is_not_met() -> None:
    assert limit_status(upper(10), estimate(9.0, None, None)) is LimitStatus.MET
    assert limit_status(upper(10), estimate(11.0, None, None)) is LimitStatus.NOT_MET
    assert limit_status(upper(10), None) is LimitStatus.NOT_MET


def test_a_gain_is_a_ratio_where_both_are_positive_and_a_difference_elsewhere() -> None:
    fast, slow = pool_values(values(198, 200, 202)), pool_values(values(99, 100, 101))
    ratio = gain_over_baseline(fast, slow)
    assert ratio.is_ratio and ratio.value == pytest.approx(2.0) and ratio.is_beyond_noise
    difference = gain_over_baseline(pool_values(values(-1, 0, 1)), slow)
    assert not difference.is_ratio and difference.value == pytest.approx(-100)


def test_equal_trials_show_no_gain_beyond_noise_in_all_but_a_few_studies() -> None:
    rng = np.random.default_rng(3)
    false_gains = 0
    for _ in range(1000):
        prior_runs, ours, theirs = (100 + rng.normal(size=3) for _ in range(3))
        prior = Spread(float(prior_runs.std(ddof=1)), float(prior_runs.mean()), 2)
        gain = gain_over_baseline(pool_values(values(*ours), prior), pool_values(values(*theirs), prior))
        false_gains += gain.is_beyond_noise
    assert false_gains / 1000 < 0.06


def test_pairing_on_the_same_examples_finds_a_small_steady_difference() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(2.0, 1.0, size=500)
    ours = hard + 0.02 + rng.normal(0, 0.05, size=500)
    found = paired_difference(list(ours), list(hard))
    assert found.is_beyond_noise and found.low is not None and found.low < 0.02 < found.high  # type: ignore[operator]
    with pytest.raises(ValueError, match="zip"):
        paired_difference([1.0, 2.0], [1.0])


def rounds_of(
    rng: np.random.Generator, gains: list[float], count: int, noise: list[float]
) -> dict[int, dict[int, float]]:
    """Rounds share a drift; each trial has its own gain and noise."""
    drift = rng.normal(0, 0.02, size=count)
    return {
        number: {r: float(1000 * math.exp(gain + drift[r] + rng.normal(0, sd))) for r in range(count)}
        for number, (gain, sd) in enumerate(zip(gains, noise, strict=True))
    }


@pytest.mark.parametrize(
    ("gains", "count"), [([0.0] * 2, 3), ([0.0] * 5, 3), ([0.0] * 5, 2), ([0.0, 0.2, 0.2], 3), ([0.0] * 3, 5)]
)
def test_among_equals_a_winner_is_named_in_at_most_one_study_of_twenty(
    gains: list[float], count: int
) -> None:
    rng = np.random.default_rng(11)
    studies = 1000
    named = sum(
        name_winner(rounds_of(rng, gains, count, [0.015] * len(gains)), UP).winner is not None
        for _ in range(studies)
    )
    # 5% and the error of a thousand studies
    assert named / studies <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / studies)


def test_a_noisy_finalist_is_not_named_for_its_noise() -> None:
    rng = np.random.default_rng(5)
    noise = [0.015] * 4 + [0.075]
    named = sum(name_winner(rounds_of(rng, [0.0] * 5, 3, noise), UP).winner is not None for _ in range(1000))
    assert named / 1000 < 0.08


def test_a_real_winner_is_named() -> None:
    rng = np.random.default_rng(2)
    verdicts = [name_winner(rounds_of(rng, [0.0, 0.0, 0.0, 0.08], 3, [0.015] * 4), UP) for _ in range(200)]
    assert sum(verdict.winner == 3 for verdict in verdicts) > 180


def test_the_smaller_value_wins_where_smaller_is_better() -> None:
    losses = {1: {0: 2.00, 1: 2.02, 2: 1.99}, 2: {0: 2.50, 1: 2.52, 2: 2.49}}
    assert name_winner(losses, objective("loss", "minimize")).winner == 1
    assert name_winner(losses, objective("score")).winner == 2


def test_one_round_names_nobody() -> None:
    verdict = name_winner({1: {0: 5.0}, 2: {0: 9.0}}, UP)
    assert (verdict.winner, verdict.best, verdict.tied) == (None, 2, (1,))


def test_equal_metrics_tie_and_exactly_different_ones_do_not() -> None:
    assert name_winner({1: {0: 5.0, 1: 5.0}, 2: {0: 5.0, 1: 5.0}}, UP).winner is None
    assert name_winner({1: {0: 5.0, 1: 5.0}, 2: {0: 6.0, 1: 6.0}}, UP).winner == 2


def test_a_shared_drift_of_the_rounds_does_not_hide_a_difference() -> None:
    drifting = {1: {0: 100.0, 1: 150.0, 2: 80.0}, 2: {0: 110.0, 1: 166.0, 2: 88.0}}
    found = Rounds(drifting).difference(2, 1)
    assert found is not None and found.is_beyond_noise
    assert Rounds({1: {0: 1.0}, 2: {1: 1.0}}).difference(1, 2) is None


def test_more_repeats_are_needed_for_smaller_differences() -> None:
    assert repeats_needed(0.015, 0.10) == 2 or repeats_needed(0.015, 0.10) == 3
    assert repeats_needed(0.015, 0.01) > 10
    assert repeats_needed(0.015, 0.0) == 1000
