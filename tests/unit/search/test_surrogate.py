"""The Gaussian process and the expected gain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tuner.pareto import hypervolume
from tuner.search import surrogate
from tuner.search.acquisition import expected_gain, probability_met
from tuner.search.belief import PLAIN, Scale

GROUP = np.array([0, 1, 2])


def data(n: int, seed: int = 0) -> tuple[surrogate.Floats, surrogate.Floats]:
    x = np.random.default_rng(seed).random((n, 3))
    return x, np.sin(4 * x[:, 0]) + x[:, 1]


def test_the_gradient_is_the_slope_of_the_posterior() -> None:
    x, y = data(12)
    known = np.linspace(0, 0.1, 12)
    apart = np.stack([surrogate._squared(x[:, [i]], x[:, [i]]) for i in range(3)])
    centre, spread = np.zeros(5), np.ones(5)
    theta = np.array([0.1, -0.3, 0.5, 0.2, -3.0])
    _, gradient = surrogate._negative_log_posterior(theta, apart, y, known, centre, spread)
    for i in range(5):
        step = np.zeros(5)
        step[i] = 1e-5
        up, down = (
            surrogate._negative_log_posterior(theta + s, apart, y, known, centre, spread)[0]
            for s in (step, -step)
        )
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-5)


def test_it_finds_out_which_parameters_matter_and_predicts_between() -> None:
    x, y = data(40)
    kernel = surrogate.fit(GROUP, x, y, np.zeros_like(y))
    assert kernel.length_scales[2] > 3 * kernel.length_scales[0]
    unseen, truth = data(200, seed=1)
    mean, std = surrogate.Process(kernel, GROUP, x, y, np.zeros_like(y)).predict(unseen)
    assert np.corrcoef(mean, truth)[0, 1] > 0.98
    assert (np.abs(mean - truth) < 4 * std + 0.05).mean() > 0.95


def test_constant_and_repeated_data_are_no_trouble() -> None:
    x = np.zeros((6, 3))
    for y in (np.ones(6), np.arange(6.0)):
        mean, std = surrogate.Process(
            surrogate.fit(GROUP, x, y, np.zeros_like(y)), GROUP, x, y, np.zeros_like(y)
        ).predict(np.ones((2, 3)))
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()


def test_believing_makes_surer_and_leaves_the_mean() -> None:
    x, y = data(10)
    process = surrogate.Process(surrogate.fit(GROUP, x, y, np.zeros_like(y)), GROUP, x, y, np.zeros_like(y))
    at = np.array([[0.5, 0.5, 0.5]])
    believing = process.believing(at)
    assert believing.predict(at)[1][0] < 0.5 * process.predict(at)[1][0]
    assert believing.mean(at)[0] == pytest.approx(process.mean(at)[0], abs=0.1)


def test_a_value_with_a_large_error_is_taken_for_luck_and_an_exact_one_as_it_is() -> None:
    x, y = data(30)
    y[3] -= 2.0
    for error, is_kept in ((0.0, True), (1.0, False)):
        errors = np.zeros(30)
        errors[3] = error
        process = surrogate.Process(surrogate.fit(GROUP, x, y, errors), GROUP, x, y, errors)
        believed = process.believed()
        assert (abs(believed[3] - y[3]) < 0.01) == is_kept
        assert np.delete(believed, 3) == pytest.approx(np.delete(y, 3))


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_gain_of_certain_points_is_in_the_order_of_the_exact_hypervolume(m: int) -> None:
    rng = np.random.default_rng(3)
    front, points, reference = rng.uniform(0.3, 0.8, (5, m)), rng.uniform(0.1, 1.1, (60, m)), np.ones(m)
    exact = np.array(
        [hypervolume(np.vstack([front, p]), reference) - hypervolume(front, reference) for p in points]
    )
    sure = np.full_like(points, 1e-9)
    gain = expected_gain(points, sure, [PLAIN] * m, front, reference, (2000, 32), rng)
    assert np.corrcoef(gain, exact)[0, 1] > 0.98
    assert (gain[exact == 0] < 1e-9).all()


def test_the_gain_of_one_objective_is_the_expected_improvement() -> None:
    means, stds, best = np.array([[0.4], [0.6], [1.0]]), np.array([[0.1], [0.2], [0.3]]), 0.5
    z = (best - means) / stds
    exact = ((best - means) * norm.cdf(z) + stds * norm.pdf(z))[:, 0]
    front, reference = np.array([[best]]), np.array([2.0])
    gain = expected_gain(means, stds, [PLAIN], front, reference, (1, 64), np.random.default_rng(0))
    assert gain / gain[0] == pytest.approx(exact / exact[0], rel=0.05)


def test_a_scale_changes_what_is_believed_and_not_what_is_gained() -> None:
    losses, stds = np.array([[2.0], [3.0], [4.0]]), np.full((3, 1), 1e-9)
    scale = Scale.of(np.array([1.0, 5.0, 100.0]))
    front, reference = np.array([[8.0]]), np.array([10.0])
    told = [
        expected_gain(m, stds, [s], front, reference, (1, 200), np.random.default_rng(0))
        for m, s in ((losses, PLAIN), (scale.apply(losses), scale))
    ]
    assert told[0] / told[0][0] == pytest.approx(told[1] / told[1][0], rel=0.03)


def test_the_most_hopeful_of_hopeless_candidates_is_still_found() -> None:
    means, stds = np.array([[9.0], [3.0], [6.0]]), np.full((3, 1), 0.1)
    gain = expected_gain(
        means, stds, [PLAIN], np.array([[1.0]]), np.array([10.0]), (1, 8), np.random.default_rng(0)
    )
    assert gain.argmax() == 1
    assert gain[1] > 0


def test_uncertainty_is_worth_something_where_the_mean_is_not() -> None:
    stds = np.array([[0.01], [1.0]])
    gain = expected_gain(
        np.ones((2, 1)), stds, [PLAIN], np.array([[0.5]]), np.array([2.0]), (1, 16), np.random.default_rng(0)
    )
    assert gain[1] > 10 * gain[0]


def test_the_probability_that_a_limit_is_met() -> None:
    assert probability_met(np.array([-3.0, 0.0, 3.0]), np.ones(3)) == pytest.approx(
        [0.99865, 0.5, 0.00135], abs=1e-4
    )
