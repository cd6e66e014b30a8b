"""The memory model against PyTorch's tracker on real tensors, and against what real processes grow by.

    python -m tests.benchmarks.memory_model            # 48 configurations in this process
    python -m tests.benchmarks.memory_model --processes  # also a fresh process each: resident growth (slow)

Prints the largest errors of states and peak, seconds for each estimate, and (with ``--processes``) the line that
calibration on three of them gives, with the errors of the rest. Needs no quiet machine: it compares bytes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

from trials.contract import Purpose, TrialSpec

TASK = {"kind": "training", "task": "trials.tasks.byte_lm:ByteLM", "train_for": {"steps": 8}}
CONFIGS = [
    {
        "task.width": width,
        "task.depth": depth,
        "micro_batch_size": batch,
        "activation_checkpointing": checkpointing,
        "precision": precision,
    }
    for width, depth, batch, checkpointing, precision in itertools.product(
        (128, 256), (2, 4), (4, 16), ("none", "selective", "full"), ("fp32", "bf16")
    )
]
CALIBRATED_ON = 3


def main() -> int:
    """Compare, print; exit status 1 where states leave 2% or the peak 10%."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--grown", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grown:
        print(_growth_bytes(json.loads(options.grown)))
        return 0
    from trials.training.memory_model import estimate, tracked

    rows = []
    for config in CONFIGS:
        begin = time.perf_counter()
        guess = estimate(_spec(config))
        seconds = time.perf_counter() - begin
        real = tracked(_spec(config))
        rows.append((config, guess, real, seconds))
    states = max(abs(guess.state_bytes / real.state_bytes - 1) for _, guess, real, _ in rows)
    peak = max(abs(guess.peak_bytes / real.peak_bytes - 1) for _, guess, real, _ in rows)
    slowest = max(seconds for *_, seconds in rows)
    print(
        f"{len(rows)} configurations: states within {states:.2%}, peak within {peak:.2%}, slowest {slowest:.2f} s"
    )
    if options.processes:
        _calibrate([(guess.peak_bytes, _in_process(config)) for config, guess, _, _ in rows])
    return 0 if states <= 0.02 and peak <= 0.10 else 1


def _calibrate(pairs: list[tuple[int, int]]) -> None:
    """A line through three spread over the range; the error of the others against it."""
    ordered = sorted(pairs)
    chosen = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    mean_x, mean_y = (sum(pair[i] for pair in chosen) / CALIBRATED_ON for i in (0, 1))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in chosen) / sum((x - mean_x) ** 2 for x, _ in chosen)
    errors = [abs((mean_y + slope * (x - mean_x)) / y - 1) for x, y in ordered if (x, y) not in chosen]
    print(f"resident growth = {mean_y - slope * mean_x:,.0f} B + {slope:.3f} x estimate; "
          f"largest error of the other {len(errors)}: {max(errors):.1%}")  # fmt: skip


def _in_process(config: dict[str, object]) -> int:
    command = [sys.executable, "-m", "tests.benchmarks.memory_model", "--grown", json.dumps(config)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _growth_bytes(config: dict[str, object]) -> int:
    """By how much the resident peak of this process grows over the steps of a session."""
    import torch

    from trials.training.memory_model import STEPS, _Rehearsal

    torch.set_num_threads(1)
    rehearsal = _Rehearsal(_spec(config), is_fake=False)
    before = _status_bytes("VmRSS:")
    rehearsal.prepare()
    for number in range(STEPS):
        rehearsal.trainer.step(number, rehearsal.step_batches)
    return _status_bytes("VmHWM:") - before


def _status_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _spec(config: dict[str, object]) -> TrialSpec:
    return TrialSpec("m", 0, "m", Purpose.SEARCH, TASK, config, 0, Path(), Path())


if __name__ == "__main__":
    sys.exit(main())
