"""Values, order and neighbours of one parameter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.sampler_suite import choices, parameter, space
from tuner.search.axes import Axis, axes_of
from tuner.space.domains import Choices, Range


def axis(domain: Choices | Range) -> Axis:
    return axes_of(space([parameter("p", domain)]))[0]


def test_equal_looking_choices_have_places_of_their_own() -> None:
    mixed = axis(choices(1, 1.0, True, None, "1", [1], {"a": 1}))
    assert [mixed.index_of(v) for v in (1, 1.0, True, None, "1", [1], {"a": 1})] == list(range(7))
    assert not mixed.holds(0)
    assert not mixed.is_ordered


def test_choices_among_numbers_are_ordered_whatever_the_order_of_the_file() -> None:
    numbers = axis(choices(32, 8, 16))
    assert numbers.is_ordered
    assert [numbers.coordinate(v) for v in (8, 16, 32)] == [0.0, 0.5, 1.0]
    assert numbers.neighbours(16, np.random.default_rng(0)) == [8, 32]


def test_switches_are_not_numbers() -> None:
    assert not axis(choices(False, True, 3)).is_ordered


def test_powers_of_two_are_evenly_spaced() -> None:
    powers = axis(Range(4, 64, None, "log2", True))
    assert [powers.coordinate(v) for v in (4, 8, 16, 32, 64)] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert powers.value_at(0.49) == 16


def test_neighbours_of_a_choice_are_all_the_others() -> None:
    assert axis(choices("a", "b", "c")).neighbours("b", np.random.default_rng(0)) == ["a", "c"]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [
            Range(1e-4, 1e-2, None, "log", False),
            Range(-3.0, 5.0, None, "linear", False),
            Range(1, 10_000_000, None, "log", True),
            Range(3, 1_000_003, 2, "linear", True),
            Range(0.1, 0.7, 0.1, "linear", False),
            Range(8, 512, None, "log", True),
        ]
    ),
    st.floats(0, 1),
    st.integers(0, 2**31),
)
def test_whatever_is_drawn_or_placed_lies_in_the_range(domain: Range, at: float, seed: int) -> None:
    drawn_from = axis(domain)
    rng = np.random.default_rng(seed)
    drawn = drawn_from.draw(rng)
    for value in [drawn, drawn_from.value_at(at), *drawn_from.neighbours(drawn, rng)]:
        assert domain.contains(value)
    assert 0 <= drawn_from.coordinate(drawn) <= 1
