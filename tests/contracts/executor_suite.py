"""What every executor must do. Subclass it and give ``executor``; one run serves all tests of the class."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import ends, is_running, job, private_runtime, processes_of_driver
from trials.contract import FailureKind, Measurement, Outcome
from trials.stages import read_stages
from tuner.execution.cut import ask_to_cut
from tuner.execution.protocol import Executor, Job, JobSource, Signal, Slots


class ListSource:
    """Hands out a list of jobs, two at a time at most; cuts the run once ``cut_with`` has been running for
    a while.
    """

    def __init__(self, jobs: list[Job], cut_with: Job | None = None) -> None:
        self._todo = [*jobs, *([cut_with] if cut_with else [])]
        self._cut_with = cut_with
        self.ended: list[tuple[Job, Measurement]] = []
        self.asked_with: list[int] = []
        self._given: list[Job] = []
        self.left_processes: list[int] = []
        self.left_in_runtime: list[str] = []

    def next_job(self, running: int) -> Job | Signal:
        self.asked_with.append(running)
        if not self._todo:
            return Signal.FINISHED
        if self._todo[0] is self._cut_with and running:
            return Signal.WAIT
        self._given.append(self._todo[0])
        return self._todo.pop(0)

    def on_result(self, job: Job, measurement: Measurement) -> None:
        self.ended.append((job, measurement))

    def must_stop(self) -> bool:
        return self._cut_with is not None and (self._cut_with.spec.trial_dir / "daemon.pid").exists()

    def look(self) -> None:
        """Cuts every job that reports a stage."""
        for given in self._given:
            if read_stages(given.spec.trial_dir)[0]:
                ask_to_cut(given.spec.trial_dir, "no chance")

    def measurement(self, number: int) -> Measurement:
        found = [measurement for job, measurement in self.ended if job.spec.trial_number == number]
        assert len(found) == 1, "each job is handed back exactly once"
        return found[0]


JOBS: dict[str, dict[str, Any]] = {
    "complete": {"value": 2.5},
    "exit": {"status": 9},
    "hang": {"timeout_s": 1.0},
    "eat": {"mebibytes": 600, "memory_limit_gib": 0.2},
    "nan": {},
    "report_then_die": {},
    "print_error": {},
    "daemon": {},
    "typed_failure": {"kind": "unsupported"},
    "sleep": {"seconds": 1.0},
    "no_result": {},
    "staged": {"report_at": (0.5,)},
}


def _began(job: Job) -> float:
    return (job.spec.trial_dir / "spec.json").stat().st_mtime


def _cpus(job: Job) -> str:
    return (job.spec.trial_dir / "cpus").read_text()


class ExecutorSuite:
    """The contract of ``tuner.execution.protocol.Executor``."""

    @staticmethod
    def executor() -> Executor:
        """A new executor whose jobs are run by the fake trial."""
        raise NotImplementedError("a subclass says which executor it tests")

    @pytest.fixture(scope="class")
    @classmethod
    def slots(cls) -> Slots:
        return Slots(count=min(2, len(os.sched_getaffinity(0))), cpus=1)

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, slots: Slots, tmp_path_factory: pytest.TempPathFactory) -> ListSource:
        folder = tmp_path_factory.mktemp("trials")
        jobs = [job(folder, number, do, **details) for number, (do, details) in enumerate(JOBS.items())]
        cut = job(folder, len(jobs), "hang")
        source = ListSource(jobs, cut_with=cut)
        is_source: JobSource = source  # the fake keeps the protocol
        with private_runtime() as runtime:
            cls.executor().run(is_source, slots)
            source.left_in_runtime = sorted(
                path.name for path in runtime.iterdir() if not path.name.endswith(".lock")
            )
        source.left_processes = processes_of_driver(os.getpid())
        return source

    def ended(self, source: ListSource, do: str) -> Measurement:
        return source.measurement(list(JOBS).index(do))

    def test_a_job_that_completes_brings_its_metrics(self, source: ListSource) -> None:
        measurement = self.ended(source, "complete")
        assert measurement.outcome is Outcome.COMPLETE
        assert measurement.metrics["score"].value == 2.5

    def test_its_phases_say_what_the_run_cost_around_it(self, source: ListSource) -> None:
        phases = self.ended(source, "complete").phases
        assert 0 < phases["launch_s"] <= phases["wall_s"]

    @pytest.mark.parametrize(
        ("do", "kind"),
        [
            ("exit", FailureKind.CRASH),
            ("hang", FailureKind.TIMEOUT),
            ("eat", FailureKind.OUT_OF_MEMORY),
            ("nan", FailureKind.NON_FINITE),
            ("report_then_die", FailureKind.KILLED),
            ("typed_failure", FailureKind.UNSUPPORTED),
            ("no_result", FailureKind.CRASH),
        ],
    )
    def test_a_job_that_fails_ends_as_its_own_kind(
        self, source: ListSource, do: str, kind: FailureKind
    ) -> None:
        measurement = self.ended(source, do)
        assert (measurement.outcome, measurement.failure_kind) == (Outcome.FAILED, kind), measurement.message
        assert not measurement.metrics or do == "typed_failure"

    def test_a_job_that_is_cut_short_ends_as_pruned_with_all_its_processes(self, source: ListSource) -> None:
        measurement = self.ended(source, "staged")
        assert (measurement.outcome, measurement.failure_kind) == (Outcome.PRUNED, None), measurement.message
        assert measurement.message == "no chance"
        assert measurement.metrics["score"].value == 4.0
        assert measurement.phases["wall_s"] < 60

    def test_a_crash_shows_the_end_of_its_log(self, source: ListSource) -> None:
        message = self.ended(source, "exit").message
        assert "exit status 9" in message
        assert "about to leave" in message

    def test_the_word_error_on_its_output_harms_no_job(self, source: ListSource) -> None:
        assert self.ended(source, "print_error").outcome is Outcome.COMPLETE

    def test_a_daemon_does_not_outlive_the_job_that_forked_it(self, source: ListSource) -> None:
        job = next(job for job, _ in source.ended if job.spec.config["do"] == "daemon")
        pid = int((job.spec.trial_dir / "daemon.pid").read_text())
        assert not is_running(pid)

    def test_a_job_runs_on_as_many_cores_as_its_slot_has(self, source: ListSource, slots: Slots) -> None:
        facts = self.ended(source, "complete").facts
        assert len(facts["cpus"]) == slots.cpus
        assert facts["env"]["OMP_NUM_THREADS"] == str(slots.cpus)

    def test_jobs_that_run_at_the_same_time_share_no_core(self, source: ListSource) -> None:
        assert not any("contaminated" in measurement.facts for _, measurement in source.ended)
        for (one, how_one), (other, how_other) in itertools.combinations(source.ended, 2):
            if _began(one) < _began(other) + how_other.phases["wall_s"] - 0.1 and (
                _began(other) < _began(one) + how_one.phases["wall_s"] - 0.1
            ):
                assert _cpus(one) != _cpus(other)

    def test_nothing_of_ray_reaches_the_environment_of_a_job(self, source: ListSource) -> None:
        environment = self.ended(source, "complete").facts["env"]
        assert not [name for name in environment if name.startswith(("RAY_", "TUNE_"))]

    def test_no_more_jobs_run_at_once_than_there_are_slots(self, source: ListSource, slots: Slots) -> None:
        assert max(source.asked_with) < slots.count

    def test_a_job_that_must_stop_is_handed_back_as_interrupted(self, source: ListSource) -> None:
        measurement = source.measurement(len(JOBS))
        assert (measurement.outcome, measurement.failure_kind) == (Outcome.FAILED, FailureKind.INTERRUPTED)

    def test_nothing_is_left_behind(self, source: ListSource) -> None:
        assert source.left_processes == []
        assert source.left_in_runtime == []
        for job_, _ in source.ended:
            daemon: Path = job_.spec.trial_dir / "daemon.pid"
            if daemon.exists():
                assert ends(int(daemon.read_text())), job_.spec.config["do"]
