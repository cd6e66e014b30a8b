"""Trials that cannot reach the front any more are cut short, counted, and never run again by the search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.study.bench import FAST, LOSS, Bench, gave, study_file
from trials.contract import MetricValue, Outcome, Purpose, TrialSpec
from trials.metrics import unit_of
from trials.stages import Stage
from tuner.results import judge
from tuner.search.base import BaseSampler
from tuner.search.protocol import Observation
from tuner.space.model import ConfirmSettings, SearchSettings

TRUTH = {x: (1000.0, 1.0) if x == 1 else (100.0 + x, 2.0 + 0.01 * x) for x in range(40)}
"""x = 1 is ten times as fast as the others and far better."""


def measured(spec: TrialSpec, nth: int):
    speed, loss = TRUTH[spec.config["x"]]
    wobble = 1 + 0.002 * (nth % 3 - 1)
    return gave(wall_s=20.0, **{FAST: speed * wobble, LOSS: loss * wobble})


def value(key: str, number: float) -> MetricValue:
    return MetricValue(number, unit_of(key), n=20, low=0.999 * number, high=1.001 * number)


def on_the_way(spec: TrialSpec, contaminated: str | None = None) -> list[tuple[float, Stage]]:
    """Throughput and a loss that is half as large at the end, a tenth of the way."""
    speed, loss = TRUTH[spec.config["x"]]
    metrics = {FAST: value(FAST, speed), LOSS: value(LOSS, 2 * loss)}
    return [(2.0, Stage(0.1, metrics, (FAST,), contaminated))]


def cuttable(**more):
    return study_file(
        **{"x": 40, "trials": 20, "try_first": ({"x": 1},), **more},
        confirm=ConfirmSettings(finalists=1, repeats=2, baseline_repeats=3),
    )


def outcomes(bench: Bench) -> list[str]:
    return [str(trial.outcome) for trial in judge(bench.record()).trials]


def test_a_trial_that_cannot_reach_the_front_is_cut_with_its_reason_and_what_it_reported(
    bench: Bench,
) -> None:
    ending, _ = bench.run(cuttable(), measured, stages=on_the_way)
    found = outcomes(bench)
    assert found[:2] == ["complete", "complete"]
    first = found.index("pruned")
    assert first == 7, "six finished trials tell how a loss goes on"
    assert set(found[first:]) == {"pruned"}
    (run,) = bench.runs(first)
    assert run.purpose is Purpose.SEARCH
    assert run.message == (
        f"{FAST} {TRUTH[bench.xs()[first]][0]:.4g} and {LOSS} about {TRUTH[bench.xs()[first]][1]:.4g}, 10% of the run "
        f"done: beaten by trial 1 ({FAST} 1000, {LOSS} 1)"
    )
    assert run.metrics[FAST].flags == ("partial",)
    assert run.phases["wall_s"] <= 8.0
    assert ending.result is not None
    assert set(ending.result.front) == {1}
    assert ending.stopped_because == "budget of 20 trials is spent"


def test_only_trials_of_the_search_are_asked_for_stages(bench: Bench) -> None:
    _, executor = bench.run(cuttable(), measured, stages=on_the_way)
    asked = {spec.purpose for spec in executor.taken if spec.report_at}
    left_alone = {spec.purpose for spec in executor.taken if not spec.report_at}
    assert asked == {Purpose.SEARCH}
    assert left_alone == {Purpose.BASELINE, Purpose.CONFIRM}


@pytest.mark.parametrize("why", ["switched off", "noise unknown", "disturbed"])
def test_nothing_is_cut_where(bench: Bench, why: str) -> None:
    file = cuttable()
    if why == "switched off":
        file = replace(file, search=replace(file.search, cut_short=False))
    if why == "noise unknown":
        file = replace(file, confirm=ConfirmSettings(finalists=0, baseline_repeats=1))
    disturbed = "other programs used 40%" if why == "disturbed" else None
    _, executor = bench.run(file, measured, stages=lambda spec: on_the_way(spec, disturbed))
    assert set(outcomes(bench)) == {"complete"}
    assert any(spec.report_at for spec in executor.taken) == (why == "disturbed")


def test_a_study_that_was_killed_goes_on_with_what_was_cut_before(bench: Bench) -> None:
    bench.cut(cuttable(), measured, stages=on_the_way, cut_at=52)
    before = outcomes(bench)
    assert "pruned" in before
    assert len(before) < 20
    _, executor = bench.run(cuttable(), measured, stages=on_the_way)
    cut_before = {number for number, outcome in enumerate(before) if outcome == "pruned"}
    assert not {spec.trial_number for spec in executor.taken} & cut_before
    assert outcomes(bench)[7:] == ["pruned"] * 13


def test_a_cut_whose_result_was_not_recorded_is_taken_over(bench: Bench) -> None:
    bench.cut(cuttable(), measured, stages=on_the_way, cut_at=4 * 3 + 6 * 3 + 2)
    assert bench.runs(7)[0].outcome is None
    _, executor = bench.run(cuttable(), measured, stages=on_the_way)
    assert bench.runs(7)[0].outcome is Outcome.PRUNED
    assert 7 not in {spec.trial_number for spec in executor.taken}


def test_a_sampler_is_told_that_it_was_cut_and_what_was_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Observation] = []
    tell = BaseSampler.tell
    monkeypatch.setattr(BaseSampler, "tell", lambda self, seen: [told.append(seen), tell(self, seen)])
    bench.run(cuttable(trials=9), measured, stages=on_the_way)
    last = told[-1]
    assert (last.outcome, last.values, last.failure_kind) == (Outcome.PRUNED, None, None)
    assert last.cost_s == 0.0, "what a whole trial costs is not known"
    assert last.partial == pytest.approx(TRUTH[last.config["x"]]), "a loss on the way is carried to the end"
    assert all(error is not None and 0 <= error < 1 for error in last.errors)
    assert told[0].errors[0] is not None
    assert 0 < told[0].errors[0] < 1.0


def test_what_was_saved_is_estimated_from_whole_trials(bench: Bench) -> None:
    ending, _ = bench.run(cuttable(), measured, stages=on_the_way)
    assert ending.result is not None
    cut = ending.result.cut_short
    runs = [run for trial in bench.record().trials[1:] for run in trial.measurements]
    spent = [run.phases["wall_s"] for run in runs if run.outcome is Outcome.PRUNED]
    assert cut.trials == len(spent) == 13
    assert cut.whole_s == 20.0
    assert cut.saved_s == pytest.approx(sum(20.0 - seconds for seconds in spent))


def test_a_configuration_that_was_cut_can_be_tried_and_is_then_measured_to_its_end(bench: Bench) -> None:
    file = cuttable()
    bench.run(file, measured, stages=on_the_way)
    config = bench.record().trials[7].config
    number, _, executor = bench.try_one(file, config, measured)
    assert number == 7
    assert [spec.report_at for spec in executor.taken] == [()]
    assert judge(bench.record()).trial(7).outcome is Outcome.COMPLETE


def test_another_generation_does_not_take_over_what_was_cut(bench: Bench) -> None:
    file = cuttable(trials=9)
    bench.run(file, measured, stages=on_the_way)
    assert outcomes(bench).count("pruned") == 2
    cut = [trial.config for trial in bench.record().trials[7:]]
    other = replace(
        file, objectives=(file.objectives[0],), search=SearchSettings("random", 5, 1, cut_short=False)
    )
    bench.run(other, measured, new_space=True)
    again = bench.record()
    assert again.generation == 2
    assert all(trial.reused_from is None for trial in again.trials if trial.config in cut)


def test_what_the_default_sampler_expected_is_recorded_beside_what_came(bench: Bench) -> None:
    file = cuttable(trials=14, sampler="auto")
    bench.run(file, measured, stages=on_the_way)
    late = [trial for trial in bench.record().trials if trial.number >= 11]
    assert all(trial.forecast is not None for trial in late)
    for trial in late:
        assert trial.proposed_by in ("explore", "exploit")
        assert trial.forecast is not None and trial.forecast.probability_ok is not None
        assert 0 <= trial.forecast.probability_ok <= 1
        assert set(trial.forecast.expected) == {FAST, LOSS}
        for value, low, high in trial.forecast.expected.values():
            assert low <= value <= high
