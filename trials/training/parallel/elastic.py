"""``torchrun --nproc-per-node=N -m trials.training.parallel.elastic spec.json``: one trial under torchrun.

torchrun starts the ranks and brings them together; each takes its share of the cores, which torchrun does not
pin. Rank 0 leaves the result beside the spec.
"""

import time

_STARTED_AT = time.monotonic()  # first: the phase clocks start here

import dataclasses  # noqa: E402
import os  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from trials import runner  # noqa: E402
from trials.contract import RESULT_FILE, TrialSpec  # noqa: E402
from trials.training.parallel.launch import core_shares, cores_of, spec_of_rank  # noqa: E402
from trials.training.world import LAUNCHER, RANK, STARTED_AT  # noqa: E402


def main(file: Path) -> int:
    """Run this rank of the trial whose spec is ``file``; returns the exit status."""
    folder = file.resolve().parent
    spec = dataclasses.replace(TrialSpec.from_json(file.read_text(encoding="utf-8")), trial_dir=folder)
    os.environ |= {LAUNCHER: str(os.getppid()), STARTED_AT: repr(_STARTED_AT)}
    rank = int(os.environ[RANK])
    local, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    own = spec_of_rank(spec, rank, core_shares(cores_of(spec), here)[local])
    status = runner.main([str(own)], _STARTED_AT)
    if rank == 0 and status in (runner.EXIT_COMPLETE, runner.EXIT_FAILED):
        shutil.copyfile(own.parent / RESULT_FILE, folder / RESULT_FILE)
    return status


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
