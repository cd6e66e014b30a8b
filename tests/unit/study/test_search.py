"""The search: what is tried, in which order, and when it is enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.study.bench import (
    FAST,
    LOSS,
    MEMORY,
    Bench,
    contaminated,
    failed,
    failure_of,
    gave,
    limit,
    line,
    on_line,
    study_file,
)
from trials.contract import FailureKind, Outcome, Purpose
from tuner.execution.protocol import Signal
from tuner.space.model import ConfirmSettings


def on_search(spec, nth, what):
    """The line for the baseline, ``what`` for everything else."""
    return on_line(spec, nth) if spec.trial_number == 0 else what


def test_the_budget_counts_configurations_and_nothing_else(bench: Bench) -> None:
    file = study_file(trials=4, confirm=ConfirmSettings(finalists=2, repeats=2, baseline_repeats=3))

    def one_killed(spec, nth):
        return failed("killed") if (spec.trial_number, nth) == (2, 1) else on_line(spec, nth)

    ending, executor = bench.run(file, one_killed)
    assert ending.stopped_because == "budget of 4 trials is spent"
    assert len(bench.xs()) == 4
    assert executor.purposes().count("search") == 3
    assert executor.purposes().count("retry") == 1
    assert executor.purposes().count("confirm") == 6


def test_a_budget_of_one_trial_measures_the_baseline_alone(bench: Bench) -> None:
    _, executor = bench.run(study_file(trials=1))
    assert set(executor.purposes()) == {"baseline"}


def test_wishes_come_first_in_their_order_and_what_is_known_is_not_run_again(bench: Bench) -> None:
    file = study_file(x=5, trials=9, try_first=({"x": 3}, {"x": 0}, {"x": 3}, {"x": 1}))
    ending, executor = bench.run(file)
    assert executor.searched()[:2] == [3, 1]
    assert sorted(executor.searched()) == [1, 2, 3, 4]
    assert ending.stopped_because == "space exhausted: every valid configuration is measured, 5 in all"
    assert [trial.proposed_by for trial in bench.record().trials][:3] == [
        "baseline",
        "try_first",
        "try_first",
    ]


def test_rejections_are_counted_once_however_often_the_study_goes_on(bench: Bench) -> None:
    file = study_file(x=6, trials=3, rules=("x != 4", "x < 5"))
    bench.run(file)
    bench.run(replace(file, budget=replace(file.budget, trials=9)))
    assert bench.record().rejected == {"x != 4": 1, "x < 5": 1}
    assert sorted(bench.xs()) == [0, 1, 2, 3]


@pytest.mark.parametrize("finalists", [0, 2])
def test_wall_time_keeps_back_what_confirmation_needs(bench: Bench, finalists: int) -> None:
    file = study_file(
        x=40, trials=40, wall_time_s=205.0, confirm=ConfirmSettings(finalists, repeats=2, baseline_repeats=2)
    )
    ending, executor = bench.run(file)
    assert ending.stopped_because == "wall time of 205 s is spent, less what confirmation needs"
    confirmations = executor.purposes().count("confirm")
    assert confirmations == (6 if finalists else 0)
    assert len(executor.taken) == 20, "the whole time was used"
    assert bench.clock.now_s <= 205.0


def test_wall_time_is_hard_and_what_is_cut_is_recorded_as_interrupted(bench: Bench) -> None:
    def suddenly_slow(spec, nth):
        return replace(line(spec.config), phases={"wall_s": 10.0 if spec.trial_number < 3 else 500.0})

    file = study_file(x=40, trials=40, wall_time_s=100.0)
    ending, _ = bench.run(file, suddenly_slow)
    assert ending.stopped_because == "wall time of 100 s is over"
    assert bench.clock.now_s == 100.0
    last = bench.record().trials[-1].measurements[-1]
    assert last.failure_kind is FailureKind.INTERRUPTED
    assert not ending.is_interrupted


def test_a_study_whose_time_is_spent_starts_nothing(bench: Bench) -> None:
    file = study_file(x=40, trials=40, wall_time_s=105.0)
    bench.run(file)
    before = len(bench.xs())
    ending, executor = bench.run(file)
    assert executor.steps == 0, "not even Ray is started"
    assert len(bench.xs()) == before
    assert ending.result is not None


def test_a_slow_cold_run_does_not_make_the_others_look_slow(bench: Bench) -> None:
    def slow_at_first(spec, nth):
        return replace(on_line(spec, nth), phases={"wall_s": 100.0 if not bench.notes.measurements else 10.0})

    _, executor = bench.run(study_file(x=40, trials=40, wall_time_s=165.0), slow_at_first)
    assert len(executor.searched()) == 4


def test_short_failures_do_not_make_the_time_to_confirm_look_short(bench: Bench) -> None:
    def mostly_fails(spec, nth):
        x = spec.config["x"]
        return on_line(spec, nth) if x in (0, 7) else failed("out_of_memory")

    file = study_file(
        x=40,
        trials=40,
        try_first=({"x": 7},),
        wall_time_s=120.0,
        confirm=ConfirmSettings(finalists=1, repeats=3, baseline_repeats=2),
    )
    ending, executor = bench.run(file, mostly_fails)
    assert executor.purposes().count("confirm") == 6
    assert ending.result is not None
    assert ending.result.trial(1).is_confirmed


def test_the_search_ends_when_nothing_is_gained(bench: Bench) -> None:
    ending, executor = bench.run(
        study_file(x=40, trials=40, no_gain=3), lambda spec, nth: gave(**{FAST: 100.0, LOSS: 2.0})
    )
    assert ending.stopped_because == "no gain in the last 3 trials"
    assert len(executor.searched()) == 3


def test_a_gain_within_the_noise_of_the_baseline_is_none(bench: Bench) -> None:
    def noisy(spec, nth):
        speed = {1: 100.0, 2: 90.0, 3: 110.0}[nth] if spec.trial_number == 0 else 100.0 + spec.trial_number
        return gave(**{FAST: speed, LOSS: 2.0})

    ending, _ = bench.run(study_file(x=40, trials=40, no_gain=3), noisy)
    assert ending.stopped_because == "no gain in the last 3 trials"


def test_the_same_gain_counts_where_the_baseline_is_quiet(bench: Bench) -> None:
    def quiet(spec, nth):
        return gave(**{FAST: 100.0 + spec.trial_number, LOSS: 2.0})

    ending, _ = bench.run(study_file(x=40, trials=8, no_gain=3), quiet)
    assert ending.stopped_because == "budget of 8 trials is spent"


def test_equal_failures_in_a_row_stop_the_study_and_show_the_first(bench: Bench) -> None:
    ending, executor = bench.run(
        study_file(x=40, trials=40, failures_in_a_row=3),
        lambda spec, nth: on_search(
            spec, nth, failed("crash", f"no module named foo (pid {spec.trial_number})")
        ),
    )
    assert len(executor.searched()) == 3
    assert (
        failure_of(ending) == "3 equal failures in a row (crash), the first was: no module named foo (pid 1)"
    )
    assert ending.result is not None, "what was measured can be looked at"


def test_a_study_that_failed_in_a_row_can_go_on_once_the_cause_is_gone(bench: Bench) -> None:
    file = study_file(x=40, trials=40, failures_in_a_row=3)
    bench.run(file, lambda spec, nth: on_search(spec, nth, failed("crash", "no module named foo")))
    ending, executor = bench.run(replace(file, budget=replace(file.budget, trials=8)))
    assert ending.failure is None
    assert len(executor.searched()) == 4


@pytest.mark.parametrize(
    "kinds", [["out_of_memory"], ["crash", "unsupported"], ["crash", "complete"], ["crash", "out_of_memory"]]
)
def test_memory_and_a_mix_of_failures_never_stop_a_study(bench: Bench, kinds: list[str]) -> None:
    def some(spec, nth):
        kind = kinds[spec.trial_number % len(kinds)]
        return on_line(spec, nth) if kind == "complete" else on_search(spec, nth, failed(kind))

    ending, _ = bench.run(study_file(x=40, trials=14, failures_in_a_row=3), some)
    assert ending.stopped_because == "budget of 14 trials is spent"


def test_all_trials_may_fail_each_with_its_kind(bench: Bench) -> None:
    kinds = [FailureKind.OUT_OF_MEMORY, FailureKind.TIMEOUT, FailureKind.NON_FINITE]

    def fails(spec, nth):
        return on_search(spec, nth, failed(str(kinds[spec.trial_number % 3])))

    ending, _ = bench.run(study_file(x=7, trials=7, confirm=ConfirmSettings(baseline_repeats=2)), fails)
    assert ending.result is not None
    assert ending.result.failures == {"out_of_memory": 2, "timeout": 2, "non_finite": 2}
    assert ending.result.front == (0,)


def test_nothing_feasible_gives_the_nearest_miss_and_confirms_nothing(bench: Bench) -> None:
    file = study_file(x=4, limits=(limit(FAST, "min", 450.0),), confirm=ConfirmSettings(baseline_repeats=2))
    ending, executor = bench.run(file)
    assert ending.result is not None
    assert ending.result.front == ()
    assert "confirm" not in executor.purposes()
    nearest = ending.result.nearest_miss
    assert nearest is not None
    assert bench.record().trials[nearest.trial].config == {"x": 3}


@pytest.mark.parametrize("kind", ["killed", "contaminated", "contaminated timeout"])
def test_a_spoiled_measurement_is_taken_again_once_and_only_the_second_counts(
    bench: Bench, kind: str
) -> None:
    def spoiled(spec, nth):
        if (spec.trial_number, nth) != (2, 1):
            return on_line(spec, nth)
        if kind == "killed":
            return failed("killed")
        return contaminated(failed("timeout") if "timeout" in kind else line({"x": 99}))

    _, executor = bench.run(study_file(trials=4), spoiled)
    assert [run.is_discarded for run in bench.runs(2)] == [True, False]
    assert [run.purpose for run in bench.runs(2)] == [Purpose.SEARCH, Purpose.RETRY]
    assert len(executor.taken) == 3 + 3 + 1
    assert any(said.startswith("trial 2 is measured again: ") for said in bench.notes.said)


def test_what_is_spoiled_twice_stands(bench: Bench) -> None:
    bench.run(study_file(trials=3), lambda spec, nth: on_search(spec, nth, contaminated(line(spec.config))))
    assert [run.is_discarded for run in bench.runs(1)] == [True, False]
    assert bench.runs(1)[1].facts["contaminated"] == "foreign load"


def test_on_a_machine_that_is_busy_all_the_time_disturbed_runs_are_no_longer_repeated(bench: Bench) -> None:
    file = study_file(trials=8, confirm=ConfirmSettings(finalists=0))
    bench.run(file, lambda spec, nth: on_search(spec, nth, contaminated(line(spec.config))))
    assert [len(bench.runs(number)) for number in range(1, 8)] == [2, 2, 2, 1, 1, 1, 1]
    assert sum("busy all the time" in said for said in bench.notes.said) == 1
    assert not any(run.is_discarded for run in bench.runs(7))


@pytest.mark.parametrize("kind", ["crash", "unsupported", "missing_metric", "non_finite", "engine_start"])
@pytest.mark.parametrize("is_contaminated", [False, True])
def test_a_failure_of_its_own_is_never_measured_again(bench: Bench, kind: str, is_contaminated: bool) -> None:
    measurement = contaminated(failed(kind)) if is_contaminated else failed(kind)
    bench.run(study_file(trials=3), lambda spec, nth: on_search(spec, nth, measurement))
    assert [len(bench.runs(number)) for number in (1, 2)] == [1, 1]


def test_an_interrupted_study_hands_nothing_more_out_and_has_saved_everything(bench: Bench) -> None:
    def press(executor, source):
        if executor.steps == 15:  # the fifth run has ended
            source.interrupt()
            assert source.next_job(0) is Signal.FINISHED

    ending, executor = bench.run(study_file(), on_step=press)
    assert ending.is_interrupted
    assert ending.stopped_because == "interrupted" == bench.record().stopped_because
    outcomes = [run.outcome for trial in bench.record().trials for run in trial.measurements]
    assert len(outcomes) == len(executor.taken)
    assert None not in outcomes
    assert ending.result is not None


def test_two_slots_are_both_used_by_repeats_and_search(bench: Bench) -> None:
    file = study_file(
        at_once=2, trials=6, confirm=ConfirmSettings(finalists=2, repeats=2, baseline_repeats=4)
    )
    ending, executor = bench.run(file)
    assert executor.most_at_once == 2
    assert ending.failure is None
    assert sorted(trial.number for trial in bench.record().trials) == list(range(6))
    # cold 1, repeats 4/2, search 5/2, confirmation 6/2 or a little more: ten seconds each
    assert bench.clock.now_s <= 10.0 * (1 + 2 + 3 + 4)


def test_two_slots_wait_for_a_second_attempt_before_the_space_counts_as_exhausted(bench: Bench) -> None:
    def killed_late(spec, nth):
        is_first = spec.trial_number == nth == 1
        return replace(failed("killed"), phases={"wall_s": 35.0}) if is_first else on_line(spec, nth)

    ending, _ = bench.run(study_file(x=4, trials=9, at_once=2), killed_late)
    assert ending.stopped_because.startswith("space exhausted")
    assert all(trial.outcome is Outcome.COMPLETE for trial in ending.result.trials)


def test_memory_is_reported_against_its_frozen_limit_for_each_run(bench: Bench) -> None:
    bench.run(study_file(x=6, trials=6, limits=(limit(MEMORY, "max", 3.0),)))
    by_x = {
        bench.record().trials[ticket.number].config["x"]: is_feasible
        for ticket, is_feasible in bench.notes.measurements
        if ticket.purpose is Purpose.SEARCH
    }
    assert by_x == {x: x <= 2 for x in range(1, 6)}
