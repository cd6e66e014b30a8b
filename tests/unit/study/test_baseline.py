"""Trial 0: the user's own configuration, by which everything else is judged."""

from __future__ import annotations

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
    on_line,
    study_file,
)
from trials.contract import FailureKind
from tuner.space.model import ConfirmSettings

ALONE = study_file(x=1)
"""A space of one point."""


def test_a_cold_run_is_thrown_away_and_the_repeats_count(bench: Bench) -> None:
    file = study_file(x=1, confirm=ConfirmSettings(finalists=0, baseline_repeats=3))
    _, executor = bench.run(file)
    assert [spec.seed for spec in executor.taken] == [5, 5, 6, 7]
    assert [run.is_discarded for run in bench.runs(0)] == [True, False, False, False]
    assert bench.notes.measurements[0][0].is_cold


def test_a_baseline_that_fails_stops_the_study_and_names_its_log(bench: Bench) -> None:
    ending, executor = bench.run(study_file(), lambda spec, nth: failed("crash", "exit status 9"))
    assert len(executor.taken) == 1, "one failing cold run is enough to know"
    assert failure_of(ending).startswith("the baseline failed (crash): exit status 9")
    assert str(executor.taken[0].trial_dir) in failure_of(ending)
    assert ending.result is None
    assert bench.record().stopped_because == "the baseline failed (crash): exit status 9"


def test_the_end_of_the_log_is_shown_where_the_message_does_not_hold_it(bench: Bench) -> None:
    def hangs(spec, nth):
        (spec.trial_dir / "trial.log").write_text("loading\nwaiting for a lock\n")
        return failed("timeout", "cut after 60 s")

    ending, _ = bench.run(study_file(), hangs)
    assert "waiting for a lock" in failure_of(ending)


def test_a_baseline_with_one_failing_repeat_stops_the_study_whichever_repeat_it_is(bench: Bench) -> None:
    file = study_file(confirm=ConfirmSettings(finalists=0, baseline_repeats=3))
    ending, executor = bench.run(
        file,
        lambda spec, nth: failed("non_finite", "val_loss_nats is nan") if nth == 2 else on_line(spec, nth),
    )
    assert "the baseline failed (non_finite)" in failure_of(ending)
    assert {spec.trial_number for spec in executor.taken} == {0}


def test_a_failed_baseline_is_measured_anew_by_the_next_run(bench: Bench) -> None:
    bench.run(ALONE, lambda spec, nth: failed("crash"))
    ending, executor = bench.run(ALONE)
    assert ending.failure is None
    assert executor.purposes() == ["baseline"] * 3


@pytest.mark.parametrize("nth_spoiled", [1, 2, 3])
@pytest.mark.parametrize("how", ["killed", "contaminated"])
def test_a_spoiled_run_of_the_baseline_is_taken_again_once(bench: Bench, how: str, nth_spoiled: int) -> None:
    def spoiled(spec, nth):
        if nth != nth_spoiled:
            return on_line(spec, nth)
        return failed("killed") if how == "killed" else contaminated(on_line(spec, nth))

    ending, executor = bench.run(ALONE, spoiled)
    assert ending.failure is None
    is_cold_anyway = how == "contaminated" and nth_spoiled == 1
    assert len(executor.taken) == (3 if is_cold_anyway else 4)
    kept = [run for run in bench.runs(0) if not run.is_discarded]
    assert [run.seed for run in sorted(kept, key=lambda run: run.seed)] == [5, 6]
    assert all(run.failure_kind is None for run in kept)


def test_a_baseline_that_is_killed_twice_stops_the_study(bench: Bench) -> None:
    ending, executor = bench.run(ALONE, lambda spec, nth: failed("killed"))
    assert len(executor.taken) == 2
    assert "the baseline failed (killed)" in failure_of(ending)


def test_limits_are_frozen_at_the_mean_of_the_repeats_and_said(bench: Bench) -> None:
    speeds = {1: 1.0, 2: 90.0, 3: 110.0}
    file = study_file(
        x=1,
        limits=(limit(FAST, "min_relative", 0.5), limit(LOSS, "max_increase", 0.25), limit(MEMORY, "max", 3)),
    )
    bench.run(file, lambda spec, nth: gave(**{FAST: speeds[nth], LOSS: 2.0, MEMORY: 1.0}))
    bounds = bench.record().bounds
    assert bounds is not None
    assert [bound.value for bound in bounds] == [50.0, 2.25, 3.0]
    assert bench.notes.said == [
        "limit tokens_per_s >= 50",
        "limit val_loss_nats <= 2.25",
        "limit peak_memory_gib <= 3",
    ]


def test_a_baseline_outside_the_limits_is_said_and_the_study_goes_on(bench: Bench) -> None:
    ending, executor = bench.run(study_file(limits=(limit(FAST, "min", 350.0),)))
    assert "limit tokens_per_s >= 350  (the baseline itself does not meet it)" in bench.notes.said
    assert ending.failure is None
    assert len(executor.searched()) == 5


def test_a_relative_limit_on_a_baseline_of_zero_asks_for_an_absolute_one(bench: Bench) -> None:
    file = study_file(limits=(limit(MEMORY, "max_relative", 1.1),))
    ending, executor = bench.run(file, lambda spec, nth: gave(**{FAST: 1.0, LOSS: 2.0, MEMORY: 0.0}))
    assert failure_of(ending).endswith("the baseline's peak_memory_gib is 0; write an absolute max or min")
    assert executor.searched() == []


def test_a_study_whose_time_ends_before_its_baseline_says_what_to_allow(bench: Bench) -> None:
    ending, _ = bench.run(study_file(wall_time_s=15.0))
    assert failure_of(ending).startswith("wall time of 15 s is over, and the baseline is not measured")
    assert bench.runs(0)[-1].failure_kind is FailureKind.INTERRUPTED


def test_a_space_of_one_point_is_measured_once_and_is_the_front(bench: Bench) -> None:
    ending, executor = bench.run(study_file(x=1, confirm=ConfirmSettings(baseline_repeats=2)))
    assert executor.purposes() == ["baseline"] * 3
    assert ending.stopped_because == "space exhausted: every valid configuration is measured, 1 in all"
    assert ending.result is not None
    assert ending.result.front == (0,)


def test_an_interrupted_baseline_goes_on_with_the_repeats_that_are_missing(bench: Bench) -> None:
    file = study_file(x=1, confirm=ConfirmSettings(finalists=0, baseline_repeats=3))
    bench.cut(file, cut_at=7)  # the third run was handed out
    _, executor = bench.run(file)
    assert [spec.seed for spec in executor.taken] == [5, 6, 7], "a cold run, then seeds 6 and 7"
    assert [run.is_discarded for run in bench.runs(0)] == [True, False, False, True, False, False]
