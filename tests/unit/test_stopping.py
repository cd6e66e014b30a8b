"""When a search has had enough."""

from trials.contract import FailureKind, Measurement, Outcome
from trials.metrics import Direction
from tuner.objectives import Objective
from tuner.search.protocol import Observation
from tuner.stopping import FailureStreak, GainWatch, TimeBudget

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


def test_a_region_that_runs_out_of_memory_never_stops_a_study():
    streak = FailureStreak(2)
    for _ in range(10):
        streak.add(crash("8 GiB asked", FailureKind.OUT_OF_MEMORY))
    assert not streak.is_full


def test_time_is_kept_back_for_measurements_to_come():
    now = [0.0]
    budget = TimeBudget(100.0, lambda: now[0])
    assert budget.allows(10)
    budget.add(10.0)
    assert budget.allows(8)
    assert not budget.allows(10)
    now[0] = 101.0
    assert budget.is_over()


def test_time_spent_by_an_earlier_run_counts():
    budget = TimeBudget(100.0, lambda: 5.0, spent_s=90.0)
    assert budget.left_s == 10.0


def test_no_limit_never_ends():
    budget = TimeBudget(None, lambda: 1e12)
    budget.add(1e9)
    assert budget.allows(10**6)
    assert not budget.is_over()


def test_the_search_ends_after_so_many_trials_without_gain():
    watch = GainWatch([FAST, LOSS], patience=3)
    watch.begin({"tokens_per_s": 0.0, "val_loss_nats": 4.0})
    watch.add(seen(0, 100.0, 2.0))
    assert watch.hypervolume == 200.0
    watch.add(seen(1, 100.1, 2.0))  # within the noise: no gain
    watch.add(seen(2, 50.0, 3.0))
    assert watch.why_stop() is None
    watch.add(seen(3, 500.0, 1.0, violation=1.0))  # breaks a limit: no gain either
    assert watch.why_stop() == "no gain in the last 3 trials"


def test_a_gain_begins_the_wait_anew():
    watch = GainWatch([FAST, LOSS], patience=2)
    watch.begin({"tokens_per_s": 0.0, "val_loss_nats": 4.0})
    for number in range(10):
        watch.add(seen(number, 100.0 * (number + 1), 2.0))
    assert watch.why_stop() is None
