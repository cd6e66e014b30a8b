"""The ``training`` workload as a space file sees it: knobs, section keys, static checks. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.measurement.steady import MIN_WARMUP_STEPS
from trials.metrics import Key
from trials.training.batch_plan import DEFAULT_MICRO_BATCH_SIZE, BatchPlan, BatchProblem, Horizon
from trials.training.layout import Layout
from trials.training.layout_rules import Asked, layout_problem
from trials.workloads.base import Knob, WorkloadProblem
from trials.workloads.of_task import (
    evaluate_on_problems,
    missing_methods,
    missing_parameter,
    resolve_task,
    task_knobs,
    task_source,
    threads_rejection,
)
from trials.workloads.training_parallel import PARALLEL_KNOBS

HORIZON_UNITS = ("tokens", "samples", "steps")
TASK_METHODS = ("model", "train_data", "validation_data", "loss", "score")
OPTIMIZERS = ("adamw", "fused_adamw", "adam", "fused_adam", "sgd", "fused_sgd", "adafactor", "rmsprop")
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

_KNOBS = (
    Knob(
        "precision",
        str,
        "fp32",
        "number format of the matrix products; bf16 and fp16 are autocast (fp16 with loss scaling), "
        "bf16_params also keeps weights and optimizer state in bf16, tf32 needs a GPU",
        choices=("fp32", "tf32", "bf16", "fp16", "bf16_params"),
        is_equivalent=False,
    ),
    Knob(
        "micro_batch_size",
        int,
        DEFAULT_MICRO_BATCH_SIZE,
        "samples of one forward pass",
        low=1,
        is_equivalent=False,
    ),
    Knob(
        "gradient_accumulation_steps",
        int,
        None,
        "forward passes per optimizer step",
        low=1,
        is_equivalent=False,
    ),
    Knob(
        "global_batch_size",
        int,
        None,
        "samples per optimizer step; two of micro batch, accumulation and global batch give the third",
        low=1,
        is_equivalent=False,
    ),
    Knob(
        "activation_checkpointing",
        str,
        "none",
        "what the backward pass recomputes in the task's blocks: nothing; all but matrix products, "
        "convolutions and attention (selective); everything (full)",
        choices=("none", "selective", "full"),
    ),
    Knob(
        "checkpoint_every",
        int,
        1,
        "of the task's blocks every n-th is checkpointed, from the first on",
        low=1,
    ),
    Knob(
        "activation_offload",
        str,
        "none",
        "where activations wait for the backward pass: on the device, or in host memory (cpu)",
        choices=("none", "cpu"),
    ),
    Knob(
        "optimizer_offload",
        str,
        "none",
        "where the optimizer keeps its state and works: on the device, or on the host (cpu)",
        choices=("none", "cpu"),
    ),
    Knob(
        "compile",
        (bool, str),
        False,
        "torch.compile: true, or the name of a mode",
        choices=(False, True, *COMPILE_MODES),
    ),
    Knob(
        "optimizer", str, "adamw", "optimizer and its implementation", choices=OPTIMIZERS, is_equivalent=False
    ),
    Knob("loader_workers", int, 0, "processes that load data; 0 loads between the steps", low=0),
    Knob("prefetch_factor", int, 2, "batches that each loader process holds ready", low=1),
    Knob("pin_memory", bool, False, "copy batches through page-locked memory (a GPU reads it directly)"),
    Knob("threads", int, None, "threads of one operation; default: the cores that the process holds", low=1),
    *PARALLEL_KNOBS,
)

_COMMON_METRICS = (
    Key.SAMPLES_PER_S,
    Key.STEP_TIME_P50_MS,
    Key.STEP_TIME_P90_MS,
    Key.STEP_TIME_P99_MS,
    Key.TRAIN_LOSS_NATS,
    Key.PEAK_MEMORY_GIB,
    Key.PEAK_RESERVED_GIB,
    Key.PEAK_RSS_GIB,
    Key.DATA_WAIT_PCT,
    Key.MFU_PCT,
    Key.COMPILE_S,
    Key.STARTUP_S,
)
_TOKEN_METRICS = (Key.TOKENS_PER_S, Key.TOKENS_PER_S_PER_GPU)


class TrainingWorkload:
    """Short real training of a task class; speed, memory and held-out quality of one configuration."""

    kind = "training"
    help = "train a task for a fixed amount of data and measure speed, memory and held-out quality"
    runner = "trials.training.run:run"
    families = ("task", "env")

    def section_keys(self) -> Sequence[str]:
        """``task`` and ``train_for`` are required; ``evaluate_on`` caps the held-out samples (default:
        all).
        """
        return ("task", "train_for", "evaluate_on")

    def resolve(
        self, section: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, Any], list[WorkloadProblem]]:
        """The section with the task's file as an absolute path, and everything wrong with it."""
        task, source, problems = resolve_task(section, folder, "names the task class")
        problems = [*_horizon_problems(section.get("train_for")), *evaluate_on_problems(section), *problems]
        missing = missing_methods(source, TASK_METHODS) if source else []
        return {**section, **({"task": task} if "task" in section else {})}, [*problems, *missing]

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """The knobs of training, and the task's own as ``task.NAME``, read from its source."""
        return {knob.name: knob for knob in (*_KNOBS, *task_knobs(task_source(section)))}

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """Never: every knob is known, the task's too."""
        return False

    def metrics(self, section: Mapping[str, Any]) -> Sequence[str] | None:
        """The metrics of training and the task's ``metrics``; None where the task does not list them."""
        source = task_source(section)
        own = source.attributes.get("metrics")
        if own is None:
            return None
        has_tokens = source.tokens_parameter or source.attributes.get("tokens_per_sample")
        return (*_COMMON_METRICS, *(_TOKEN_METRICS if has_tokens else ()), *own)

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """None: a task's sizes are its own parameters."""
        return {}

    def layout_rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """Degrees that do not fit the trial, one another, or a knob."""
        knobs = {knob.name: config.get(knob.name, knob.default) for knob in _KNOBS}
        sizes = _divided_sizes(section, config)
        problem = layout_problem(Asked(knobs, Layout.of(config), BatchPlan.of(config), world, sizes))
        return problem and WorkloadProblem(problem.parameter, problem.message, problem.way_out)

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """Batch sizes that contradict, degrees that do not fit, a horizon shorter than a step, threads without
        cores, tf32 without a GPU.
        """
        try:
            plan = BatchPlan.of(config)
        except BatchProblem as problem:
            return WorkloadProblem(problem.parameter, problem.message, problem.way_out)
        return (
            self.layout_rejection(section, config, world)
            or _horizon_rejection(section, config, plan)
            or _device_rejection(config, world)
            or missing_parameter(task_source(section), config)
        )

    def samples(self, section: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
        """Optimizer steps that can be timed at most; None where the tokens of a sample are not known."""
        try:
            plan = BatchPlan.of(config)
            total = Horizon.of(section["train_for"]).samples(plan, _tokens_per_sample(section, config))
        except ValueError:
            return None
        return max(0, total // plan.global_batch_size - MIN_WARMUP_STEPS)


def _horizon_problems(train_for: Any) -> list[WorkloadProblem]:
    way_out = "write train_for: {samples: 20000}, or tokens, or steps"
    if not isinstance(train_for, Mapping) or len(train_for) != 1:
        return [WorkloadProblem("train_for", "says for how long every trial trains, by one unit", way_out)]
    ((unit, amount),) = train_for.items()
    if unit not in HORIZON_UNITS:
        return [WorkloadProblem(f"train_for.{unit}", "is not a unit of training", way_out)]
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 1:
        return [WorkloadProblem(f"train_for.{unit}", f"{amount!r} is not a whole number above 0", way_out)]
    return []


def _tokens_per_sample(section: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
    source = task_source(section)
    if source.tokens_parameter is None:
        tokens = source.attributes.get("tokens_per_sample")
    else:
        parameter = source.parameters[source.tokens_parameter]
        tokens = config.get(f"task.{parameter.name}", parameter.default)
    return tokens if isinstance(tokens, int) else None


def _divided_sizes(section: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """The task's ``divided_by``, degree -> the parameter whose value it must divide, with that value."""
    source = task_source(section)
    found = {}
    for knob, name in source.attributes.get("divided_by", {}).items():
        parameter = source.parameters.get(name)
        size = config.get(f"task.{name}", parameter.default if parameter else None)
        if isinstance(size, int):
            found[knob] = (name, size)
    return found


def _horizon_rejection(
    section: Mapping[str, Any], config: Mapping[str, Any], plan: BatchPlan
) -> WorkloadProblem | None:
    horizon = Horizon.of(section["train_for"])
    try:
        total = horizon.samples(plan, _tokens_per_sample(section, config))
    except ValueError:
        return None  # only the task knows its tokens: the trial says so if it does not
    needed = (MIN_WARMUP_STEPS + 1) * plan.global_batch_size
    if total >= needed:
        return None
    return WorkloadProblem(
        "global_batch_size",
        f"train_for {horizon.unit}={horizon.amount} is {total // plan.global_batch_size} steps of "
        f"{plan.global_batch_size} samples; {MIN_WARMUP_STEPS} warm up and at least one is timed",
        f"train for at least {needed} samples, or use a smaller batch",
    )


def _device_rejection(config: Mapping[str, Any], world: Mapping[str, Any]) -> WorkloadProblem | None:
    too_many = threads_rejection(config.get("threads"), world.get("cpus"))
    if too_many or world.get("gpus") != 0:
        return too_many
    if config.get("precision") == "tf32":
        return WorkloadProblem(
            "precision", "tf32 is a format of NVIDIA GPUs and the trial has none", "use fp32 or bf16"
        )
    if config.get("pin_memory"):
        return WorkloadProblem(
            "pin_memory", "pin_memory=true needs a GPU and the trial has none", "leave it false"
        )
    return None
