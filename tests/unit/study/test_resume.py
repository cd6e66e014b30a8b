"""A study that was cut goes on where it stopped, whatever the moment was."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.study.bench import (
    FAST,
    LOSS,
    Bench,
    FakeExecutor,
    contaminated,
    failed,
    gave,
    on_line,
    study_file,
)
from trials.contract import FailureKind, Outcome, Purpose
from tuner.execution.kept import MEASUREMENT_FILE
from tuner.records.rows import TrialRecord
from tuner.space.model import ConfirmSettings

SMALL = study_file(x=9, trials=4, confirm=ConfirmSettings(finalists=1, repeats=2, baseline_repeats=2))


def whole_run(folder: Path, bench: Bench) -> tuple[Bench, FakeExecutor]:
    folder.mkdir()
    whole = Bench(folder, bench.clock)
    return whole, whole.run(SMALL)[1]


def without_result(trial: TrialRecord) -> int | None:
    """``x`` of a trial that must be measured again."""
    has_result = any(
        run.outcome is not None or (Path(run.log_dir) / MEASUREMENT_FILE).exists()
        for run in trial.measurements
    )
    return None if has_result else trial.config["x"]


def test_a_study_cut_at_any_moment_ends_as_if_it_had_not_been(bench: Bench) -> None:
    whole, executor = whole_run(bench.folder / "whole", bench)
    for step in range(1, executor.steps + 1):
        (bench.folder / str(step)).mkdir()
        cut = Bench(bench.folder / str(step), bench.clock)
        cut.cut(SMALL, cut_at=step)
        unfinished = [x for x in map(without_result, cut.record().trials[1:]) if x is not None]
        ending, again = cut.run(SMALL)

        assert cut.xs() == whole.xs(), f"the same configurations in the same order after a cut at step {step}"
        runs = [run for trial in cut.record().trials for run in trial.measurements]
        assert None not in {run.outcome for run in runs}, "no measurement stays open"
        complete = Counter(
            (run.trial_number, run.purpose)
            for run in runs
            if run.outcome is Outcome.COMPLETE and not run.is_discarded
        )
        assert all(n == 1 for (_, purpose), n in complete.items() if purpose is Purpose.SEARCH), "none twice"
        assert complete[0, Purpose.BASELINE] == 2
        assert again.searched()[: len(unfinished)] == unfinished, "what was cut goes first"
        assert ending.result is not None
        assert [n for n in ending.result.front if n and ending.result.trial(n).is_confirmed]
        assert ending.stopped_because == "budget of 4 trials is spent"


def test_a_result_that_nobody_recorded_is_taken_over_from_its_folder(bench: Bench) -> None:
    bench.cut(SMALL, cut_at=11)  # the first searched trial has ended, its result is not recorded
    _, executor = bench.run(SMALL)
    assert len(executor.searched()) == 2
    taken_over = bench.searches(1)
    assert [run.outcome for run in taken_over] == [Outcome.COMPLETE]
    assert taken_over[0].facts["parameters"] == bench.record().trials[1].config
    assert bench.notes.said[-1] == "trial 1 had ended when the last run did; its result is taken over"


def test_a_contaminated_result_that_is_taken_over_is_measured_once_more(bench: Bench) -> None:
    bench.cut(SMALL, lambda spec, nth: contaminated(on_line(spec, nth)), cut_at=11 + 6)
    assert bench.searches(1)[-1].outcome is None
    bench.run(SMALL)
    assert [(run.purpose, run.is_discarded) for run in bench.searches(1)] == [
        (Purpose.SEARCH, True),
        (Purpose.RETRY, False),
    ]


@pytest.mark.parametrize("damage", ["missing", "half written", "of another measurement"])
def test_a_folder_without_a_whole_result_of_its_own_is_measured_again(bench: Bench, damage: str) -> None:
    bench.cut(SMALL, cut_at=11)
    path = Path(bench.searches(1)[0].log_dir) / MEASUREMENT_FILE
    if damage == "missing":
        path.unlink()
    elif damage == "half written":
        path.write_text(path.read_text()[:50])
    else:
        spec = path.with_name("spec.json")
        spec.write_text(spec.read_text().replace(bench.searches(1)[0].measurement_id, "another"))
    _, executor = bench.run(SMALL)
    assert len(executor.searched()) == 3
    assert [run.failure_kind for run in bench.searches(1)] == [FailureKind.INTERRUPTED, None]


def test_a_first_attempt_that_was_spoiled_leaves_one_more_to_the_next_run(bench: Bench) -> None:
    def always_killed(spec, nth):
        return failed("killed") if spec.trial_number == 1 else on_line(spec, nth)

    bench.cut(SMALL, always_killed, cut_at=13)  # the second attempt was handed out
    bench.run(SMALL, always_killed)
    kinds = [(run.purpose, run.failure_kind, run.is_discarded) for run in bench.searches(1)]
    assert kinds == [
        (Purpose.SEARCH, "killed", True),
        (Purpose.RETRY, "interrupted", False),
        (Purpose.RETRY, "killed", False),
    ]


def test_an_interrupted_study_goes_on_with_what_was_cut(bench: Bench) -> None:
    def press(executor, source):
        if executor.steps == 13:  # the second searched trial has been handed out
            source.interrupt()

    bench.run(SMALL, on_step=press)
    cut = bench.xs()[2]
    ending, executor = bench.run(SMALL)
    assert executor.searched()[0] == cut
    assert "trial 2 was cut short and is measured first" in bench.notes.said
    assert len(bench.xs()) == 4
    assert ending.stopped_because == "budget of 4 trials is spent"


def test_the_reason_of_an_earlier_stop_is_gone_while_the_study_goes_on(bench: Bench) -> None:
    bench.run(SMALL)
    more = replace(SMALL, budget=replace(SMALL.budget, trials=6))
    bench.cut(more, cut_at=2)
    assert bench.record().stopped_because is None


def test_a_larger_budget_goes_on_after_the_end(bench: Bench) -> None:
    bench.run(SMALL)
    before = bench.xs()
    ending, executor = bench.run(replace(SMALL, budget=replace(SMALL.budget, trials=7)))
    assert bench.xs()[:4] == before
    assert len(executor.searched()) == 3
    assert ending.stopped_because == "budget of 7 trials is spent"


def test_a_study_goes_on_as_one_that_had_the_larger_budget_from_the_start(bench: Bench) -> None:
    plain = study_file(x=40, trials=5)
    bench.run(plain)
    bench.run(replace(plain, budget=replace(plain.budget, trials=9)))
    (bench.folder / "whole").mkdir()
    whole = Bench(bench.folder / "whole", bench.clock)
    whole.run(replace(plain, budget=replace(plain.budget, trials=9)))
    assert bench.xs() == whole.xs()


def test_the_time_between_two_runs_is_not_spent(bench: Bench) -> None:
    file = study_file(x=40, trials=40, wall_time_s=145.0)
    bench.cut(file, cut_at=16)  # the sixth run was handed out
    bench.clock.now_s += 86_400.0
    _, executor = bench.run(file)
    assert len(executor.taken) == 9, "five runs of ten seconds are paid for, one was lost"


def test_runs_side_by_side_are_paid_for_once(bench: Bench) -> None:
    file = study_file(x=40, trials=12, at_once=2)
    bench.run(file)
    took_s = bench.clock.now_s
    more = replace(file, budget=replace(file.budget, trials=40, wall_time_s=took_s + 45.0))
    _, executor = bench.run(more)
    assert len(executor.taken) == 8, "two at once, four times ten seconds"


def test_a_search_without_gain_stays_ended(bench: Bench) -> None:
    file = study_file(x=40, trials=40, no_gain=3)
    bench.run(file, lambda spec, nth: gave(**{FAST: 100.0, LOSS: 2.0}))
    ending, executor = bench.run(file)
    assert executor.steps == 0
    assert ending.stopped_because == "no gain in the last 3 trials"
