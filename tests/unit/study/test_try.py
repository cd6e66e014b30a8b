"""One configuration of the user's own, measured into a study."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.study.bench import HERE, Bench, contaminated, gave, limit, on_line, study_file
from trials.contract import Measurement, Purpose, TrialSpec
from tuner.results import judge

FILE = study_file(x=8, trials=3)


def test_it_becomes_a_trial_of_the_user_with_one_measurement(bench: Bench) -> None:
    bench.run(FILE)
    left = next(x for x in range(8) if x not in bench.xs())
    number, study, executor = bench.try_one(FILE, {"x": left})
    assert (number, study.failure, executor.searched()) == (3, None, [left])
    trial = bench.record().trials[3]
    assert (trial.config, trial.proposed_by) == ({"x": left}, "user")
    assert [run.purpose for run in trial.measurements] == [Purpose.SEARCH]
    assert judge(bench.record()).trial(3).on_front
    assert bench.record().stopped_because == "budget of 3 trials is spent", (
        "why the study stopped still holds"
    )


def test_a_run_that_goes_on_counts_it_and_does_not_repeat_it(bench: Bench) -> None:
    bench.run(FILE)
    left = next(x for x in range(8) if x not in bench.xs())
    bench.try_one(FILE, {"x": left})
    _, executor = bench.run(replace(FILE, budget=replace(FILE.budget, trials=5)))
    assert len(executor.searched()) == 1
    assert sorted(bench.xs()) == sorted(set(bench.xs()))


def test_a_configuration_outside_the_space_is_measured_as_well(bench: Bench) -> None:
    bench.run(FILE)
    assert bench.try_one(FILE, {"x": 100})[0] == 3
    ending, executor = bench.run(replace(FILE, budget=replace(FILE.budget, trials=5)))
    assert ending.failure is None and len(executor.searched()) == 1


def test_a_trial_that_was_cut_before_it_was_measured_is_measured_now(bench: Bench) -> None:
    bench.cut(FILE, cut_at=13)
    open_ones = [trial for trial in bench.record().trials[1:] if trial.measurements[-1].outcome is None]
    assert open_ones, "the plug was pulled in the middle of a search run"
    number, _, executor = bench.try_one(FILE, dict(open_ones[0].config))
    assert number == open_ones[0].number
    assert len(executor.taken) == 1


def test_a_spent_wall_time_does_not_keep_it_from_running(bench: Bench) -> None:
    short = replace(FILE, budget=replace(FILE.budget, wall_time_s=45.0))
    bench.run(short)
    assert bench.try_one(short, {"x": 100})[2].taken


def test_what_something_outside_disturbed_is_measured_twice(bench: Bench) -> None:
    bench.run(FILE)

    def first_is_disturbed(spec: TrialSpec, nth: int) -> Measurement:
        return contaminated(on_line(spec, nth)) if nth == 1 else on_line(spec, nth)

    _, _, executor = bench.try_one(FILE, {"x": 100}, first_is_disturbed)
    assert executor.purposes() == ["search", "retry"]


def test_numbers_of_another_machine_do_not_count(bench: Bench) -> None:
    bench.run(FILE)
    number, study, _ = bench.try_one(
        FILE, {"x": 100}, lambda spec, nth: gave(environment={**HERE, "torch": "9"}, tokens_per_s=1.0)
    )
    assert "another machine" in str(study.failure)
    assert judge(bench.record()).trial(number).losses is None


def test_limits_are_those_that_the_baseline_fixed(bench: Bench) -> None:
    limited = replace(FILE, constraints=(limit("tokens_per_s", "min_relative", 3.0),))
    bench.run(limited)
    bench.try_one(limited, {"x": 100})
    assert judge(bench.record()).trial(3).is_feasible is True
