"""Where a training stops the clock to say how it goes, and what it says then.

The clock stands while the trial reports, as it does for the final evaluation. The first steps after that are
trained and not timed: caches are cold, and the loader's queue is fuller than in a run without a stop. A stop is
made only where enough of the run is left for it to be worth the while.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from trials.contract import MetricValue, TrialFailure
from trials.measurement.steady import BLOCK_STEPS, MIN_WARMUP_STEPS
from trials.metrics import Key
from trials.training.report import Window

WORTH_S = 10.0
"""Seconds of training that must be left: cutting less short saves nothing."""
QUALITY_SHARE = 4
"""A fourth of the held-out samples is looked at on the way."""
FEWEST_EXAMPLES = 64
COSTLY_SHARE = 0.2
"""Of the training time so far: a look at the quality that took more is not repeated."""
STEADY_KEYS = (Key.SAMPLES_PER_S, Key.TOKENS_PER_S, Key.TOKENS_PER_S_PER_GPU, Key.STEP_TIME_P50_MS)
"""What a shorter window gives as well as the whole one; a far percentile is not among it."""


def stops(fractions: Sequence[float], first: int, last: int, untimed: int) -> list[tuple[float, int]]:
    """The fractions with the step before which each is reported, where enough steps are left to be timed.

    ``first`` to ``last`` are the timed steps; a window needs the same number before and after a stop.
    """
    least = MIN_WARMUP_STEPS + 4 * BLOCK_STEPS
    placed = [(fraction, math.ceil(fraction * last)) for fraction in fractions]
    return [(f, step) for f, step in placed if first + least <= step <= last - untimed - least]


def untimed_steps(workers: int, prefetch_factor: int, accumulation: int) -> int:
    """Steps after a stop until the batches that the loader fetched meanwhile are used up, at least a warm-up."""
    return max(MIN_WARMUP_STEPS, math.ceil(workers * prefetch_factor / accumulation))


def is_worth_it(elapsed_s: float, done: int, left: int) -> bool:
    """Whether ``left`` steps, at the pace of those ``done``, take long enough to be cut short."""
    return done > 0 and elapsed_s / done * left >= WORTH_S


def is_cheap(last_s: float, trained_s: float) -> bool:
    """Whether another look at the quality, which took ``last_s`` before, is small beside the training so far."""
    return last_s <= COSTLY_SHARE * trained_s


def steady_speed(speed: Mapping[str, MetricValue], window: Window) -> dict[str, MetricValue]:
    """The speeds that are final but for noise; none while the step time still trends."""
    return {key: speed[key] for key in STEADY_KEYS if key in speed} if window.is_steady else {}


def examples_on_the_way(available: int) -> int:
    """How many held-out samples a report looks at."""
    return min(available, max(FEWEST_EXAMPLES, available // QUALITY_SHARE))


@contextmanager
def random_numbers_kept(device_type: str) -> Iterator[None]:
    """Whatever draws random numbers inside, the training goes on as if it had not."""
    states: tuple[Any, Any] = random.getstate(), None
    if "numpy" in sys.modules:
        states = states[0], sys.modules["numpy"].random.get_state()
    devices = range(torch.cuda.device_count()) if device_type == "cuda" else ()
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(states[0])
        if states[1] is not None:
            sys.modules["numpy"].random.set_state(states[1])


def quality_or_nothing(found: Any) -> dict[str, MetricValue]:
    """The qualities that ``found`` gives when called; none where they are not finite yet."""
    try:
        return dict(found())
    except TrialFailure:
        return {}
