"""When a search has had enough."""

import math
import random
from dataclasses import replace

from trials.contract import FailureKind, Measurement, Outcome
from trials.metrics import Direction
from tuner.loop.stopping import FailureStreak, GainWatch, TimeBudget
from tuner.objectives import Objective
from tuner.search.protocol import Observation

FAST = Objective("tokens_per_s", Direction.MAXIMIZE)
LOSS = Objective("val_loss_nats", Direction.MINIMIZE)


def crash(message: str, kind: FailureKind = FailureKind.CRASH) -> Measurement:
    return Measurement.failed(kind, message)


def seen(number: int, *values: float, violation: float = -1.0) -> Observation:
    return Observation(number, {"x": number}, Outcome.COMPLETE, values=values, violations=(violation,))


def test_equal_failures_in_a_row_fill_a_streak_and_name_the_first():
    streak = FailureStreak(3)
    for pid in (101, 202, 303):
        assert not streak.is_full
        streak.add(crash(f"unrecognized arguments: --batch (pid {pid})"))
    assert streak.is_full
    assert "3 equal failures in a row (crash)" in streak.explanation
    assert "pid 101" in streak.explanation


def test_a_success_or_another_cause_begins_a_streak_anew():
    streak = FailureStreak(2)
    streak.add(crash("no such flag"))
    streak.add(Measurement(outcome=Outcome.COMPLETE))
    streak.add(crash("no such flag"))
    streak.add(crash("no such file"))
    assert not streak.is_full


def test_a_cause_at_the_end_of_a_log_tells_failures_apart():
    streak = FailureStreak(2)
    for cause in ("no such file: a.txt", "no such module: b"):
        streak.add(crash(f"ended with exit status 1\n--- end of trial.log ---\n{'Traceback ' * 40}\n{cause}"))
    assert not streak.is_full


def test_a_region_that_runs_out_of_memory_never_stops_a_study():
    streak = FailureStreak(2)
    for _ in range(10):
        streak.add(crash("8 GiB asked", FailureKind.OUT_OF_MEMORY))
    assert not streak.is_full


def test_whole_measurements_of_mean_duration_fit_into_the_time_left():
    now = [0.0]
    budget = TimeBudget(100.0, lambda: now[0])
    assert budget.room == math.inf
    budget.add(8.0)
    budget.add(12.0)
    assert budget.room == 10
    now[0] = 45.0
    assert budget.room == 5
    now[0] = 101.0
    assert budget.is_over()
    assert budget.room < 0


def test_slots_side_by_side_make_room_only_for_whole_measurements():
    budget = TimeBudget(45.0, lambda: 0.0, at_once=2)
    budget.add(10.0)
    assert budget.room == 8


def test_time_spent_by_an_earlier_run_counts():
    budget = TimeBudget(100.0, lambda: 5.0, spent_s=90.0)
    assert budget.left_s == 10.0


def test_no_limit_never_ends():
    budget = TimeBudget(None, lambda: 1e12)
    budget.add(1e9)
    assert budget.room == math.inf
    assert not budget.is_over()


def test_the_search_ends_after_so_many_trials_without_gain():
    watch = GainWatch([FAST, LOSS], patience=3)
    watch.begin({"tokens_per_s": 0.0, "val_loss_nats": 4.0}, {})
    watch.add(seen(0, 100.0, 2.0))
    assert watch.hypervolume == 200.0
    watch.add(seen(1, 100.1, 2.0))  # within the noise: no gain
    watch.add(seen(2, 50.0, 3.0))
    assert watch.why_stop() is None
    watch.add(seen(3, 500.0, 1.0, violation=1.0))  # breaks a limit: no gain either
    assert watch.why_stop() == "no gain in the last 3 trials"


def test_a_gain_begins_the_wait_anew():
    watch = GainWatch([FAST, LOSS], patience=2)
    watch.begin({"tokens_per_s": 0.0, "val_loss_nats": 4.0}, {})
    for number in range(10):
        watch.add(seen(number, 100.0 * (number + 1), 2.0))
    assert watch.why_stop() is None


def watching(noise: dict[str, float], patience: int = 1) -> GainWatch:
    watch = GainWatch([FAST, LOSS], patience)
    watch.begin({"tokens_per_s": 0.0, "val_loss_nats": 4.0}, noise)
    watch.add(seen(0, 100.0, 2.0))
    return watch


def test_a_gain_counts_when_it_is_beyond_twice_the_noise_of_a_difference() -> None:
    def stops_after(gain: float) -> bool:
        watch = watching({"tokens_per_s": 0.03, "val_loss_nats": 0.0, "peak_memory_gib": 0.5})
        watch.add(seen(1, 100.0 * (1 + gain), 2.0))
        return watch.why_stop() is not None

    assert stops_after(0.08)
    assert not stops_after(0.10)


def test_the_error_that_an_observation_knows_counts_before_the_noise_of_the_baseline() -> None:
    def stops_after(error: float | None) -> bool:
        watch = watching({"tokens_per_s": 0.03})
        watch.add(replace(seen(1, 110.0, 2.0), errors=(error, 0.0)))
        return watch.why_stop() is not None

    assert not stops_after(None)
    assert not stops_after(1.0)
    assert stops_after(8.0)


def test_small_steps_that_together_leave_the_noise_are_a_gain() -> None:
    watch = watching({"tokens_per_s": 0.02}, patience=4)
    for number, speed in enumerate((102.0, 103.0, 105.0), start=1):
        watch.add(seen(number, speed, 2.0))
    watch.add(seen(4, 107.0, 2.0))
    assert watch.why_stop() is None, "7% are beyond 2.8 times 2%"
    for number in range(5, 9):
        watch.add(seen(number, 108.0, 2.0))
    assert watch.why_stop() == "no gain in the last 4 trials"


def test_equal_trials_end_a_search_in_nearly_every_study() -> None:
    """Luck alone: 5% of noise on both objectives, and the first twelve trials without gain end the search."""
    chance, ended = random.Random(7), 0
    for _ in range(200):
        watch = watching({"tokens_per_s": 0.05, "val_loss_nats": 0.05}, patience=12)
        for number in range(1, 13):
            watch.add(seen(number, 100 * 1.05 ** chance.gauss(0, 1), 2 * 1.05 ** chance.gauss(0, 1)))
        ended += watch.why_stop() is not None
    assert ended >= 180


def test_a_baseline_that_breaks_a_limit_is_not_a_trial_without_gain():
    watch = GainWatch([FAST, LOSS], patience=1)
    watch.begin({"tokens_per_s": 0.0, "val_loss_nats": 4.0}, {})
    watch.add(seen(0, 100.0, 2.0, violation=1.0))
    assert watch.why_stop() is None
