"""What every place that MLflow keeps its data in must show of a study. Subclass it and give ``store``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.unit.tracking import example
from tests.unit.tracking.mlflow_store import EXPERIMENT, artifacts, history, runs
from tuner.results import StudyResult, judge
from tuner.tracking import MlflowTracker, replay

WAIT_S = 120.0  # generous: the machine may be busy; nothing here waits for its end


def started(trackers: list[MlflowTracker], store: str, result: StudyResult, **known: str) -> MlflowTracker:
    tracker = MlflowTracker(store, EXPERIMENT, warn=_refuse, **known)
    trackers.append(tracker)
    assert tracker.start(result.record)
    assert tracker.flush(WAIT_S)
    return tracker


def _refuse(line: str) -> None:
    raise AssertionError(line)


class TrackingSuite:
    """One study as runs, metrics and files; again, later, or after a cut."""

    @pytest.fixture
    def store(self) -> str:
        """The address of a store without runs."""
        raise NotImplementedError("a subclass says where")

    @pytest.fixture(scope="class")
    @classmethod
    def result(cls) -> StudyResult:
        return judge(example.study())

    @pytest.fixture
    def trackers(self) -> Iterator[list[MlflowTracker]]:
        """Trackers made by a test, closed whatever happens."""
        made: list[MlflowTracker] = []
        yield made
        for tracker in made:
            tracker.close()

    def test_a_study_is_a_run_with_one_child_a_trial(
        self, store: str, result: StudyResult, trackers: list[MlflowTracker]
    ) -> None:
        tracker = started(trackers, store, result)
        for trial in result.trials:
            assert tracker.trial(trial, dict(result.history)[trial.number])
            assert tracker.flush(WAIT_S)
        assert tracker.finish(
            result, {"pareto_front.html": "<p>front</p>", "pareto_front.png": b"\x89PNG"}, WAIT_S
        )
        parent, *children = runs(store)
        assert parent.info.run_id == tracker.run_id
        assert [int(run.data.tags["tuner.trial"]) for run in children] == list(range(14))
        assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
        assert {run.info.status for run in children if run.data.tags["tuner.outcome"] == "failed"} == {
            "FAILED"
        }
        assert history(store, parent.info.run_id, "hypervolume") == list(result.history)
        assert set(artifacts(store, parent.info.run_id)) >= {"pareto_front.html", "pareto_front.png"}
        assert artifacts(store, children[5].info.run_id) == ["config.json"]
        assert children[5].data.metrics["tokens_per_s"] == result.trial(5).estimates["tokens_per_s"].value

    def test_a_replay_says_the_same_as_the_study_did_and_twice_changes_nothing(
        self, store: str, result: StudyResult
    ) -> None:
        first = replay(result.record, result, store, EXPERIMENT, {"report.html": "one"})
        before = [(run.info.run_id, run.data.metrics, run.data.params, run.data.tags) for run in runs(store)]
        curve = history(store, first, "hypervolume")
        assert replay(result.record, result, store, EXPERIMENT, {"report.html": "one"}) == first
        assert [
            (run.info.run_id, run.data.metrics, run.data.params, run.data.tags) for run in runs(store)
        ] == before
        assert history(store, first, "hypervolume") == curve == list(result.history)

    def test_a_trial_that_was_confirmed_since_shows_its_new_value(
        self, store: str, trackers: list[MlflowTracker], result: StudyResult
    ) -> None:
        searched = [
            replace(trial, measurements=tuple(run for run in trial.measurements if run.purpose != "confirm"))
            for trial in example.usual_trials()
        ]
        early = judge(example.study(searched))
        tracker = started(trackers, store, early)
        tracker.trial(early.trial(1))
        assert tracker.finish(result, timeout_s=WAIT_S)
        child = runs(store)[2]
        assert child.data.metrics["tokens_per_s"] == result.trial(1).estimates["tokens_per_s"].value
        assert child.data.tags["tuner.confirmed"] == "yes"
        assert child.info.run_name.startswith("001 ★")

    def test_a_study_that_goes_on_finds_its_run_again(
        self, store: str, result: StudyResult, trackers: list[MlflowTracker]
    ) -> None:
        first = started(trackers, store, result)
        first.trial(result.trial(0))
        assert first.flush(WAIT_S)
        first.close()
        assert runs(store)[0].info.status == "KILLED"
        again = started(trackers, store, result, known_run_id=str(first.run_id))
        assert runs(store)[0].info.status == "RUNNING"
        assert again.finish(result, timeout_s=WAIT_S)
        assert len(runs(store)) == 15 and again.run_id == first.run_id

    def test_a_run_id_from_another_store_is_no_obstacle(self, store: str, result: StudyResult) -> None:
        strange = replace(result.record, notes={"mlflow_run_id": "0123456789abcdef0123456789abcdef"})
        assert replay(strange, result, store, EXPERIMENT) == runs(store)[0].info.run_id

    def test_a_new_generation_gets_a_run_of_its_own_though_the_old_id_is_noted(
        self, store: str, result: StudyResult
    ) -> None:
        old = replay(result.record, result, store, EXPERIMENT)
        record = replace(result.record, generation=2, notes={"mlflow_run_id": old})
        new = replay(record, replace(result, record=record), store, EXPERIMENT)
        assert new != old
        assert [run.info.run_name for run in runs(store)[:2]].count("lm-training (generation 2)") == 1

    def test_two_studies_of_one_name_stay_apart(self, store: str, result: StudyResult) -> None:
        later = replace(result.record, created_at=example.BEGIN.replace(year=2027))
        one = replay(result.record, result, store, EXPERIMENT)
        other = replay(later, replace(result, record=later), store, EXPERIMENT)
        assert one != other and len(runs(store)) == 30

    def test_the_parent_id_is_told_once_and_before_the_first_trial(
        self, store: str, result: StudyResult, trackers: list[MlflowTracker]
    ) -> None:
        told: list[str] = []
        tracker = MlflowTracker(store, EXPERIMENT, on_parent=told.append)
        trackers.append(tracker)
        tracker.start(result.record)
        tracker.flush(WAIT_S)
        assert told == [runs(store)[0].info.run_id]
        tracker.trial(result.trial(0))
        tracker.finish(result, timeout_s=WAIT_S)
        assert len(told) == 1

    def test_what_was_not_written_before_a_kill_is_replayed_into_the_same_runs(
        self, store: str, result: StudyResult, trackers: list[MlflowTracker]
    ) -> None:
        tracker = started(trackers, store, result)
        tracker.trial(result.trial(0))
        tracker.flush(WAIT_S)
        tracker.close()
        record = replace(result.record, notes={"mlflow_run_id": tracker.run_id})
        assert replay(record, result, store, EXPERIMENT) == tracker.run_id
        assert len(runs(store)) == 15 and runs(store)[0].info.status == "FINISHED"

    def test_an_experiment_that_was_deleted_is_named_with_the_way_out(
        self, store: str, result: StudyResult
    ) -> None:
        client = MlflowClient(store)
        client.delete_experiment(client.create_experiment(EXPERIMENT))
        with pytest.raises(Exception, match=r"deleted; restore it, or set tracking\.experiment"):
            replay(result.record, result, store, EXPERIMENT)

    def test_more_parameters_than_one_batch_takes_are_all_there(self, store: str) -> None:
        many = {f"flag_{number}": number for number in range(250)}
        trial = example.trial(0, [example.run(0, example.numbers(1e4, 2.3))], engine_args=many)
        result = judge(example.study([trial]))
        replay(result.record, result, store, EXPERIMENT)
        child = runs(store)[1]
        assert child.data.params["engine_args.flag_249"] == "249" and len(child.data.params) == 254
        client = MlflowClient(store)
        whole = Path(client.download_artifacts(child.info.run_id, "config.json"))
        assert json.loads(whole.read_text())["engine_args"] == many
