"""What MLflow is told while a study runs, and of one whose baseline failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.unit.study.bench import FAST, LOSS, Bench, failed, gave, study_file
from tuner.cli.mlflow_watch import TrackerWatcher, finish_tracking
from tuner.records.repository import Records
from tuner.results import StudyResult, judge
from tuner.space.model import ConfirmSettings
from tuner.tracking.views import StudyViews


@dataclass
class FakeTracker:
    """Remembers the hypervolumes that it was told, and how it all ended."""

    curve: list[tuple[int, float]] = field(default_factory=list)
    ended_as: StudyResult | None = None
    is_busy: bool = False

    def start(self, study: Any) -> None:
        self.is_busy = True

    def flush(self) -> None:
        self.is_busy = False

    def trial(self, trial: Any, hypervolume: float | None) -> None:
        self.is_busy = True
        if hypervolume is not None:
            self.curve.append((trial.number, hypervolume))

    def finish(self, result: StudyResult) -> None:
        self.ended_as = result


def watched(bench: Bench, file: Any, measure: Any, tracker: FakeTracker | None = None) -> FakeTracker:
    tracker = tracker or FakeTracker()
    with Records.open(bench.database) as records:
        bench.notes = TrackerWatcher(tracker, records, file.name)  # type: ignore[assignment, arg-type]
        bench.notes.note = lambda message: None
        bench.run(file, measure)
    return tracker


def better_and_better(spec, nth):
    """Each trial of the search is faster; every second one also breaks down when it is measured again."""
    return gave(**{FAST: 100.0 + 10 * spec.trial_number + nth, LOSS: 2.0})


def test_the_curve_of_the_hypervolume_grows_with_the_trials_and_is_the_one_of_the_end(bench: Bench) -> None:
    file = study_file(x=9, trials=7, confirm=ConfirmSettings(finalists=2, repeats=2, baseline_repeats=2))
    first = watched(bench, study_file(x=9, trials=4, confirm=file.confirm), better_and_better)
    second = watched(bench, file, better_and_better)  # goes on: what is known is read once
    history = [point for point in judge(bench.record()).history if point[0] > 0]
    assert [*first.curve, *second.curve] == history
    assert len({volume for _, volume in history}) == 6


def test_mlflow_starts_beside_the_cold_run_and_is_at_rest_in_every_window_that_counts(bench: Bench) -> None:
    tracker, was_busy = FakeTracker(), []

    def measure(spec, nth):
        was_busy.append(tracker.is_busy)
        return better_and_better(spec, nth)

    watched(bench, study_file(x=9, trials=4), measure, tracker)
    assert was_busy == [True, *[False] * (len(was_busy) - 1)]
    assert len(was_busy) > 5


def test_a_study_whose_baseline_failed_ends_as_failed_in_mlflow(bench: Bench) -> None:
    file = study_file()
    bench.run(file, lambda spec, nth: failed("crash"))
    tracker, said = FakeTracker(), []
    with Records.open(bench.database) as records:
        finish_tracking(tracker, records, file.name, None, said.append)  # type: ignore[arg-type]
    assert said == []
    assert tracker.ended_as is not None
    assert StudyViews(bench.record()).closing(tracker.ended_as)[0].status == "FAILED"
