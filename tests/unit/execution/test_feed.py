"""What stands between the study and Ray Tune, without Ray."""

from pathlib import Path

import pytest

from tests.contracts.executor_suite import ListSource
from tests.faults.processes import job
from trials.contract import FailureKind, Measurement, Outcome
from tuner.execution import feed as feed_module
from tuner.execution.feed import Feed
from tuner.execution.protocol import ExecutionError, Job, Signal

GOOD = Measurement(Outcome.COMPLETE)


class Cuts:
    """Counts how often running trials were told to end."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_a_job_is_handed_out_and_back_once(tmp_path: Path) -> None:
    source = ListSource([job(tmp_path, 0, "complete")])
    feed = Feed(source, Cuts())
    assert isinstance(feed.next_job("a"), Job)
    feed.complete("a", GOOD)
    feed.complete("a", GOOD)
    feed.complete("never handed out", GOOD)
    assert [measurement for _, measurement in source.ended] == [GOOD]
    assert feed.next_job("b") is Signal.FINISHED


def test_a_source_that_waits_is_not_asked_again_before_something_ends(tmp_path: Path) -> None:
    cut = job(tmp_path, 1, "hang")
    source = ListSource([job(tmp_path, 0, "complete")], cut_with=cut)
    feed = Feed(source, Cuts())
    feed.next_job("a")
    assert [feed.next_job("b") for _ in range(5)] == [Signal.WAIT] * 5
    assert len(source.asked_with) == 2
    feed.complete("a", GOOD)
    assert feed.next_job("b") == cut


def test_waiting_while_nothing_runs_ends_the_run_instead_of_hanging_it() -> None:
    class Waiting(ListSource):
        def next_job(self, running: int) -> Job | Signal:
            return Signal.WAIT

    feed = Feed(Waiting([]), Cuts())
    assert feed.next_job("a") is Signal.FINISHED
    assert isinstance(feed.problem, ExecutionError)
    assert feed.must_stop()


def test_an_actor_that_died_ends_its_job_as_killed(tmp_path: Path) -> None:
    source = ListSource([job(tmp_path, 0, "complete")])
    feed = Feed(source, Cuts())
    feed.next_job("a")
    feed.complete("a", None)
    assert source.measurement(0).failure_kind is FailureKind.KILLED


def test_an_interrupt_cuts_asks_for_nothing_more_and_waits_for_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cuts = ListSource([job(tmp_path, number, "hang") for number in range(3)]), Cuts()
    feed = Feed(source, cuts)
    feed.next_job("a")
    feed.next_job("b")
    feed.interrupt()
    assert cuts.count == 1
    assert feed.next_job("c") is Signal.FINISHED
    assert not feed.must_stop()  # both may still report
    feed.complete("a", Measurement.failed(FailureKind.INTERRUPTED, "by its guardian"))
    monkeypatch.setattr(feed_module, "GRACE_S", 0.0)
    assert feed.must_stop()
    feed.hand_back_the_rest()
    assert [m.failure_kind for _, m in source.ended] == [FailureKind.INTERRUPTED] * 2


def test_a_study_that_must_stop_is_cut(tmp_path: Path) -> None:
    cut = job(tmp_path, 0, "hang")
    source, cuts = ListSource([], cut_with=cut), Cuts()
    feed = Feed(source, cuts)
    feed.next_job("a")
    cut.spec.trial_dir.mkdir()
    (cut.spec.trial_dir / "daemon.pid").touch()
    assert not feed.must_stop()
    assert cuts.count == 1
    feed.complete("a", None)
    assert feed.must_stop()
    assert source.measurement(0).failure_kind is FailureKind.INTERRUPTED


def test_an_exception_of_the_study_is_kept_and_ends_the_run(tmp_path: Path) -> None:
    class Broken(ListSource):
        def on_result(self, job: Job, measurement: Measurement) -> None:
            raise LookupError("no database")

    cuts = Cuts()
    feed = Feed(Broken([job(tmp_path, 0, "complete"), job(tmp_path, 1, "hang")]), cuts)
    feed.next_job("a")
    feed.next_job("b")
    feed.complete("a", GOOD)
    assert isinstance(feed.problem, LookupError)
    assert feed.next_job("c") is Signal.FINISHED
    feed.must_stop()
    assert cuts.count == 1
