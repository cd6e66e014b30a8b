"""``--more N``: the trials and the time that they get."""

from __future__ import annotations

from tests.unit.study.bench import Bench, study_file
from tuner.cli.more import with_more
from tuner.loop.recall import spent_s


def test_more_trials_get_the_wall_time_once_more_on_top_of_what_was_spent() -> None:
    file = study_file(trials=40, wall_time_s=600.0, no_gain=12)
    longer, said = with_more(file, known=31, more=1, spent=590.0)
    assert (longer.budget.trials, longer.budget.wall_time_s, longer.budget.no_gain) == (32, 1190.0, None)
    assert said == (
        "--more 1: 1 further trial in at most 10 min (budget.wall_time once more); budget.no_gain does not end them"
    )


def test_without_a_wall_time_more_trials_are_not_limited_either() -> None:
    longer, said = with_more(study_file(trials=4), known=4, more=2)
    assert (longer.budget.trials, longer.budget.wall_time_s) == (6, None)
    assert said == "--more 2: 2 further trials without a limit in time"


def test_a_study_that_spent_its_time_measures_more_and_then_ends_by_its_time_again(bench: Bench) -> None:
    file = study_file(x=90, trials=80, wall_time_s=105.0)
    first, _ = bench.run(file)
    assert first.stopped_because.startswith("wall time")
    known = len(bench.xs())
    longer, _ = with_more(file, known, 3, spent_s(bench.record()))
    assert bench.run(longer)[0].stopped_because == f"budget of {known + 3} trials is spent"
    longer, _ = with_more(file, known + 3, 50, spent_s(bench.record()))
    begin_s = bench.clock.now_s
    ending, _ = bench.run(longer)
    assert ending.stopped_because.startswith("wall time")
    assert bench.clock.now_s - begin_s <= 105.0
