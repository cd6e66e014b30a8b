"""What the baseline's own time points to is tried first: one change each, of knobs that the space searches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.study.bench import Bench, line, study_file


def profiled(*knobs: str):
    """Every run on the line; those of the baseline name knobs."""

    def measure(spec, nth):
        found = line(spec.config, spec.seed)
        return replace(found, facts={"knobs_to_search": list(knobs)}) if spec.trial_number == 0 else found

    return measure


def test_a_named_knob_is_changed_by_one_step_upwards_after_the_users_own_wishes(bench: Bench) -> None:
    file = study_file(x=20, trials=9, baseline={"x": 7}, try_first=({"x": 1},))
    _, executor = bench.run(file, profiled("not_searched", "x"))
    assert executor.searched()[:2] == [1, 8]
    assert [trial.proposed_by for trial in bench.record().trials][:3] == [
        "baseline",
        "try_first",
        "bottleneck",
    ]
    assert bench.record().trials[3].proposed_by != "bottleneck"


def test_a_value_that_a_rule_forbids_gives_way_to_the_one_below(bench: Bench) -> None:
    file = study_file(x=20, trials=9, baseline={"x": 7}, rules=("x != 8",))
    _, executor = bench.run(file, profiled("x"))
    assert executor.searched()[0] == 6


@pytest.mark.parametrize(
    ("more", "knobs"),
    [({"baseline": {"x": 70}}, ("x",)), ({}, ()), ({"trials": 7}, ("x",))],
    ids=["a baseline off the grid", "nothing named", "a small budget"],
)
def test_else_the_sampler_has_the_first_word(bench: Bench, more, knobs) -> None:
    bench.run(study_file(**{"x": 20, "trials": 9, **more}), profiled(*knobs))
    assert "bottleneck" not in {trial.proposed_by for trial in bench.record().trials}


def test_a_study_that_goes_on_does_not_try_it_twice(bench: Bench) -> None:
    file = study_file(x=20, trials=8, baseline={"x": 7})
    bench.run(file, profiled("x"))
    bench.run(study_file(x=20, trials=10, baseline={"x": 7}), profiled("x"))
    assert [trial.proposed_by for trial in bench.record().trials].count("bottleneck") == 1
