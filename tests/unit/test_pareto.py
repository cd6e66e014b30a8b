from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna._hypervolume import compute_hypervolume

from tests.builders import objective
from tuner.pareto import (
    FrontTracker,
    copies,
    dominates,
    front_indices,
    hypervolume,
    hypervolume_history,
    knee_order,
    reference_point,
)

grids = st.integers(1, 4).flatmap(
    lambda m: st.lists(st.tuples(*[st.integers(0, 4)] * m), min_size=1, max_size=14)
)


def test_a_tie_on_one_objective_keeps_no_dominated_point() -> None:
    assert front_indices([[-100, -10], [-100, -5]]) == [0]


def test_exact_copies_of_a_front_point_are_all_kept_in_one_group() -> None:
    losses = np.array([[1, 2], [2, 1], [1, 2], [3, 3]])
    assert front_indices(losses) == [0, 1, 2]
    assert copies(losses) == [(0, 2), (1,), (3,)]


def test_an_unconfirmed_point_never_pushes_out_a_confirmed_one() -> None:
    losses = np.array([[1, 1], [2, 2], [3, 3], [2.5, 2.5]])
    assert front_indices(losses) == [0]
    assert front_indices(losses, confirmed=[False, True, True, False]) == [0, 1]


def test_a_confirmed_point_pushes_out_an_unconfirmed_one() -> None:
    assert front_indices([[1, 1], [2, 2]], confirmed=[True, False]) == [0]


def test_the_front_of_nothing_is_empty() -> None:
    assert front_indices([]) == []


@given(grids)
def test_the_front_is_what_pairwise_dominance_leaves(losses: list[tuple[int, ...]]) -> None:
    left = [i for i, a in enumerate(losses) if not any(dominates(b, a) for b in losses)]
    assert front_indices(losses) == left


@settings(deadline=None)
@given(grids)
def test_hypervolume_agrees_with_optuna_and_grows_to_it_point_by_point(losses: list[tuple[int, ...]]) -> None:
    reference = [3.5] * len(losses[0])
    history = hypervolume_history(losses, reference)
    for count in range(1, len(losses) + 1):
        inside = np.array([p for p in losses[:count] if all(x < 3.5 for x in p)], dtype=float)
        expected = compute_hypervolume(inside, np.array(reference)) if len(inside) else 0.0
        assert hypervolume(losses[:count], reference) == pytest.approx(expected)
        assert history[count - 1] == pytest.approx(expected)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_hypervolume_is_the_share_of_random_points_that_the_front_dominates(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    points = rng.random((12, dimensions))
    thrown = rng.random((100_000, dimensions))
    covered = np.zeros(len(thrown), dtype=bool)
    for point in points:
        covered |= (point <= thrown).all(axis=1)
    assert hypervolume(points, [1.0] * dimensions) == pytest.approx(covered.mean(), abs=0.006)


def test_a_point_beyond_the_reference_adds_nothing() -> None:
    tracker = FrontTracker([10.0, 10.0])
    assert tracker.add([5, 5]) == 25
    assert tracker.add([1, 11]) == 25
    assert tracker.add([10, 1]) == 25


def test_a_trial_without_values_leaves_the_hypervolume_as_it_was() -> None:
    assert hypervolume_history([(5.0,), None, (4.0,)], [10.0]) == [5, 5, 6]


def test_the_reference_is_the_baseline_made_worse_by_its_own_magnitude() -> None:
    objectives = [
        objective("up"),
        objective("down", "minimize"),
        objective("negative"),
        objective("zero", "minimize"),
    ]
    point = reference_point({"up": 50, "down": 2, "negative": -3, "zero": 0}, objectives)
    assert point == {"up": 0, "down": 4, "negative": -6, "zero": 1}


def test_the_baseline_itself_always_adds_hypervolume() -> None:
    objectives = [objective("a"), objective("b", "minimize")]
    for values in ({"a": 5.0, "b": 0.0}, {"a": -5.0, "b": -2.0}, {"a": 0.0, "b": 1e-9}):
        point = reference_point(values, objectives)
        corner = [o.loss(point[o.metric]) for o in objectives]
        assert hypervolume([[o.loss(values[o.metric]) for o in objectives]], corner) > 0


def test_a_baseline_without_a_finite_objective_gives_no_reference() -> None:
    with pytest.raises(ValueError, match="no finite up"):
        reference_point({"up": float("nan")}, [objective("up")])


def best(losses: list[list[float]], resolution: list[float] | None = None) -> int:
    scores = knee_order(losses, resolution)
    return scores.index(min(scores))


def test_the_knee_is_where_the_front_bends() -> None:
    assert best([[0, 10], [1, 1], [10, 0]]) == 1


def test_the_knee_of_one_point_and_of_one_objective_is_the_best() -> None:
    assert best([[3, 4]]) == 0
    assert best([[3], [2], [5]]) == 1


def test_of_two_points_the_one_that_gives_up_less_is_the_knee() -> None:
    """Seven times the throughput for a thousandth of the loss: scaled by the span both are as far."""
    assert best([[-1000, 2.300], [-7000, 2.302]]) == 1
    assert best([[-1000, 2.300], [-1010, 4.000]]) == 0


def test_an_axis_that_only_shows_noise_does_not_decide_the_knee() -> None:
    losses = [[-100.0, 2.3000], [-160.0, 2.3004], [-200.0, 2.3010]]
    assert best(losses) == 1
    assert best(losses, resolution=[1.0, 0.02]) == 2


def test_the_knee_scores_four_objectives() -> None:
    assert best([[0, 9, 9, 9], [9, 0, 9, 9], [1, 1, 1, 1], [9, 9, 9, 0], [9, 9, 0, 9]]) == 2
