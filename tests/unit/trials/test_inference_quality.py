"""Recovery on the same examples: what it claims holds, and what so few examples cannot decide is said."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.builders import limit, measurement
from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.inference import quality
from trials.measurement.statistics import SAME_EXAMPLES, examples_to_decide, recovery
from tuner.comparison import LimitStatus, limit_status, pool, pool_values


def answers(n, right, lost, gained, seed=0):
    """Reference and candidate as 0/1 answers: ``right`` of the reference's, of which some are lost, others gained."""
    chance = random.Random(seed)
    theirs = [chance.random() < right for _ in range(n)]
    ours = [chance.random() >= lost if it else chance.random() < gained for it in theirs]
    return [float(a) for a in ours], [float(b) for b in theirs]


def test_the_interval_of_a_recovery_holds_the_truth_about_95_times_in_100():
    true = 100 * (0.6 * 0.97 + 0.4 * 0.02) / 0.6
    found = [recovery(*answers(600, 0.6, 0.03, 0.02, seed)) for seed in range(400)]
    share = sum(one.low <= true <= one.high for one in found) / len(found)
    assert 0.92 < share <= 0.99


def test_pairing_decides_what_two_separate_shares_cannot():
    ours, theirs = answers(2000, 0.6, 0.005, 0.005)
    paired = recovery(ours, theirs)
    alone = 100 * 1.96 * (0.6 * 0.4 / 2000) ** 0.5 * 2**0.5 / 0.6
    assert paired.high - paired.value < alone / 4


def test_the_same_answers_leave_an_interval_that_shrinks_with_their_number():
    few, many = (recovery([1.0, 0.0] * half, [1.0, 0.0] * half) for half in (50, 5000))
    assert few.value == many.value == 100
    assert few.low < 97 and many.low > 99.9


@pytest.mark.parametrize("loss", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("level", [0.4, 1.0])
def test_so_many_examples_decide_a_limit_and_one_less_does_not(loss, level):
    needed = examples_to_decide(loss, level=level)
    rights = [1.0] * round(level * needed) + [0.0] * (needed - round(level * needed))
    reach = 100 - recovery(rights, rights).low
    assert reach == pytest.approx(100 * loss, rel=0.02)
    assert examples_to_decide(loss, changed=0.02, level=level) > needed


def test_repeats_on_the_same_examples_do_not_narrow_a_recovery():
    one = MetricValue(99.5, "%", 1000, 99.0, 100.0, flags=(SAME_EXAMPLES,))
    pooled = pool_values([one] * 4, n_seeds=4)
    assert (pooled.low, pooled.high) == pytest.approx((99.0, 100.0), abs=0.01)
    narrowed = pool_values([MetricValue(99.5, "%", 1000, 99.0, 100.0)] * 4, n_seeds=4)
    assert narrowed.high - narrowed.low < 0.6


def test_a_limit_within_the_interval_of_examples_stays_undecided_however_often_it_is_measured():
    runs = [measurement({"accuracy_recovery_pct": 99.5}, seed=seed) for seed in range(5)]
    for run in runs:
        run.metrics["accuracy_recovery_pct"] = MetricValue(
            99.5, "%", 500, 98.7, 100.3, flags=(SAME_EXAMPLES,)
        )
    bound = limit("accuracy_recovery_pct", "min", 99).freeze(None)
    assert limit_status(bound, pool(runs, "accuracy_recovery_pct")) is LimitStatus.UNDECIDED


def test_too_few_examples_are_told_with_how_many_it_would_take():
    bound = limit("accuracy_recovery_pct", "min", 99)
    said = bound.undecidable(100)
    assert "100 examples cannot decide it" in said and "at least 278" in said
    assert bound.undecidable(278) is None
    assert bound.undecidable(278, level=0.5) is not None
    assert "allow a little" in limit("accuracy_recovery_pct", "min", 100).undecidable(10**6)
    assert limit("accuracy", "min", 0.9).undecidable(1) is None


class Task:
    def score(self, outputs):
        return {"accuracy": outputs["right"]}


class Loss:
    def score(self, outputs):
        return {"val_loss_nats": outputs["right"], "f1": outputs["right"]}


def test_scores_are_one_finite_number_per_example():
    assert quality.scores_of(Task(), {"right": np.ones(3)}, 3)["accuracy"].tolist() == [1, 1, 1]
    with pytest.raises(TrialFailure, match=r"Task.score returned shape \(2,\) for accuracy"):
        quality.scores_of(Task(), {"right": np.ones(2)}, 3)
    with pytest.raises(TrialFailure) as failure:
        quality.scores_of(Task(), {"right": np.array([1, np.nan, 1])}, 3)
    assert failure.value.kind is FailureKind.NON_FINITE


def test_a_recovery_is_given_of_what_is_better_when_larger():
    scores = quality.scores_of(Loss(), {"right": np.array([1.0, 0.0])}, 2)
    assert set(quality.recoveries(scores, scores)) == {"f1_recovery_pct"}
    nothing = {"f1": np.zeros(2)}
    assert quality.recoveries(nothing, nothing) == {}


def test_agreement_counts_equal_answers_right_or_wrong():
    logits = np.eye(4)[[0, 1, 2, 3]]
    other = np.eye(4)[[0, 1, 2, 2]]
    found = quality.agreement(Task(), {"logits": other}, {"logits": logits})
    assert found.value == 75 and found.low < 75 < found.high
