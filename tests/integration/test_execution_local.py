"""The local executor keeps the contract of executors."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.executor_suite import ExecutorSuite, ListSource
from tests.faults.processes import FAKE_TRIAL, job, private_runtime
from trials.contract import FailureKind, Outcome, TrialSpec
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import ExecutionError, Slots


class TestLocalExecutor(ExecutorSuite):
    @staticmethod
    def executor() -> LocalExecutor:
        return LocalExecutor(program=FAKE_TRIAL)

    def test_every_slot_is_used(self, source: ListSource, slots: Slots) -> None:
        used = {(job.spec.trial_dir / "cpus").read_text() for job, _ in source.ended}
        assert len(used) == slots.count


@pytest.fixture(autouse=True)
def _runtime() -> Iterator[None]:
    with private_runtime():
        yield


def test_a_slot_that_no_machine_could_hold_is_refused_before_anything_runs(tmp_path: Path) -> None:
    source = ListSource([job(tmp_path, 0, "complete")])
    with pytest.raises(ExecutionError, match=r"resources.cpus=4096.*use at most"):
        LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=4096))
    assert source.ended == []


def test_an_executor_that_was_interrupted_before_it_ran_asks_for_no_job(tmp_path: Path) -> None:
    source = ListSource([job(tmp_path, 0, "complete")])
    executor = LocalExecutor(program=FAKE_TRIAL)
    executor.interrupt()
    executor.run(source, Slots(1, cpus=1))
    assert source.asked_with == []


def test_an_exception_of_the_study_ends_what_runs_and_is_raised(tmp_path: Path) -> None:
    class Broken(ListSource):
        def must_stop(self) -> bool:
            raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        LocalExecutor(program=FAKE_TRIAL).run(Broken([job(tmp_path, 0, "hang")]), Slots(1, cpus=1))


def test_a_folder_that_cannot_be_written_ends_as_a_crash_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("a file where the trial's folder should be")
    source = ListSource([job(tmp_path, 0, "complete"), job(tmp_path, 1, "complete")])
    LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=1))
    broken = source.measurement(0)
    assert broken.failure_kind is FailureKind.CRASH
    assert str(tmp_path / "0") in broken.message
    assert source.measurement(1).outcome is Outcome.COMPLETE


def test_a_full_disk_ends_as_a_crash_and_the_run_goes_on(tmp_path: Path) -> None:
    source = ListSource([job(tmp_path, 0, "complete"), job(tmp_path, 1, "complete")])
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "spec.json").symlink_to("/dev/full")
    LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=1))
    assert source.measurement(0).failure_kind is FailureKind.CRASH
    assert "No space left on device" in source.measurement(0).message
    assert source.measurement(1).outcome is Outcome.COMPLETE


def test_a_program_that_is_not_there_ends_as_a_crash_that_says_so(tmp_path: Path) -> None:
    source = ListSource([job(tmp_path, 0, "complete")])
    LocalExecutor(program=("/nowhere/python",)).run(source, Slots(1, cpus=1))
    assert source.measurement(0).failure_kind is FailureKind.CRASH
    assert "could not be started" in source.measurement(0).message


def test_a_variable_that_is_not_set_ends_as_a_crash_that_names_it(tmp_path: Path) -> None:
    unset = {"env.TOKEN": "${TUNER_TEST_UNSET}"}
    source = ListSource([job(tmp_path, 0, "complete", **unset)])
    LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=1))
    assert source.measurement(0).failure_kind is FailureKind.CRASH
    assert "TUNER_TEST_UNSET" in source.measurement(0).message


def test_the_recorded_command_runs_the_trial_again_by_hand(tmp_path: Path) -> None:
    source = ListSource([job(tmp_path, 0, "complete", **{"env.GREETING": "it's ${HOME}"})])
    LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=1))
    folder = tmp_path / "0"
    (folder / "result.json").unlink()
    command = (folder / "command.txt").read_text()
    subprocess.run(["sh", "-c", command], check=True, env={"HOME": "/there", "PATH": os.environ["PATH"]})
    assert "it's /there" in (folder / "result.json").read_text()


def test_a_secret_is_written_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_TEST_SECRET", "hunter2")
    source = ListSource([job(tmp_path, 0, "exit", status=0, **{"env.TOKEN": "${TUNER_TEST_SECRET}"})])
    LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=1))
    written = b"".join(path.read_bytes() for path in (tmp_path / "0").iterdir())
    assert b"hunter2" not in written


def test_two_studies_on_one_machine_do_not_share_cores_without_saying_so(tmp_path: Path) -> None:
    hold = (
        "import time; from tuner.execution.placement import Holding, usable_cores;"
        "cores = Holding('core', map(str, usable_cores())); cores.take(10000);"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"held\n"
        source = ListSource([job(tmp_path, 0, "complete")])
        LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=1))
        other.kill()
    measurement = source.measurement(0)
    assert measurement.outcome is Outcome.COMPLETE
    assert "contaminated" in measurement.facts
    assert any("wanted 1 core" in warning for warning in measurement.warnings)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_slot_keeps_its_number_of_cores_where_another_study_holds_some(tmp_path: Path) -> None:
    hold = (
        "import time; from tuner.execution.placement import Holding, usable_cores;"
        "cores = Holding('core', map(str, usable_cores())); cores.take(1);"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"held\n"
        source = ListSource([job(tmp_path, 0, "complete")])
        LocalExecutor(program=FAKE_TRIAL).run(source, Slots(1, cpus=len(os.sched_getaffinity(0))))
        other.kill()
    given = TrialSpec.from_json((tmp_path / "0" / "spec.json").read_text()).cpus
    assert set(given) == os.sched_getaffinity(0)
    assert "contaminated" in source.measurement(0).facts
