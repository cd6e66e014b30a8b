"""Scales of losses, and when hyperparameters are fitted again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.search.belief import Scale, _fitted_length


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4).map(lambda v: round(v, 3)), min_size=1, max_size=20))
def test_a_scale_keeps_the_order_and_can_be_undone(values: list[float]) -> None:
    losses = np.array(values)
    scale = Scale.of(losses)
    scaled = scale.apply(losses)
    assert np.isfinite(scaled).all()
    assert (np.diff(scaled[np.argsort(losses)]) >= -1e-9).all()
    assert scale.invert(scaled) == pytest.approx(losses, rel=1e-6, abs=1e-6)


def test_a_throughput_over_decades_is_taken_by_its_logarithm() -> None:
    scaled = Scale.of(np.array([-1000.0, -100.0, -10.0])).apply(np.array([-1000.0, -100.0]))
    assert scaled[1] - scaled[0] == pytest.approx(np.log(10))


def test_a_very_bad_loss_does_not_flatten_the_good_ones() -> None:
    losses = np.array([1.0, 1.1, 1.2, 1.3, 1e6])
    scaled = Scale.of(losses).apply(losses)
    assert scaled[-1] - scaled[0] < 200 * (scaled[1] - scaled[0])


def test_fits_become_rarer_as_the_history_grows() -> None:
    steps = [
        len({_fitted_length(n) for n in span}) for span in (range(10, 20), range(100, 110), range(1000, 1010))
    ]
    assert steps[0] > 4
    assert steps[1] <= 2
    assert steps[2] <= 2
    assert all(_fitted_length(n) <= n for n in range(1, 500))
