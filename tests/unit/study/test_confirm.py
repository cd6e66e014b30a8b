"""Confirmation: finalists and the baseline again, in interleaved rounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.unit.study.bench import (
    FAST,
    LOSS,
    MEMORY,
    Bench,
    contaminated,
    failed,
    gave,
    limit,
    on_line,
    study_file,
)
from trials.contract import Purpose
from tuner.loop.rounds_needed import confirm_runs
from tuner.space.model import ConfirmSettings


def confirmed(finalists: int = 2, repeats: int = 3, **more):
    return study_file(
        **{"x": 3, "trials": 3, **more}, confirm=ConfirmSettings(finalists, repeats, baseline_repeats=2)
    )


def confirmations(executor):
    return [spec for spec in executor.taken if spec.purpose is Purpose.CONFIRM]


def test_rounds_interleave_the_baseline_and_the_finalists_with_one_seed_each(bench: Bench) -> None:
    ending, executor = bench.run(confirmed())
    runs = confirmations(executor)
    order = [spec.trial_number for spec in runs]
    assert order[0] == 0
    assert order == order[:3] * 3, "A B C A B C"
    assert [spec.seed for spec in runs] == [5, 5, 5, 6, 6, 6, 7, 7, 7]
    rounds = Counter(run.round_number for trial in bench.record().trials for run in trial.measurements)
    assert [rounds[number] for number in (0, 1, 2)] == [3, 3, 3]
    assert ending.result is not None
    assert all(ending.result.trial(number).is_confirmed for number in (0, 1, 2))


def test_no_finalists_means_no_confirmation(bench: Bench) -> None:
    _, executor = bench.run(confirmed(finalists=0))
    assert confirmations(executor) == []


def test_a_finished_study_has_nothing_left_to_do(bench: Bench) -> None:
    bench.run(confirmed())
    ending, executor = bench.run(confirmed())
    assert executor.steps == 0
    assert ending.stopped_because == "budget of 3 trials is spent"


def test_one_repeat_is_run_once_and_not_for_ever(bench: Bench) -> None:
    _, executor = bench.run(confirmed(repeats=1))
    assert len(confirmations(executor)) == 3


def lucky(x: int, **truth: float):
    """The line, where configuration ``x`` shines in the search and shows ``truth`` when measured again."""

    def measure(spec, nth):
        if spec.config["x"] != x:
            return on_line(spec, nth)
        return gave(**{FAST: 1000.0, LOSS: 1.0, MEMORY: 1.0, **(truth if nth > 1 else {})})

    return measure


def test_a_finalist_that_is_dominated_when_confirmed_is_replaced(bench: Bench) -> None:
    file = confirmed(finalists=1, x=5, trials=5)
    ending, executor = bench.run(file, lucky(2, **{FAST: 50.0, LOSS: 3.0}))
    assert ending.result is not None
    fallen = next(t.number for t in ending.result.trials if t.config == {"x": 2})
    assert fallen not in ending.result.front
    confirmed_members = [n for n in ending.result.front if n and ending.result.trial(n).is_confirmed]
    assert len(confirmed_members) == 1
    assert Counter(spec.trial_number for spec in confirmations(executor))[fallen] == 3


def test_a_finalist_that_breaks_a_limit_when_confirmed_is_replaced(bench: Bench) -> None:
    file = confirmed(finalists=1, x=5, trials=5, limits=(limit(MEMORY, "max", 5.5),))
    ending, _ = bench.run(file, lucky(2, **{MEMORY: 9.0}))
    assert ending.result is not None
    fallen = next(t for t in ending.result.trials if t.config == {"x": 2})
    assert fallen.is_feasible is False
    assert any(ending.result.trial(number).is_confirmed for number in ending.result.front if number)


def test_a_finalist_that_fails_when_confirmed_is_replaced_and_not_asked_again(bench: Bench) -> None:
    def breaks(spec, nth):
        if spec.config["x"] == 2 and nth > 1:
            return failed("crash")
        return lucky(2)(spec, nth)

    ending, executor = bench.run(confirmed(finalists=1, x=5, trials=5), breaks)
    assert ending.result is not None
    broken = next(t.number for t in ending.result.trials if t.config == {"x": 2})
    assert Counter(spec.trial_number for spec in confirmations(executor))[broken] == 3
    assert broken not in ending.result.front


def test_replacing_ends(bench: Bench) -> None:
    """Every finalist falls: at most twice as many as wanted are tried."""

    def falls(spec, nth):
        is_confirmed = spec.purpose is Purpose.CONFIRM and spec.trial_number != 0
        return failed("crash") if is_confirmed else on_line(spec, nth)

    _, executor = bench.run(confirmed(finalists=2, x=30, trials=20), falls)
    assert len({spec.trial_number for spec in confirmations(executor)} - {0}) == 4


def test_a_spoiled_run_of_a_round_is_taken_again_once_in_the_same_round(bench: Bench) -> None:
    def spoiled(spec, nth):
        measurement = on_line(spec, nth)
        is_first_of_its_round = (spec.trial_number, nth) == (1, 3)
        return contaminated(measurement) if is_first_of_its_round else measurement

    _, executor = bench.run(confirmed(), spoiled)
    assert len(confirmations(executor)) == 10
    runs = [run for run in bench.runs(1) if run.purpose is Purpose.CONFIRM]
    assert [(run.round_number, run.is_discarded) for run in runs] == [
        (0, False),
        (1, True),
        (2, False),
        (1, False),
    ]


def undecided(spec, nth):
    """Memory scatters around the limit of 2, by seed."""
    scatter = 0.4 * (-1) ** spec.seed
    return gave(**{FAST: 100.0 * (1 + spec.config["x"]), LOSS: 2.0 + spec.config["x"], MEMORY: 1.8 + scatter})


def test_a_limit_that_stays_undecided_gets_extra_rounds(bench: Bench) -> None:
    file = confirmed(finalists=1, x=2, trials=2, limits=(limit(MEMORY, "max", 2.0),))
    _, executor = bench.run(file, undecided)
    runs = Counter(spec.trial_number for spec in confirmations(executor))
    assert runs == {0: 6, 1: 6}, "three planned rounds and three more"
    assert sorted({spec.seed for spec in confirmations(executor)}) == [5, 6, 7, 8, 9, 10]


def test_extra_rounds_stop_where_the_time_does(bench: Bench) -> None:
    file = confirmed(finalists=1, x=2, trials=2, limits=(limit(MEMORY, "max", 2.0),), wall_time_s=125.0)
    ending, executor = bench.run(file, undecided)
    assert len(confirmations(executor)) == 8, "four runs before, then four rounds of two"
    assert bench.clock.now_s <= 125.0
    assert ending.stopped_because.endswith("no time was left to confirm every finalist")


def test_rather_few_finalists_are_confirmed_than_many_begun(bench: Bench) -> None:
    def one_is_slow(spec, nth):
        wall_s = 100.0 if spec.purpose is Purpose.SEARCH and spec.trial_number == 3 else 10.0
        return replace(on_line(spec, nth), phases={"wall_s": wall_s})

    file = confirmed(finalists=4, repeats=3, x=40, trials=7, wall_time_s=230.0)
    ending, executor = bench.run(file, one_is_slow)
    assert ending.result is not None
    begun = {spec.trial_number for spec in confirmations(executor)} - {0}
    assert len(begun) == 1
    assert all(ending.result.trial(number).is_confirmed for number in begun)


def test_further_rounds_say_whom_they_replace(bench: Bench) -> None:
    file = confirmed(finalists=1, x=5, trials=5)
    bench.run(file, lucky(2, **{FAST: 50.0, LOSS: 3.0}))
    first, *further = bench.notes.details["confirm"]
    assert first.endswith("and the baseline, 3 interleaved rounds")
    assert further and all("in place of" in said and "did not hold" in said for said in further)


def test_the_runs_that_are_foretold_hold_the_runs_there_are(bench: Bench) -> None:
    file = confirmed(finalists=1, x=5, trials=5)
    _, executor = bench.run(file, lucky(2, **{FAST: 50.0, LOSS: 3.0}))
    least, most = confirm_runs(file.confirm, 5, has_limits=False)
    assert least < len(confirmations(executor)) <= most
    _, executor = bench.run(replace(file, name="steady"))
    assert len(confirmations(executor)) == least
