"""The Ray Tune executor keeps the contract of executors."""

from pathlib import Path

import pytest

from tests.contracts.executor_suite import ExecutorSuite, ListSource
from tests.faults.processes import FAKE_TRIAL, job, private_runtime
from tuner.execution.protocol import ExecutionError, Slots
from tuner.execution.ray_tune import RayTuneExecutor


class TestRayTuneExecutor(ExecutorSuite):
    @staticmethod
    def executor() -> RayTuneExecutor:
        return RayTuneExecutor(program=FAKE_TRIAL)

    def test_it_prints_nothing(self, source: object, capfd: pytest.CaptureFixture[str]) -> None:
        assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "slots", "expected"),
    [
        (None, Slots(1, cpus=4096), "resources.cpus=4096.*use at most"),
        ("ray://somewhere:10001", Slots(1, cpus=1), "instead of ray://"),
        ("127.0.0.1:1", Slots(1, cpus=1), "cannot reach"),
    ],
)
def test_a_place_that_cannot_run_the_jobs_is_refused_in_one_line(
    tmp_path: Path, address: str | None, slots: Slots, expected: str
) -> None:
    source = ListSource([job(tmp_path, 0, "complete")])
    with private_runtime(), pytest.raises(ExecutionError, match=expected) as problem:
        RayTuneExecutor(address, program=FAKE_TRIAL).run(source, slots)
    assert "\n" not in str(problem.value)
    assert source.ended == []
