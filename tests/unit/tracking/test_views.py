from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.unit.tracking import example
from trials.contract import FailureKind, MetricValue, Outcome
from tuner.results import StudyResult, TrialResult, judge
from tuner.tracking.notes import study_note, trial_note
from tuner.tracking.views import MAX_PARAM_LENGTH, NOTE, StudyViews
from tuner.tracking.wire import Closing, Opening, RunView, StudyKey, decode, encode


def judged(*trials: Any, **changed: Any) -> StudyResult:
    return judge(example.study(trials or None, **changed))


def view_of(trial: TrialResult) -> RunView:
    return StudyViews(example.study()).trial(trial)


def test_a_trial_shows_its_configuration_flat_and_its_values_with_their_intervals() -> None:
    trial = judged().trial(5)
    view = view_of(trial)
    values = {point.name: point.value for point in view.points}
    assert view.params == {
        "precision": "bf16", "micro_batch_size": "32", "compile": "true", "task.learning_rate": "0.001"
    }  # fmt: skip
    estimate = trial.estimates["tokens_per_s"]
    assert values["tokens_per_s"] == estimate.value
    assert (values["tokens_per_s.low"], values["tokens_per_s.high"]) == (estimate.low, estimate.high)
    assert (
        view.status == "FINISHED"
        and view.tags["tuner.on_front"] == "yes"
        and view.tags["tuner.confirmed"] == "yes"
    )
    assert view.name == "005 ☆ bf16, compile"


def test_a_trial_that_was_cut_short_shows_no_value_that_it_only_had_on_the_way() -> None:
    trial = judged().trial(3)
    on_the_way = MetricValue(3.0, "tokens/s", flags=("partial",))
    run = replace(trial.measurements[-1], outcome=Outcome.PRUNED, metrics={"tokens_per_s": on_the_way})
    view = view_of(replace(trial, outcome=Outcome.PRUNED, failure_kind=None, measurements=(run,)))
    assert (view.status, view.tags["tuner.outcome"]) == ("FINISHED", "pruned")
    assert "tokens_per_s" not in {point.name for point in view.points}


def test_a_failed_trial_says_why_and_how_to_run_it_again() -> None:
    view = view_of(judged().trial(3))
    assert view.status == "FAILED"
    assert view.tags["tuner.failure_kind"] == FailureKind.OUT_OF_MEMORY
    assert "6.3 GiB of 6 GiB" in view.tags["tuner.reason"]
    assert "python -m trials" in view.tags[NOTE] and "spec.json" in view.tags[NOTE]


def test_nan_and_infinity_are_words_in_a_tag_and_never_numbers() -> None:
    run = example.run(0, example.numbers(1e4, 2.3))
    run = replace(
        run, metrics={**run.metrics, "gap": MetricValue(math.inf, "s"), "odd": MetricValue(math.nan, "")}
    )
    view = view_of(judged(example.trial(0, [run])).trial(0))
    assert all(math.isfinite(point.value) for point in view.points)
    assert view.tags["tuner.not_finite"] == "gap=inf, odd=nan"


def test_a_long_value_is_cut_and_tagged_and_whole_in_the_artifact() -> None:
    flags = "x" * 7000
    view = view_of(
        judged(example.trial(0, [example.run(0, example.numbers(1e4, 2.3))], engine_args=flags)).trial(0)
    )
    assert len(view.params["engine_args"]) == MAX_PARAM_LENGTH
    assert view.tags["tuner.cut_params"] == "engine_args"
    assert json.loads(view.texts["config.json"])["engine_args"] == flags


def test_a_renamed_metric_keeps_its_own_name_in_a_tag() -> None:
    run = example.run(0, {**example.numbers(1e4, 2.3), "acc@1": 0.5})
    view = view_of(judged(example.trial(0, [run])).trial(0))
    assert "acc_at_1" in {point.name for point in view.points}
    assert json.loads(view.tags["tuner.original_names"])["acc_at_1"] == "acc@1"


def test_one_of_the_three_ones_stays_one_of_the_three() -> None:
    shown = [
        view_of(
            judged(example.trial(0, [example.run(0, example.numbers(1e4, 2.3))], level=level)).trial(0)
        ).params["level"]
        for level in (1, 1.0, True, None, "1")
    ]
    assert shown == ["1", "1.0", "true", "null", "1"]


def test_the_study_shows_its_curve_its_front_and_its_reference_point() -> None:
    result = judged()
    run, trials = StudyViews(result.record).closing(result)
    curve = [(point.step, point.value) for point in run.points if point.name == "hypervolume"]
    assert curve == list(result.history)
    assert run.params["reference_point.val_loss_nats"] == "4.62"
    assert run.tags["tuner.front"] == ", ".join(map(str, result.front))
    assert "val_loss_nats <= baseline + 0.05" in run.params["limits"]
    assert len(trials) == 14 and run.status == "FINISHED"
    assert [view.trial for view in trials if view.tags["tuner.is_recommended"] == "yes"] == [
        result.recommended.trial
    ]  # type: ignore[union-attr]


def test_an_interrupted_study_is_killed_and_one_without_a_baseline_failed() -> None:
    for changed, status in (({"stopped_because": "interrupted"}, "KILLED"), ({"bounds": None}, "FAILED")):
        result = judged(**changed)
        assert StudyViews(result.record).closing(result)[0].status == status


def test_a_study_without_trials_can_be_shown() -> None:
    result = judge(example.study([], bounds=None, reference_point=None))
    run, trials = StudyViews(result.record).closing(result)
    assert trials == () and run.points and "No trial has been run yet" in run.tags[NOTE]


def test_markdown_in_a_configuration_stays_text() -> None:
    trials = example.usual_trials()
    trials[1] = replace(trials[1], config={**trials[1].config, "precision": "<b>|*bf16*"})
    note = study_note(judge(example.study(trials)))
    assert r"precision=\<b\>\|\*bf16\*" in note
    assert "<b>" not in trial_note(replace(judge(example.study(trials)).trial(3), message="<b>no</b>"))


def test_messages_come_out_of_the_pipe_as_they_went_in() -> None:
    result = judged()
    views = StudyViews(result.record)
    run, trials = views.closing(result)
    opening = Opening(
        "sqlite:///x.db", "e", None, StudyKey("s", 1, "now"), views.opening(result.record), "abc"
    )
    for message in (opening, trials[5], Closing(run, trials, "/tmp/files")):
        line = encode(7, message)
        assert line.count(b"\n") == 1
        assert decode(line) == (7, message)


def test_the_recommended_trial_has_a_mark_of_its_own() -> None:
    result = judged()
    assert result.recommended is not None
    _, trials = StudyViews(result.record).closing(result)
    marks = {view.trial: view.name.split()[1] for view in trials}
    assert marks[result.recommended.trial] == "★"
    assert {marks[n] for n in result.front if n != result.recommended.trial} == {"☆"}


def test_starting_a_finished_study_again_does_not_make_its_run_longer() -> None:
    result = judged()
    later = replace(
        result, record=replace(result.record, updated_at=result.record.updated_at + timedelta(days=1))
    )
    runs = [StudyViews(one.record).closing(one)[0] for one in (result, later)]
    assert runs[0].ended_ms == runs[1].ended_ms


def test_the_note_says_a_gain_once_and_truth_as_the_terminal_does() -> None:
    note = study_note(judged())
    assert note.lower().count("against the baseline") == 1
    assert "compile=true" in note and "True" not in note
