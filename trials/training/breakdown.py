"""Where the time of a step goes: a separate pass under a profiler, after all measuring."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import torch

from trials.training.loop import Trainer

STEPS = 3
NOTABLE_WAIT_PCT, BOTTLENECK_WAIT_PCT = 5.0, 20.0  # tf.data's thresholds

_PRODUCTS = re.compile(
    r"(mm|conv\w*|linear\w*|dot_product\w*)(_backward|_out|_for_cpu)*$|gemm|cutlass|flash|fmha"
)
_KNOBS = {
    "compute": ("precision", "compile", "activation_checkpointing"),
    "memory_bound": ("compile", "precision", "optimizer", "micro_batch_size"),
    "host": ("micro_batch_size", "compile", "optimizer", "gradient_accumulation_steps"),
    "data_wait": ("loader_workers", "prefetch_factor", "pin_memory"),
}


def profile_step(trainer: Trainer, batch: Any) -> dict[str, float]:
    """Seconds of compute, memory-bound operations and host in steps on one micro-batch.

    Products (matrix, convolution, attention) count as compute, every other operation as memory-bound, and
    what of the wall time no operation covers as host. It trains on: call it when the model is no longer
    needed.
    """
    is_gpu = trainer.world.device_type == "cuda"
    trainer.step(trainer.total_steps - 1, [(batch, 1.0)])
    # not torch.profiler: entering that imports the compiler, which takes longer than the pass
    with torch.autograd.profiler.profile(use_device="cuda" if is_gpu else None) as profiler:
        begin = time.perf_counter()
        for _ in range(STEPS):
            trainer.step(trainer.total_steps - 1, [(batch, 1.0)])
        if is_gpu:
            torch.cuda.synchronize()
        wall_s = time.perf_counter() - begin
    seconds = {"compute": 0.0, "memory_bound": 0.0}
    for event in profiler.key_averages():
        own_us = event.self_device_time_total if is_gpu else event.self_cpu_time_total
        if is_gpu or "::" in event.key or "fused" in event.key:  # the rest are the profiler's own marks
            seconds["compute" if _PRODUCTS.search(event.key) else "memory_bound"] += own_us / 1e6
    return {**seconds, "host": max(0.0, wall_s - sum(seconds.values()))}


def shares(seconds: Mapping[str, float], data_wait_pct: float) -> dict[str, float]:
    """Shares of the step in percent that sum to 100; waiting for data is the timed window's own."""
    total = sum(seconds.values()) or 1.0
    found = {f"{name}_pct": (100 - data_wait_pct) * part / total for name, part in seconds.items()}
    return {**found, "communication_pct": 0.0, "data_wait_pct": data_wait_pct}


def bottleneck(data_wait_pct: float, found: Mapping[str, float] | None = None) -> dict[str, Any]:
    """What holds the step up and the knobs worth searching first.

    Data wait is the bottleneck from 20% of the step on, whatever else there is; without a breakdown nothing
    else can be told.
    """
    if data_wait_pct >= BOTTLENECK_WAIT_PCT:
        name = "data_wait"
    elif found:
        name = max(("compute", "memory_bound", "host"), key=lambda part: found[f"{part}_pct"])
    else:
        return {"data_wait_is_notable": data_wait_pct >= NOTABLE_WAIT_PCT}
    return {
        "bottleneck": name,
        "knobs_to_search": list(_KNOBS[name]),
        "data_wait_is_notable": data_wait_pct >= NOTABLE_WAIT_PCT,
    }
