"""Numbers of two machines do not compare, so one study never mixes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.study.bench import HERE, Bench, failure_of, on_line, study_file
from tuner.loop.fingerprint import machine_differences
from tuner.space.model import ConfirmSettings

FILE = study_file(trials=4)
MORE = replace(FILE, budget=replace(FILE.budget, trials=6))
THERE = {**HERE, "cpu_model": "Other 2", "cores_held": [0, 1, 2, 3]}


def there(spec, nth):
    return replace(on_line(spec, nth), environment=THERE)


def test_another_machine_is_refused_by_its_first_result_and_named(bench: Bench) -> None:
    bench.run(FILE)
    ending, executor = bench.run(MORE, there)
    assert len(executor.taken) == 1
    assert failure_of(ending).splitlines()[1:3] == [
        "  cpu_model: was Bench 1, now Other 2",
        "  cores: was 2, now 4",
    ]
    assert "--new-space" in failure_of(ending)
    assert bench.runs(4)[-1].is_discarded


def test_back_on_the_first_machine_the_study_goes_on_with_what_was_refused(bench: Bench) -> None:
    bench.run(FILE)
    bench.run(MORE, there)
    ending, executor = bench.run(MORE)
    assert ending.failure is None
    assert [spec.trial_number for spec in executor.taken] == [4, 5]


def test_a_new_space_on_another_machine_begins_anew_and_reuses_nothing(bench: Bench) -> None:
    bench.run(FILE)
    bench.run(MORE, there)
    ending, executor = bench.run(MORE, there, new_space=True)
    assert ending.failure is None
    record = bench.record()
    assert record.generation == 2
    assert len(executor.taken) == 3 + 5
    assert all(trial.reused_from is None for trial in record.trials)


def test_the_same_words_again_go_on_and_do_not_begin_anew_once_more(bench: Bench) -> None:
    bench.run(FILE)
    bench.run(MORE, there)
    bench.cut(MORE, there, new_space=True, cut_at=14)
    bench.run(MORE, there, new_space=True)
    assert bench.record().generation == 2
    assert len(bench.xs()) == 6


def test_a_baseline_that_was_begun_elsewhere_is_refused_as_well(bench: Bench) -> None:
    file = study_file(confirm=ConfirmSettings(finalists=0, baseline_repeats=3))
    bench.cut(file, cut_at=8)
    ending, _ = bench.run(file, there)
    assert failure_of(ending).startswith("trial 0 ran on another machine")


def test_reused_trials_are_not_mixed_with_another_machine(bench: Bench) -> None:
    bench.run(FILE)
    edited = study_file(x=20, trials=6)
    ending, executor = bench.run(edited, there, new_space=True)
    assert "ran on another machine" in failure_of(ending)
    ending, executor = bench.run(edited, there, new_space=True)
    assert ending.failure is None
    assert len(executor.searched()) == 5


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({"cores_held": [6, 7]}, []),
        ({"kernel": "6.9", "python": "3.11.9", "hostname": "b"}, []),
        ({"torch": "2.14.0"}, ["torch: was 2.13.0, now 2.14.0"]),
        ({"cpu_flags": ["avx2"]}, []),
        ({"cores_held": [0]}, ["cores: was 2, now 1"]),
    ],
)
def test_what_moves_numbers_is_compared_and_nothing_else(changed: dict, differences: list[str]) -> None:
    assert machine_differences({**HERE, "kernel": "6.1"}, {**HERE, **changed}) == differences


def test_what_one_side_does_not_know_is_no_difference() -> None:
    assert machine_differences(HERE, {}) == []
    assert machine_differences({}, HERE) == []


def test_a_new_python_is_said_once_and_the_study_goes_on(bench: Bench) -> None:
    def newer(spec, nth):
        return replace(on_line(spec, nth), environment={**HERE, "python": "3.12.1"})

    def older(spec, nth):
        return replace(on_line(spec, nth), environment={**HERE, "python": "3.11.2"})

    bench.run(FILE, older)
    ending, _ = bench.run(MORE, newer)
    assert ending.failure is None
    said = [line for line in bench.notes.said if "taken to compare" in line]
    assert said == [
        "not quite the environment of the measurements before (python: was 3.11.2, now 3.12.1): taken to compare"
    ]
