"""Runs several layouts one after the other in one set of ranks, which meet once: importing torch in every rank is
what such a test costs.

As a program (``python layouts.py JOB``) it is one rank. ``run_layouts`` starts them and returns the measurements.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from trials.contract import Measurement, Purpose, TrialSpec

SMALL_LM = {
    "task.width": 32,
    "task.depth": 2,
    "task.heads": 2,
    "task.context_length": 16,
    "micro_batch_size": 2,
    "global_batch_size": 8,
    "threads": 1,
}
BYTE_LM = {"kind": "training", "task": "trials.tasks.byte_lm:ByteLM", "evaluate_on": 21}
SAMPLES = {"samples": 8 * 12 + 3}  # 12 full steps and a short one


def run_layouts(
    folder: Path, layouts: dict[str, dict[str, Any]], ranks: int, samples: int = SAMPLES["samples"]
) -> dict[str, Measurement]:
    """Name -> measurement of each layout, trained in ``ranks`` processes on loopback. A layout's own ``samples`` and
    ``report_at`` are no knobs: how long it trains, and where it stops on the way.
    """
    job = folder / "job.json"
    job.write_text(json.dumps({"layouts": layouts, "folder": str(folder), "samples": samples}))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(listener.getsockname()[1]),
            "TUNER_STORE_FD": str(listener.fileno()),
            "TUNER_LAUNCHER": str(os.getpid()),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, str(job)],
                env={**environment, "RANK": str(rank)},
                pass_fds=[listener.fileno()],
            )
            for rank in range(ranks)
        ]
        try:
            while not any(
                process.poll() for process in processes
            ):  # one that failed leaves the others waiting
                if all(process.poll() == 0 for process in processes):
                    break
                time.sleep(0.1)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    assert [process.returncode for process in processes] == [0] * ranks
    return {
        name: Measurement.from_json((folder / f"{name}.json").read_text(encoding="utf-8")) for name in layouts
    }


def main() -> None:
    """One rank: every layout in turn, in the process group that the first one formed."""
    import torch.distributed as dist

    from trials import runner
    from trials.context import TrialContext
    from trials.training import halfway, world

    halfway.WORTH_S = 0.0  # stop however short the rest is
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    meet, rank = world._meet, int(os.environ["RANK"])
    world._meet = lambda joined: None if dist.is_initialized() else meet(joined)
    world.World.leave = lambda joined: dist.barrier()
    for name, config in job["layouts"].items():
        folder = (
            Path(job["folder"]) / f"{name.replace(', ', '-').replace(' ', '-')}-{rank}"
        )  # g++ takes no spaces
        folder.mkdir()
        samples, report_at = config.pop("samples", job["samples"]), tuple(config.pop("report_at", ()))
        workload = {**BYTE_LM, "train_for": {"samples": samples}}
        knobs = {**SMALL_LM, **config}
        wanted = ("val_loss_nats", "peak_memory_gib")
        spec = TrialSpec(
            "s",
            0,
            "m",
            Purpose.SEARCH,
            workload,
            knobs,
            0,
            folder,
            folder,
            wanted=wanted,
            report_at=report_at,
        )
        context = TrialContext(spec, time.monotonic())
        found = runner.run(context)
        context.close()
        if rank == 0:
            (Path(job["folder"]) / f"{name}.json").write_text(found.to_json(), encoding="utf-8")
    dist.barrier()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
