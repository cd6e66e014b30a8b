"""The ramp on servers of known capacity, with no server at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from trials.contract import TrialFailure
from trials.serving.capacity import Probe, Ramp, fell_behind
from trials.serving.exchange import Answer, Exchange, Prompt
from trials.serving.load_settings import CONCURRENCY, RATE, Find
from trials.serving.window import Served, Window

Judge = Callable[[float], tuple[bool, bool]]


def done(rate: float, seconds: float = 10.0) -> Window:
    count = round(rate * seconds)
    ones = [
        Served(Exchange(Prompt(), 0.0, 0.0), Answer(), (number + 1) * seconds / count)
        for number in range(count)
    ]
    return Window(0.0, seconds, ones, ones, is_open=True)


def ramp(judge: Judge, what: str = RATE, **find: float) -> Ramp:
    """``judge(level)`` says whether the level is met, and whether the server fell behind."""

    def probe(level: float) -> Probe:
        is_met, is_behind = judge(level)
        return Probe(level, () if is_met else ("latency_p90_ms 900 > 600",), is_behind, done(level))

    return Ramp(Find(what, **find), probe, lambda *_a, **_k: None)  # type: ignore[arg-type]


def test_the_edge_is_found_within_a_tenth_wherever_the_ramp_starts() -> None:
    for capacity in (0.7, 3.0, 11.0, 40.0):
        for start in (capacity / 9, capacity / 2, capacity * 1.5, capacity * 7):
            final, metric = ramp(lambda level, c=capacity: (level <= c, level > 1.5 * c), probes=12).run(
                start
            )  # type: ignore[misc]
            assert capacity / 1.12 <= final.level <= capacity, (capacity, start)
            assert metric.value == pytest.approx(final.level, rel=0.05)
            assert metric.high is not None
            assert metric.low is not None
            assert metric.low <= capacity <= metric.high * 1.02


def test_a_level_that_is_missed_while_the_server_keeps_up_does_not_end_the_ramp() -> None:
    """A batch that waits to fill up answers small loads late and large ones in time."""

    def batching(level: float) -> tuple[bool, bool]:
        return not (3 < level < 7) and level <= 30, level > 35

    final, _ = ramp(batching, probes=12).run(1.0)
    assert 24 <= final.level <= 30


def test_the_level_found_is_measured_again_and_a_lucky_one_is_not_believed() -> None:
    seen: list[float] = []

    def lucky_once_at_eight(level: float) -> tuple[bool, bool]:
        seen.append(level)
        return level <= 5 or (level == 8 and seen.count(8) == 1), level > 9

    final, _ = ramp(lucky_once_at_eight, probes=6).run(1.0)
    assert final.level == 4
    assert seen.count(8) == 2
    assert seen.count(4) == 2


def test_no_level_that_meets_is_a_typed_end_that_says_what_was_tried() -> None:
    with pytest.raises(
        TrialFailure, match="no level of request_rate_per_s meets the service level"
    ) as caught:
        ramp(lambda _: (False, False)).run(8.0)
    assert "8:" in caught.value.message


def test_concurrency_is_looked_for_in_whole_numbers_and_never_below_one() -> None:
    levels: list[float] = []

    def judge(level: float) -> tuple[bool, bool]:
        levels.append(level)
        return level <= 6, False

    final, _ = ramp(judge, CONCURRENCY, probes=8, high=64).run(1.0)
    assert final.level == 6
    assert all(level == int(level) >= 1 for level in levels)


def test_the_range_of_the_file_is_kept_and_a_whole_range_that_meets_says_so() -> None:
    levels: list[float] = []

    def judge(level: float) -> tuple[bool, bool]:
        levels.append(level)
        return True, False

    final, metric = ramp(judge, low=2.0, high=10.0).run(0.1)
    assert (min(levels), final.level) == (2.0, 10.0)
    assert "nothing above it was missed" in metric.method
    assert metric.high is None


def test_probes_are_never_more_than_allowed_beside_the_confirming_one() -> None:
    noise = Random(1)
    count = 0

    def judge(level: float) -> tuple[bool, bool]:
        nonlocal count
        count += 1
        return level < 10 * noise.uniform(0.9, 1.1), level > 15

    ramp(judge, probes=5).run(1.0)
    assert count <= 5 + 4


def test_falling_behind_is_completing_less_than_comes() -> None:
    window = done(10.0)
    assert not fell_behind(window, 10.0)
    window.in_time = window.in_time[:80]
    assert fell_behind(window, 10.0)
    assert not fell_behind(window, None)
