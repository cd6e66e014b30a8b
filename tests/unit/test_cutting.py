"""When a trial cannot reach the front any more, and when that cannot be said yet."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from trials.contract import EVENTS_FILE, MetricValue, Purpose, TrialSpec
from trials.metrics import Direction
from trials.stages import STAGE, Stage
from tuner.comparison import Spread
from tuner.execution.cut import CUT_FILE
from tuner.loop.cutter import Cutter
from tuner.loop.cutting import Finished, Guess, Partial, should_cut
from tuner.objectives import Bound, Objective
from tuner.search.protocol import Expected

FAST, GOOD = Objective("samples_per_s", Direction.MAXIMIZE), Objective("accuracy", Direction.MAXIMIZE)
BOTH = (FAST, GOOD)


def fast(value: float, noise: float | None = 0.01, degrees: float = 2) -> Guess:
    return Guess(value, None if noise is None else value * noise, degrees)


def good(value: float) -> Guess:
    return Guess(value, 0.001, 20)


def finished(
    number: int, speed: float, accuracy: float, early: float | None = None, **more: bool
) -> Finished:
    reported = {} if early is None else {0.1: {"accuracy": early}}
    values = {"samples_per_s": fast(speed), "accuracy": good(accuracy)}
    return Finished(number, values, more.get("is_feasible", True), reported)


def a_dozen(spread: float = 0.01) -> list[Finished]:
    """Equally fast, an accuracy of 0.6 with some spread; a tenth of the way 0.2 less."""
    chance = random.Random(0)
    found = []
    for number in range(12):
        accuracy = 0.6 + spread * chance.gauss(0, 1)
        found.append(finished(number, 100, accuracy, accuracy - 0.2 + 0.005 * chance.gauss(0, 1)))
    return found


STAR = finished(99, 1000, 0.9, 0.7)
"""Ten times as fast as the others, and far better."""


def test_a_trial_at_40_percent_of_the_speed_of_the_best_of_all_is_cut_where_that_quality_is_out_of_reach() -> (
    None
):
    seen = [*a_dozen(), STAR]
    slow = Partial(0.1, {"samples_per_s": fast(400)}, {})
    like_the_others = {"accuracy": Expected(0.6, 0.58, 0.62)}
    why = should_cut(seen, slow, BOTH, expected=like_the_others)
    assert (
        why == "samples_per_s 400, 10% of the run done: beaten by trial 99 (samples_per_s 1000, accuracy 0.9)"
    )
    assert should_cut(seen, slow, BOTH, expected={"accuracy": Expected(0.85, 0.8, 0.9)}) is None
    assert should_cut(seen[-4:], slow, BOTH, expected=like_the_others) is None, "a model of four trials"
    assert should_cut(seen, slow, BOTH) is None, "without a model, one so good shows that it can be done"


def test_without_a_model_the_spread_of_what_was_seen_decides() -> None:
    slow = Partial(0.1, {"samples_per_s": fast(400)}, {})

    def seen(step: float) -> list[Finished]:
        """Sixty that differ by a few steps, and a fast one ten steps above them."""
        others = [finished(number, 100, 0.6 + step * (number % 5 - 2)) for number in range(60)]
        return [*others, finished(60, 1000, 0.6 + 12 * step)]

    assert should_cut(seen(0.002), slow, BOTH) is not None
    assert should_cut(seen(0.002)[-7:], slow, BOTH) is None, "too few to show a spread"
    assert should_cut([*seen(0.002), finished(61, 10, 0.7)], slow, BOTH) is None, "others were better still"


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
def test_a_value_within_the_noise_of_a_front_member_is_never_cut(noise: float) -> None:
    seen = [*a_dozen(spread=0.001), finished(50, 1000, 0.62)]
    near = Partial(0.1, {"samples_per_s": fast(1000 * (1 - noise), max(noise, 0.01))}, {"accuracy": 0.1})
    assert should_cut(seen, near, BOTH) is None


def test_without_knowing_the_noise_nothing_is_concluded() -> None:
    seen = [*a_dozen(), STAR]
    assert (
        should_cut(seen, Partial(0.1, {"samples_per_s": fast(1, noise=None)}, {"accuracy": 0.1}), BOTH)
        is None
    )
    unsure = Finished(99, {"samples_per_s": fast(1000, noise=None), "accuracy": good(0.9)}, True)
    assert should_cut([*a_dozen(), unsure], Partial(0.1, {"samples_per_s": fast(400)}, {}), BOTH) is None


def test_few_repeats_of_the_baseline_ask_for_more_distance_than_many() -> None:
    seen = [*a_dozen(), STAR]

    def cut_at(share: float, degrees: float) -> bool:
        partial = Partial(0.1, {"samples_per_s": fast(1000 * share, 0.02, degrees)}, {"accuracy": 0.4})
        rivals = [*seen[:-1], Finished(99, {**STAR.values, "samples_per_s": fast(1000, 0.02, degrees)}, True)]
        return should_cut(rivals, partial, BOTH) is not None

    assert not cut_at(0.8, degrees=2)
    assert cut_at(0.8, degrees=30)
    assert cut_at(0.3, degrees=2)


def test_an_early_quality_is_carried_to_the_end_by_what_others_gained_from_there() -> None:
    seen = [*a_dozen(), STAR]
    slow = {"samples_per_s": fast(400)}
    assert should_cut(seen, Partial(0.1, slow, {"accuracy": 0.4}), BOTH) is not None
    assert should_cut(seen, Partial(0.1, slow, {"accuracy": 0.7}), BOTH) is None
    assert should_cut(seen, Partial(0.3, slow, {"accuracy": 0.4}), BOTH) is None, "nobody reported there"
    assert should_cut(seen[-4:], Partial(0.1, slow, {"accuracy": 0.4}), BOTH) is None, "too few to tell"


def test_a_rival_that_breaks_a_limit_beats_nobody() -> None:
    barred = finished(99, 1000, 0.9, 0.7, is_feasible=False)
    assert (
        should_cut([*a_dozen(), barred], Partial(0.1, {"samples_per_s": fast(400)}, {"accuracy": 0.4}), BOTH)
        is None
    )


def test_a_limit_that_is_surely_broken_cuts_whatever_the_front_is() -> None:
    limit = Bound("samples_per_s", is_upper=False, value=500.0, formula="samples_per_s >= 500")
    partial = Partial(0.1, {"samples_per_s": fast(100)}, {})
    assert (
        should_cut([], partial, BOTH, (limit,))
        == "samples_per_s 100, 10% of the run done: breaks the limit samples_per_s >= 500"
    )
    assert should_cut([], Partial(0.1, {"samples_per_s": fast(490)}, {}), BOTH, (limit,)) is None
    assert should_cut([], Partial(0.1, {}, {"samples_per_s": 100.0}), BOTH, (limit,)) is None, "not steady"


def test_a_single_objective_is_cut_by_its_early_value_alone() -> None:
    seen = [*a_dozen(), STAR]
    assert should_cut(seen, Partial(0.1, {}, {"accuracy": 0.4}), (GOOD,)) is not None
    assert should_cut(seen, Partial(0.1, {}, {"accuracy": 0.71}), (GOOD,)) is None


def test_a_loss_is_carried_as_a_ratio() -> None:
    loss = Objective("val_loss_nats", Direction.MINIMIZE)
    seen = [
        Finished(
            n, {"val_loss_nats": Guess(0.1 * 2**n, 0.001, 9)}, True, {0.1: {"val_loss_nats": 0.2 * 2**n}}
        )
        for n in range(8)
    ]
    assert should_cut(seen, Partial(0.1, {}, {"val_loss_nats": 4.0}), (loss,)) is not None
    assert should_cut(seen, Partial(0.1, {}, {"val_loss_nats": 0.19}), (loss,)) is None


def test_of_equal_trials_no_more_than_one_in_a_thousand_is_cut() -> None:
    """All alike, with 5% of noise and three repeats of the baseline: what is cut is cut by luck alone."""
    chance, cut, asked = random.Random(4), 0, 0
    for _ in range(20):
        sd = (
            0.05 * (chance.gauss(0, 1) ** 2 / 2 + chance.gauss(0, 1) ** 2 / 2) ** 0.5
        )  # as three repeats find it
        seen: list[Finished] = []
        for number in range(40):
            speed, early = 100 * 1.05 ** chance.gauss(0, 1), 0.5 * 1.05 ** chance.gauss(0, 1)
            final = early * 1.4 * 1.05 ** chance.gauss(0, 1)
            asked += 1
            partial = Partial(0.1, {"samples_per_s": fast(speed, sd)}, {"accuracy": early})
            if should_cut(seen, partial, BOTH) is not None:
                cut += 1
                continue
            values = {"samples_per_s": fast(speed, sd), "accuracy": Guess(final, final * sd, 2)}
            seen.append(Finished(number, values, True, {0.1: {"accuracy": early}}))
    assert cut <= 0.002 * asked


@pytest.mark.parametrize("sentinel", [-1e16, -1e18, -1e30, -1.7e308])
def test_an_early_value_that_stands_for_nothing_yet_cuts_nobody(sentinel: float) -> None:
    seen = [finished(number, 100, 0.6 + 0.02 * number, sentinel) for number in range(12)]
    nothing_yet = Partial(0.1, {}, {"accuracy": sentinel})
    assert should_cut(seen, nothing_yet, (GOOD,)) is None


def test_a_few_pairs_that_agree_to_the_last_digit_are_no_certainty() -> None:
    """Six trials whose early value was their end: the seventh may still gain, by less the more agreed."""

    def cuts(value: float, n: int) -> bool:
        ends = [0.5 + 0.05 * (number % 6) for number in range(n)]
        sure = [
            Finished(number, {"accuracy": Guess(end, 0.0, 5)}, True, {0.1: {"accuracy": end}})
            for number, end in enumerate(ends)
        ]
        return should_cut(sure, Partial(0.1, {}, {"accuracy": value}), (GOOD,)) is not None

    assert not cuts(0.7, 6)
    assert cuts(0.7, 24)
    assert cuts(0.3, 6)


def test_pairs_that_all_ended_alike_conclude_nothing() -> None:
    alike = [
        Finished(number, {"accuracy": Guess(0.5, 0.0, 5)}, True, {0.1: {"accuracy": 0.25}})
        for number in range(6)
    ]
    assert should_cut(alike, Partial(0.1, {}, {"accuracy": 0.1}), (GOOD,)) is None


@pytest.mark.parametrize(("noise", "is_cut"), [(0.1, False), (0.001, True)])
def test_gains_that_agree_by_luck_are_believed_to_no_more_than_the_noise_of_an_end(
    noise: float, is_cut: bool
) -> None:
    seen = [
        Finished(number, {"accuracy": Guess(end, noise, 5)}, True, {0.1: {"accuracy": end / 2}})
        for number, end in enumerate((0.5, 0.501, 0.502, 0.503, 0.504, 0.6))
    ]
    low = Partial(0.1, {}, {"accuracy": 0.2})
    assert (should_cut(seen, low, (GOOD,)) is not None) is is_cut


@pytest.mark.parametrize(("sd", "is_cut"), [(0.0, False), (1.0, True)])
def test_repeats_of_the_baseline_that_agree_to_the_last_digit_leave_the_noise_unknown(
    tmp_path: Path, sd: float, is_cut: bool
) -> None:
    speed = "samples_per_s"
    cutter = Cutter((FAST,), clock=lambda: 1.0)
    cutter.begin([Bound(speed, is_upper=False, value=99.0, formula="")], {speed: Spread(sd, 100.0, 2)})
    stage = Stage(0.1, {speed: MetricValue(50.0, "1/s")}, steady=(speed,)).as_event()
    (tmp_path / EVENTS_FILE).write_text(json.dumps({"event": STAGE, **stage}) + "\n")
    spec = TrialSpec("s", 1, "m", Purpose.SEARCH, {}, {}, 0, tmp_path, tmp_path, report_at=(0.1,))
    cutter.started(spec, None)
    cutter.look()
    assert (tmp_path / CUT_FILE).exists() is is_cut
