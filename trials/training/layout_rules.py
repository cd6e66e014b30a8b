"""Which degrees and knobs go together; what does not is refused before launch, with the values that do.

Light: no torch. Each rule returns a problem or None; the first one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from trials.training.batch_plan import BatchPlan
from trials.training.layout import DEGREE_KNOBS, STAGES_PER_RANK, Layout


class LayoutProblem(NamedTuple):
    """A combination that cannot run: the parameter to change, why, and what to write."""

    parameter: str
    message: str
    way_out: str


class Asked(NamedTuple):
    """One configuration as the rules see it: knobs with their defaults, layout and batch sizes, what a trial
    holds, and the task's sizes that a degree must divide (degree -> name and value).
    """

    config: Mapping[str, Any]
    layout: Layout
    plan: BatchPlan
    world: Mapping[str, Any]
    sizes: Mapping[str, tuple[str, int]]


def layout_problem(asked: Asked) -> LayoutProblem | None:
    """The first rule that the configuration breaks, or None."""
    return next((problem for rule in _RULES if (problem := rule(asked))), None)


def _world_fits(asked: Asked) -> LayoutProblem | None:
    size, gpus, cpus = asked.layout.world_size, asked.world.get("gpus"), asked.world.get("cpus")
    limit, what = (gpus, "GPUs") if gpus else (cpus, "cores")
    if size == 1 or not limit or size <= limit:
        return None
    name = max(DEGREE_KNOBS, key=lambda knob: asked.config.get(knob) or 1)
    degree = asked.config[name]
    others = size // degree
    legal = [value for value in range(1, degree) if value * others <= limit]
    return LayoutProblem(
        name,
        f"{name}={degree} makes a world of {size} processes, and a trial has {limit} {what}",
        f"use {_choice(legal)}" if legal else "lower the other degrees, or raise resources",
    )


def _threads_fit(asked: Asked) -> LayoutProblem | None:
    threads, cpus, size = asked.config.get("threads"), asked.world.get("cpus"), asked.layout.world_size
    if size == 1 or not threads or not cpus or threads * size <= cpus:
        return None
    return LayoutProblem(
        "threads",
        f"threads={threads} in each of {size} processes is more than the {cpus} cores of a trial",
        f"use at most {max(1, cpus // size)}",
    )


def _zero_has_ranks(asked: Asked) -> LayoutProblem | None:
    stage = asked.layout.zero_stage
    if not stage or asked.layout.data_degree > 1:
        return None
    return LayoutProblem(
        "zero_stage",
        f"zero_stage={stage} shards over data-parallel ranks, and data_parallel_degree=1 has no second one",
        "use 0, or a data_parallel_degree of at least 2",
    )


def _shards_divide(asked: Asked) -> LayoutProblem | None:
    layout, given = asked.layout, asked.config.get("shard_degree")
    if given is None:
        return None
    if not layout.is_sharded:
        return LayoutProblem(
            "shard_degree",
            f"shard_degree={given} needs something to shard, and zero_stage={layout.zero_stage} shards no "
            "parameters",
            "use zero_stage 2 or 3, or leave shard_degree out",
        )
    if layout.data_degree % given == 0:
        return None
    return LayoutProblem(
        "shard_degree",
        f"shard_degree={given} does not divide data_parallel_degree={layout.data_degree}",
        f"use {_choice(_divisors(layout.data_degree))}",
    )


def _compression_has_buckets(asked: Asked) -> LayoutProblem | None:
    kind, layout = asked.config["gradient_compression"], asked.layout
    if kind == "none":
        return None
    reason = None
    if layout.data_degree == 1:
        reason = "data_parallel_degree=1 sends no gradients"
    elif layout.is_sharded:
        reason = f"zero_stage={layout.zero_stage} sends shards, not buckets"
    elif layout.tensor_degree > 1:
        reason = f"tensor_parallel_degree={layout.tensor_degree} keeps gradients as shards"
    if reason is None:
        return None
    return LayoutProblem(
        "gradient_compression",
        f"gradient_compression={kind} works on the gradient buckets of data parallelism; {reason}",
        "use none, or data parallelism with zero_stage 0 or 1",
    )


def _compile_is_whole(asked: Asked) -> LayoutProblem | None:
    layout = asked.layout
    is_plain = layout.world_size == layout.data_degree and layout.expert_degree == 1 and not layout.is_sharded
    if asked.config["compile"] is False or is_plain:
        return None
    return LayoutProblem(
        "compile",
        "compile works on one process, or with data parallelism at zero_stage 0 or 1",
        "use compile: false with tensor, pipeline and expert parallelism and with zero_stage 2 and 3",
    )


def _offload_knows_parameters(asked: Asked) -> LayoutProblem | None:
    layout = asked.layout
    if asked.config["activation_offload"] == "none":
        return None
    if not layout.is_sharded and layout.tensor_degree == layout.pipeline_degree == 1:
        return None
    return LayoutProblem(
        "activation_offload",
        "activation_offload cannot tell activations from gathered or sharded parameters",
        "use none, or data parallelism with zero_stage 0 or 1",
    )


def _host_optimizer_is_whole(asked: Asked) -> LayoutProblem | None:
    layout = asked.layout
    if asked.config["optimizer_offload"] == "none":
        return None
    if asked.config["precision"] == "fp16":
        return LayoutProblem(
            "optimizer_offload",
            "the loss scaling of fp16 needs the optimizer on the device",
            "use none, or bf16",
        )
    if layout.world_size == layout.data_degree and layout.zero_stage == 0:
        return None
    return LayoutProblem(
        "optimizer_offload",
        "optimizer_offload works on whole parameters",
        "use none, or data parallelism with zero_stage 0",
    )


def _scaler_is_local(asked: Asked) -> LayoutProblem | None:
    layout = asked.layout
    if asked.config["precision"] != "fp16" or layout.world_size == layout.data_degree:
        return None
    return LayoutProblem(
        "precision",
        "the loss scaling of fp16 is not shared between tensor and pipeline ranks",
        "use fp32 or bf16",
    )


def _degrees_divide(asked: Asked) -> LayoutProblem | None:
    """The task's sizes, by the degrees; a pipeline's depth by all its stages."""
    for knob, (name, size) in asked.sizes.items():
        degree = asked.config.get(knob) or 1
        if size == 0 and degree > 1:
            return LayoutProblem(knob, f"{knob}={degree} has nothing to divide: task.{name}=0", "use 1")
        each = STAGES_PER_RANK[asked.config["pipeline_schedule"]] if knob == "pipeline_parallel_degree" else 1
        if degree == 1 or size % (degree * each) == 0:
            continue
        stages = f" ({degree * each} stages)" if each > 1 else ""
        legal = [1, *(value for value in range(2, size + 1) if size % (value * each) == 0)]
        return LayoutProblem(
            knob, f"{knob}={degree}{stages} does not divide task.{name}={size}", f"use {_choice(legal)}"
        )
    return None


def _pipeline_is_filled(asked: Asked) -> LayoutProblem | None:
    """PyTorch's schedules: 1f1b wants a micro-batch for each rank, interleaved equal rounds of them."""
    ranks, passes = asked.layout.pipeline_degree, asked.plan.gradient_accumulation_steps
    kind = asked.config["pipeline_schedule"]
    if ranks == 1 or kind == "gpipe" or _fills(kind, ranks, passes):
        return None
    whole = asked.plan.global_batch_size // asked.plan.data_parallel_degree
    legal = [size for size in _divisors(whole) if _fills(kind, ranks, whole // size)]
    return LayoutProblem(
        "micro_batch_size",
        f"{passes} micro-batches a step do not fill a pipeline of {ranks} ranks with pipeline_schedule={kind}",
        f"use {_choice(legal)}, or gpipe" if legal else "use gpipe, or a larger global batch",
    )


def _fills(kind: str, ranks: int, passes: int) -> bool:
    return passes >= ranks if kind == "1f1b" else passes % max(1, passes // ranks) == 0


def _tensors_meet_zero(asked: Asked) -> LayoutProblem | None:
    layout = asked.layout
    if layout.tensor_degree == 1 or layout.zero_stage != 1:
        return None
    return LayoutProblem(
        "zero_stage",
        f"zero_stage=1 cannot share out the layers that tensor_parallel_degree={layout.tensor_degree} splits",
        "use 0, 2 or 3",
    )


def _experts_are_spread(asked: Asked) -> LayoutProblem | None:
    layout = asked.layout
    degree = layout.expert_degree
    if degree == 1:
        return None
    if layout.data_degree % degree:
        return LayoutProblem(
            "expert_parallel_degree",
            f"expert_parallel_degree={degree} does not divide data_parallel_degree={layout.data_degree}",
            f"use {_choice(_divisors(layout.data_degree))}",
        )
    if layout.world_size == layout.data_degree and layout.zero_stage == 0:
        return None
    return LayoutProblem(
        "expert_parallel_degree",
        "spread experts go with data parallelism at zero_stage 0, and with nothing else",
        "use 1, or zero_stage 0 without tensor and pipeline parallelism",
    )


_RULES: tuple[Callable[[Asked], LayoutProblem | None], ...] = (
    _world_fits,
    _threads_fit,
    _degrees_divide,
    _pipeline_is_filled,
    _tensors_meet_zero,
    _experts_are_spread,
    _zero_has_ranks,
    _shards_divide,
    _compression_has_buckets,
    _compile_is_whole,
    _offload_knows_parameters,
    _host_optimizer_is_whole,
    _scaler_is_local,
)


def _divisors(number: int) -> Iterator[int]:
    return (value for value in range(1, number + 1) if number % value == 0)


def _choice(values: Iterator[int] | list[int]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}" if first else last
