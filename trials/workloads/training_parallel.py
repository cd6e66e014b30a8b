"""The knobs that say how a training is split over processes, and what they send each other. Light."""

from __future__ import annotations

from trials.workloads.base import Knob

COMPRESSIONS = ("none", "fp16", "bf16", "powersgd")
PIPELINE_SCHEDULES = ("gpipe", "1f1b", "interleaved")
GRADIENT_SYNCS = ("once_a_step", "every_micro_batch")

PARALLEL_KNOBS = (
    Knob(
        "data_parallel_degree",
        int,
        1,
        "processes that train on different samples; the global batch is shared among them",
        low=1,
    ),
    Knob(
        "zero_stage",
        int,
        0,
        "what data-parallel processes shard instead of copying: nothing (0), optimizer state (1), gradients too "
        "(2: parameters stay gathered until the backward pass), parameters too (3)",
        choices=(0, 1, 2, 3),
    ),
    Knob(
        "shard_degree",
        int,
        None,
        "data-parallel processes that share one copy with zero_stage 2 and 3; default: all of them (fewer: hybrid "
        "sharding)",
        low=1,
    ),
    Knob(
        "tensor_parallel_degree",
        int,
        1,
        "processes that share each layer of the task's blocks: by the names of the layers, or by the task's "
        "tensor_parallel_plan(model)",
        low=1,
    ),
    Knob(
        "pipeline_parallel_degree",
        int,
        1,
        "processes that hold the model's layers one after the other: even runs of an nn.Sequential, or the task's "
        "pipeline_stages(model, count)",
        low=1,
    ),
    Knob(
        "expert_parallel_degree",
        int,
        1,
        "data-parallel processes that share one set of a mixture's experts: the task's spread_experts(...)",
        low=1,
    ),
    Knob(
        "pipeline_schedule",
        str,
        "1f1b",
        "order of micro-batches in a pipeline: all forward first (gpipe), one forward one backward (1f1b), the same "
        "with two stages on each process (interleaved)",
        choices=PIPELINE_SCHEDULES,
    ),
    Knob(
        "gradient_compression",
        str,
        "none",
        "what gradients are sent as; powersgd sends factors of rank 2",
        choices=COMPRESSIONS,
        is_equivalent=False,
    ),
    Knob(
        "bucket_size_mib",
        (int, float),
        25,
        "gradients that are sent together (zero_stage 0 and 1): small ones start early, large ones cost less each",
        low=0.01,
    ),
    Knob(
        "gradient_sync",
        str,
        "once_a_step",
        "when accumulated gradients are sent; every_micro_batch sends more and keeps sharded ones smaller",
        choices=GRADIENT_SYNCS,
    ),
)
