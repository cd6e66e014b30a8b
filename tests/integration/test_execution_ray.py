"""The Ray Tune executor keeps the contract of executors."""

import json
import os
import subprocess
import sys
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


FOREIGN_CLUSTER = """
import sys, ray
quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
context = ray.init(num_cpus=1, _temp_dir=sys.argv[1], **quiet)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
assert ray.get(ray.remote(lambda: 1).remote()) == 1
print("up", flush=True)
"""


def test_a_cluster_of_somebody_else_is_used_by_address_and_left_running(tmp_path: Path) -> None:
    with private_runtime() as runtime:
        environment = {**os.environ, "HOME": str(tmp_path), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        environment["RAY_AUTH_MODE"] = "token"
        with subprocess.Popen(
            [sys.executable, "-c", FOREIGN_CLUSTER, str(runtime / "r")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        ) as cluster:
            assert cluster.stdout
            assert cluster.stdin
            address = cluster.stdout.readline().strip()
            jobs = [{"do": "complete"}, {"do": "exit", "status": 3}]
            driver = subprocess.run(
                [sys.executable, "-m", "tests.faults.driver", address, str(tmp_path), json.dumps(jobs)],
                capture_output=True,
                text=True,
                env=environment,
                cwd=Path(__file__).parents[2],
                check=False,
            )
            cluster.stdin.close()
            assert cluster.stdout.readline() == "up\n"
        assert driver.stderr == ""
        assert [json.loads(line)["kind"] for line in driver.stdout.splitlines()] == [None, "crash"]
