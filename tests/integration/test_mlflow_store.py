"""The contract suite of tracking on an sqlite store, and what only a store of our own can show."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.contracts.tracking_suite import WAIT_S, TrackingSuite
from tests.unit.tracking.mlflow_store import EXPERIMENT, new_store, runs
from tuner.results import StudyResult
from tuner.tracking import MlflowTracker, replay, ui_address


class TestSqliteStore(TrackingSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> str:
        return new_store(tmp_path)

    def test_the_ui_opens_on_the_runs_and_no_logger_is_left(self, store: str, result: StudyResult) -> None:
        replay(result.record, result, store, EXPERIMENT)
        assert "experiments/" in ui_address(store) and "machine_learning" in ui_address(store)
        assert not loggers()

    def test_a_logger_killed_outright_costs_one_warning_and_the_end_brings_everything(
        self, store: str, result: StudyResult, trackers: list[MlflowTracker]
    ) -> None:
        said: list[str] = []
        tracker = MlflowTracker(store, EXPERIMENT, warn=said.append)
        trackers.append(tracker)
        tracker.start(result.record)
        assert tracker.flush(WAIT_S)
        tracker.trial(result.trial(0))
        (process,) = loggers()
        os.kill(process, signal.SIGKILL)
        for trial in result.trials[1:]:
            tracker.trial(trial)
            tracker.flush(WAIT_S)
        assert len(said) == 1 and "its process ended" in said[0] and "tuner log lm-training" in said[0]
        assert tracker.finish(result, timeout_s=WAIT_S)
        found = runs(store)
        assert len(found) == 15 and len({run.data.tags.get("tuner.trial") for run in found}) == 15
        assert not loggers()


def loggers() -> list[int]:
    """The logger processes that this process started and that live."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = [int(word) for task in tasks for word in task.read_text().split()]
    return [pid for pid in children if b"tuner.tracking.logger" in Path(f"/proc/{pid}/cmdline").read_bytes()]
