"""Every layout against one process, 20 steps: the losses must agree to 1e-3 (rank by rank on loopback).

    python -m tests.long.layouts              # two processes
    python -m tests.long.layouts --ranks 4    # the mixes: more processes than cores is fine here, speed is no matter

Prints a table as Markdown; exit status 1 where a layout that promises the same numbers does not keep it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))

from layouts import run_layouts

from trials.contract import Measurement, Outcome

TWO = {
    "ddp": {"data_parallel_degree": 2},
    "ddp, sync every micro-batch": {"data_parallel_degree": 2, "gradient_sync": "every_micro_batch"},
    "zero 1": {"data_parallel_degree": 2, "zero_stage": 1},
    "zero 2": {"data_parallel_degree": 2, "zero_stage": 2},
    "zero 3": {"data_parallel_degree": 2, "zero_stage": 3},
    "zero 3, checkpointing": {
        "data_parallel_degree": 2, "zero_stage": 3, "activation_checkpointing": "full", "checkpoint_every": 2,
    },
    "ddp, offload": {"data_parallel_degree": 2, "activation_offload": "cpu", "optimizer_offload": "cpu"},
    "ddp, compiled": {"data_parallel_degree": 2, "compile": True},
    "tensor": {"tensor_parallel_degree": 2},
    "tensor, selective": {"tensor_parallel_degree": 2, "activation_checkpointing": "selective"},
    "gpipe": {"pipeline_parallel_degree": 2, "pipeline_schedule": "gpipe"},
    "1f1b": {"pipeline_parallel_degree": 2},
    "interleaved": {"pipeline_parallel_degree": 2, "pipeline_schedule": "interleaved"},
}  # fmt: skip
FOUR = {
    "ddp x4": {"data_parallel_degree": 4},
    "hybrid zero 3": {"data_parallel_degree": 4, "zero_stage": 3, "shard_degree": 2},
    "hybrid zero 2": {"data_parallel_degree": 4, "zero_stage": 2, "shard_degree": 2},
    "data x tensor": {"data_parallel_degree": 2, "tensor_parallel_degree": 2},
    "zero 3 x tensor": {"data_parallel_degree": 2, "tensor_parallel_degree": 2, "zero_stage": 3},
    "data x pipeline": {"data_parallel_degree": 2, "pipeline_parallel_degree": 2},
    "zero 1 x pipeline": {"data_parallel_degree": 2, "pipeline_parallel_degree": 2, "zero_stage": 1},
    "zero 2 x pipeline": {"data_parallel_degree": 2, "pipeline_parallel_degree": 2, "zero_stage": 2},
    "zero 3 x pipeline": {"data_parallel_degree": 2, "pipeline_parallel_degree": 2, "zero_stage": 3},
    "tensor x pipeline": {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 2},
}
SHARED = {"task.depth": 4, "task.heads": 4, "micro_batch_size": 1}
STEPS = 20
SAMPLES = 8 * STEPS + 3
TOLERANCE = 1e-3


def main() -> int:
    """Run the layouts of as many ranks as asked for, print the table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, choices=(2, 4), default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--only", help="names that contain this")
    options = parser.parse_args()
    shared = {**SHARED, "precision": options.precision}
    layouts = {
        name: {**shared, **config}
        for name, config in (TWO if options.ranks == 2 else FOUR).items()
        if options.only is None or options.only in name
    }
    with tempfile.TemporaryDirectory() as name:
        single, several = Path(name) / "single", Path(name) / "several"
        single.mkdir()
        several.mkdir()
        reference = run_layouts(single, {"one": shared}, 1, SAMPLES)["one"]
        found = run_layouts(several, layouts, options.ranks, SAMPLES)
    tolerance = TOLERANCE if options.precision == "fp32" else 5 * TOLERANCE
    print("| layout | outcome | largest difference of a loss | bytes sent a step |\n|---|---|---|---|")
    verdicts = [_row(name, measurement, reference, tolerance) for name, measurement in found.items()]
    return 0 if all(verdicts) else 1


def _row(name: str, measurement: Measurement, reference: Measurement, tolerance: float) -> bool:
    if measurement.outcome is not Outcome.COMPLETE:
        print(f"| {name} | {measurement.failure_kind}: {measurement.message.splitlines()[0][:160]} | | |")
        return False
    pairs = zip(
        measurement.facts["first_losses"],
        reference.facts["first_losses"],
        strict=True,
    )
    largest = max(abs(ours - theirs) / theirs for ours, theirs in pairs)
    print(f"| {name} | complete | {largest:.1e} | {measurement.proof.get('bytes_sent_per_step')} |")
    return largest <= tolerance


if __name__ == "__main__":
    sys.exit(main())
