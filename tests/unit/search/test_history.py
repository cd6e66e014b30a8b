"""What models are told."""

from __future__ import annotations

import math

import numpy as np

from tests.contracts.sampler_suite import LOSS, THROUGHPUT
from trials.contract import FailureKind, Outcome
from tuner.search.history import history_of, imputed_losses, imputed_violations
from tuner.search.protocol import Observation


def complete(number: int, *values: float, violations: tuple[float, ...] = ()) -> Observation:
    return Observation(number, {"n": number}, Outcome.COMPLETE, values=values, violations=violations)


def failed(number: int) -> Observation:
    return Observation(number, {"n": number}, Outcome.FAILED, FailureKind.OUT_OF_MEMORY)


def test_losses_are_smaller_where_better_and_unknown_where_a_trial_failed() -> None:
    history = history_of([complete(0, 10.0, 2.0), failed(1)], (THROUGHPUT, LOSS))
    assert history.losses[0].tolist() == [-10.0, 2.0]
    assert np.isnan(history.losses[1]).all()
    assert history.is_failed.tolist() == [False, True]


def test_a_value_that_is_not_finite_counts_as_a_failure() -> None:
    history = history_of([complete(0, math.inf, 2.0), complete(1, math.nan, 1.0)], (THROUGHPUT, LOSS))
    assert history.is_failed.all()


def test_a_limit_that_is_unknown_is_not_met() -> None:
    told = [complete(0, 1.0, violations=(math.nan,)), complete(1, 1.0, violations=(-1.0,)), complete(2, 1.0)]
    assert history_of(told, (LOSS,)).is_feasible.tolist() == [False, True, False]


def test_the_front_leaves_out_what_breaks_a_limit() -> None:
    told = [
        complete(0, 1.0, violations=(1.0,)),
        complete(1, 2.0, violations=(0.0,)),
        complete(2, 3.0, violations=(0.0,)),
    ]
    assert history_of(told, (LOSS,)).front() == [1]


def test_a_window_keeps_the_front_and_the_newest() -> None:
    told = [complete(n, float(abs(n - 20)) + 1) for n in range(100)]
    kept = [config["n"] for config in history_of(told, (LOSS,)).windowed(20).configs]
    assert len(kept) == 20
    assert {18, 19, 20, 21, 22} <= set(kept)
    assert {97, 98, 99} <= set(kept)
    assert kept == sorted(kept)


def test_failures_are_worse_than_all_that_was_measured() -> None:
    filled = imputed_losses(
        history_of([complete(0, 5.0, 1.0), complete(1, 9.0, 3.0), failed(2)], (THROUGHPUT, LOSS))
    )
    assert np.isfinite(filled).all()
    assert (filled[2] > filled[:2].max(axis=0)).all()


def test_failures_alone_still_give_finite_numbers() -> None:
    history = history_of([failed(0), failed(1)], (THROUGHPUT, LOSS))
    assert np.isfinite(imputed_losses(history)).all()
    assert np.isfinite(imputed_violations(history)).all()


def test_violations_are_told_in_units_of_the_largest() -> None:
    told = [complete(0, 1.0, violations=(-4.0,)), complete(1, 1.0, violations=(2.0,)), failed(2)]
    told.append(complete(3, 1.0, violations=(math.inf,)))
    assert imputed_violations(history_of(told, (LOSS,)))[:, 0].tolist() == [-1.0, 0.5, 0.0, 1.0]


def test_a_trial_that_was_cut_short_has_not_failed_and_its_guesses_stand_for_its_values() -> None:
    cut = Observation(3, {"x": 3}, Outcome.PRUNED, partial=(50.0, 3.0), errors=(1.0, 0.1))
    history = history_of([complete(1, 100.0, 2.0, violations=(-1.0,)), cut], (THROUGHPUT, LOSS))
    assert history.is_failed.tolist() == [False, False]
    assert history.losses[1].tolist() == [-50.0, 3.0]
    assert np.isnan(history.violations[1]).all()
    assert history.is_feasible.tolist() == [True, False]
    assert history.front() == [0]
