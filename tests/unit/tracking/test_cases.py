"""What went wrong for real users of MLflow with tuners; each test is named by the report it answers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.utils.validation import _validate_metric_name

from tests.unit.tracking import example
from tests.unit.tracking.mlflow_store import EXPERIMENT, new_store, runs
from trials.contract import FailureKind
from tuner.results import StudyResult, judge
from tuner.tracking import MlflowTracker, TrackingError, replay
from tuner.tracking.names import NameBook
from tuner.tracking.stores import checked_uri
from tuner.tracking.views import StudyViews
from tuner.tracking.wire import Opening
from tuner.tracking.writer import StudyWriter


@pytest.fixture
def store(tmp_path: Path) -> str:
    return new_store(tmp_path)


def one_trial(metrics: dict[str, float] | None = None, **config: Any) -> StudyResult:
    run = example.run(0, {**example.numbers(1e4, 2.3), **(metrics or {})})
    return judge(example.study([example.trial(0, [run], **config)]))


def shown(store: str, result: StudyResult) -> Any:
    replay(result.record, result, store, EXPERIMENT)
    return runs(store)[1].data


@pytest.mark.parametrize("name", ["acc@1", "timing(s)/gen", "a,b", "lat%", "a//b", ""])
def test_mlflow_9425_any_metric_name_is_shown_under_a_stable_clean_one(store: str, name: str) -> None:
    clean = NameBook().name(name)
    _validate_metric_name(clean)
    data = shown(store, one_trial({name: 0.25}))
    assert data.metrics[clean] == 0.25
    assert json.loads(data.tags["tuner.original_names"])[clean] == name


def test_mlflow_9425_two_names_that_clean_alike_are_both_shown(store: str) -> None:
    metrics = shown(store, one_trial({"a,b": 1.0, "a(b": 2.0})).metrics
    assert metrics["a_b"] == 1.0
    assert [value for name, value in metrics.items() if name.startswith("a_b_")].count(2.0) == 1


def test_nemo_rl_1068_a_metric_and_one_below_it_coexist(store: str) -> None:
    metrics = shown(store, one_trial({"foo/bar": 1.0, "foo": 2.0})).metrics
    assert (metrics["foo.bar"], metrics["foo"]) == (1.0, 2.0)
    assert not any("/" in name for name in metrics)


def test_mlflow_1976_a_parameter_of_7000_characters_is_cut_tagged_and_kept_whole_elsewhere(
    store: str,
) -> None:
    text = "--flag " * 1000
    result = one_trial(engine_args=text)
    data = shown(store, result)
    assert len(data.params["engine_args"]) == 6000 and data.tags["tuner.cut_params"] == "engine_args"
    path = MlflowClient(store).download_artifacts(runs(store)[1].info.run_id, "config.json")
    assert json.loads(Path(path).read_text())["engine_args"] == text


def test_mlflow_1234_no_logging_error_leaves_the_tracker(tmp_path: Path) -> None:
    said: list[str] = []
    tracker = MlflowTracker(f"sqlite:///{tmp_path}/mlflow.db", EXPERIMENT, warn=said.append)
    broken: Any = object()  # as wrong as an input can be
    assert not tracker.start(broken)
    assert not tracker.trial(broken)
    assert not tracker.flush(0.1)
    assert not tracker.finish(broken)
    tracker.close()
    assert len(said) == 1


def test_ray_34857_a_nested_configuration_is_flat_and_children_lie_under_the_study(store: str) -> None:
    data = shown(store, one_trial(engine={"precision": "bf16", "opt": 3}))
    assert data.params["engine.precision"] == "bf16" and data.params["engine.opt"] == "3"
    assert data.tags["mlflow.parentRunId"] == runs(store)[0].info.run_id


def test_mlflow_12259_an_experiment_that_several_make_at_once_is_one(store: str) -> None:
    result = one_trial()
    views = StudyViews(result.record)

    def open_one(_: int) -> str:
        opening = Opening(store, "new one", None, views.key, views.opening(result.record))
        return StudyWriter(opening).open()

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(open_one, range(4)))) == 4
    names = [experiment.name for experiment in MlflowClient(store).search_experiments()]
    assert names.count("new one") == 1


def test_mlflow_3_17_file_store_a_folder_is_explained_and_sqlite_is_the_default() -> None:
    with pytest.raises(TrackingError, match=r"folder.*sqlite:///mlflow\.db"):
        checked_uri("file:./mlruns")
    with pytest.raises(TrackingError, match="folder"):
        MlflowTracker("./mlruns", EXPERIMENT)


def test_a_failed_trial_is_a_failed_run_with_its_reason(store: str) -> None:
    failure = (FailureKind.OUT_OF_MEMORY, "out of memory: 7 GiB of 6 GiB")
    result = judge(example.study([example.trial(0, [example.run(0, {}, failure=failure)])], bounds=None))
    data = shown(store, result)
    assert data.tags["tuner.failure_kind"] == "out_of_memory" and data.tags["tuner.reason"] == failure[1]
    assert [run.info.status for run in runs(store)] == ["FAILED", "FAILED"]
