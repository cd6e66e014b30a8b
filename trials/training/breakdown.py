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
_TRANSFERS = re.compile(r"^(gloo|nccl):|^nccl\w*Kernel|ncclDevKernel|^c10d::(send|recv)")
_MARKS = re.compile(
    r"^(c10d|_c10d_functional|FSDP|torch::distributed|torch\.distributed)|^autograd::|Backward\d*$"
)
_KNOBS = {
    "compute": ("precision", "compile", "activation_checkpointing"),
    "memory_bound": ("compile", "precision", "optimizer", "micro_batch_size"),
    "host": ("micro_batch_size", "compile", "optimizer", "gradient_accumulation_steps"),
    "communication": (
        "gradient_compression",
        "gradient_accumulation_steps",
        "bucket_size_mib",
        "zero_stage",
        "data_parallel_degree",
        "tensor_parallel_degree",
        "pipeline_schedule",
    ),
    "data_wait": ("loader_workers", "prefetch_factor", "pin_memory"),
}


def profile_step(trainer: Trainer, batch: Any) -> dict[str, float]:
    """Seconds of compute, memory-bound operations, communication and host in steps like the timed ones.

    Products (matrix, convolution, attention) count as compute, every other operation as memory-bound.
    Communication is the time in which something is on its way between ranks and no operation runs here: what
    overlaps with work costs nothing. What of the wall time is left then counts as host. It trains on: call it on
    every rank, when the model is no longer needed.
    """
    is_gpu = trainer.world.device_type == "cuda"
    passes = trainer.plan.gradient_accumulation_steps
    batches = [(batch, 1.0 / passes)] * passes
    trainer.step(trainer.total_steps - 1, batches)
    # not torch.profiler: entering that imports the compiler, which takes longer than the pass
    with torch.autograd.profiler.profile(use_device="cuda" if is_gpu else None) as profiler:
        begin = time.perf_counter()
        for _ in range(STEPS):
            trainer.step(trainer.total_steps - 1, batches)
        if is_gpu:
            torch.cuda.synchronize()
        wall_s = time.perf_counter() - begin
    seconds = {"compute": 0.0, "memory_bound": 0.0}
    for event in profiler.key_averages():
        kind = _kind(event.key, is_gpu)
        if kind in seconds:
            own_us = event.self_device_time_total if is_gpu else event.self_cpu_time_total
            seconds[kind] += own_us / 1e6
    seconds["communication"] = _exposed_s(profiler.function_events or [], is_gpu)
    return {**seconds, "host": max(0.0, wall_s - sum(seconds.values()))}


def _kind(name: str, is_gpu: bool) -> str | None:
    """What an operation or kernel counts as; None for the profiler's own marks and for waiting."""
    if _TRANSFERS.search(name):
        return "communication"
    if (not is_gpu and not ("::" in name or "fused" in name)) or _MARKS.search(name):
        return None
    return "compute" if _PRODUCTS.search(name) else "memory_bound"


def _exposed_s(events: Any, is_gpu: bool) -> float:
    """Seconds in which a transfer was under way and no other operation ran, on the device or (CPU) anywhere here."""
    transfers: list[tuple[float, float]] = []
    work: list[tuple[float, float]] = []
    for event in events:
        for span in _spans(event, is_gpu):
            kind = _kind(event.name, is_gpu)
            if kind is not None:
                (transfers if kind == "communication" else work).append(span)
    return (_covered_us(transfers + work) - _covered_us(work)) / 1e6


def _spans(event: Any, is_gpu: bool) -> list[tuple[float, float]]:
    """When an event ran (microseconds): itself, or the kernels that it launched."""
    if not is_gpu:
        return [(event.time_range.start, event.time_range.end)]
    is_kernel = str(event.device_type).endswith("CUDA")
    return [(event.time_range.start, event.time_range.end)] if is_kernel else []


def _covered_us(spans: list[tuple[float, float]]) -> float:
    """Length of the union of spans."""
    covered, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def shares(seconds: Mapping[str, float], data_wait_pct: float) -> dict[str, float]:
    """Shares of the step in percent that sum to 100; waiting for data is the timed window's own."""
    total = sum(seconds.values()) or 1.0
    found = {f"{name}_pct": (100 - data_wait_pct) * part / total for name, part in seconds.items()}
    return {**found, "data_wait_pct": data_wait_pct}


def bottleneck(
    data_wait_pct: float, found: Mapping[str, float] | None = None, *, recomputes: bool = False
) -> dict[str, Any]:
    """What holds the step up and the knobs worth searching first.

    Data wait is the bottleneck from 20% of the step on, whatever else there is; without a breakdown nothing
    else can be told. Checkpointing is a lead only where the step ``recomputes`` something that it might not.
    """
    if data_wait_pct >= BOTTLENECK_WAIT_PCT:
        name = "data_wait"
    elif found:
        name = max(
            ("compute", "memory_bound", "communication", "host"), key=lambda part: found[f"{part}_pct"]
        )
    else:
        return {"data_wait_is_notable": data_wait_pct >= NOTABLE_WAIT_PCT}
    return {
        "bottleneck": name,
        "knobs_to_search": [
            knob for knob in _KNOBS[name] if recomputes or knob != "activation_checkpointing"
        ],
        "data_wait_is_notable": data_wait_pct >= NOTABLE_WAIT_PCT,
    }
