"""A driver in a process of its own, for tests that kill it: ``driver.py local|ray|HOST:PORT FOLDER JOBS``.

JOBS is JSON: a list of configurations of the fake trial. Each result is a line of JSON on stdout; a Ctrl-C
cuts the run and the program then exits with 130, as the command line does.
"""

import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.contracts.executor_suite import ListSource
from tests.faults.processes import FAKE_TRIAL, job
from trials.contract import Measurement
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import Job, Slots
from tuner.execution.ray_tune import RayTuneExecutor


class Printing(ListSource):
    def on_result(self, job: Job, measurement: Measurement) -> None:
        super().on_result(job, measurement)
        line = {
            "number": job.spec.trial_number,
            "kind": measurement.failure_kind,
            "message": measurement.message,
        }
        print(json.dumps(line), flush=True)


def main() -> int:
    where, folder, jobs = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    executor: LocalExecutor | RayTuneExecutor
    if where == "local":
        executor = LocalExecutor(program=FAKE_TRIAL)
    else:
        executor = RayTuneExecutor(None if where == "ray" else where, program=FAKE_TRIAL)
    is_interrupted = False

    def on_ctrl_c(*_: Any) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        executor.interrupt()

    signal.signal(signal.SIGINT, on_ctrl_c)
    executor.run(
        Printing([job(folder, number, **details) for number, details in enumerate(jobs)]), Slots(1, cpus=1)
    )
    return 130 if is_interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
