"""A workload kind for these tests: a few knobs of each type, one family, one static rule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trials.workloads import Knob, WorkloadProblem

KNOBS = (
    Knob("precision", str, "fp32", "format", choices=("fp32", "bf16", "fp16")),
    Knob("micro_batch_size", int, 32, "batch", low=1),
    Knob("global_batch_size", int, None, "batch", low=1),
    Knob("activation_checkpointing", str, "none", "recompute", choices=("none", "selective", "full")),
    Knob("compile", (bool, str), False, "compile", choices=(False, True, "max-autotune")),
    Knob("pin_memory", bool, False, "pin"),
    Knob("threads", int, None, "threads", low=1),
    Knob("data_parallel_degree", int, 1, "dp", low=1),
    Knob("tensor_parallel_degree", int, 1, "tp", low=1),
    Knob("gradient_compression", str, "none", "compress", choices=("none", "fp16")),
    Knob("task.learning_rate", float, 1e-3, "rate", low=0),
    Knob("task.width", int, 64, "width", low=1),
)
METRICS = (
    "tokens_per_s",
    "val_loss_nats",
    "peak_memory_gib",
    "step_time_p50_ms",
    "step_time_p90_ms",
    "accuracy",
)


class ToyWorkload:
    kind = "toy"
    help = "for tests"
    runner = "nowhere:run"
    families = ("task", "env", "engine_args")

    def section_keys(self) -> tuple[str, ...]:
        return ("task", "data", "train_for", "token")

    def resolve(
        self, section: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, Any], list[WorkloadProblem]]:
        resolved = dict(section)
        problems = []
        if "data" in section:
            resolved["data"] = str(folder / str(section["data"]))
        horizon = section.get("train_for", {"tokens": 1})
        tokens = horizon.get("tokens") if isinstance(horizon, Mapping) else None
        if not isinstance(tokens, int) or tokens < 1:
            problems.append(WorkloadProblem("train_for.tokens", "is below 1", "train for longer"))
        return resolved, problems

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        return {knob.name: knob for knob in KNOBS}

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        return False

    def metrics(self, section: Mapping[str, Any]) -> tuple[str, ...] | None:
        return METRICS

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"model.num_attention_heads": 40}

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        total, micro = config.get("global_batch_size"), config.get("micro_batch_size", 32)
        if total is not None and total % micro:
            message = f"global_batch_size={total} is not a multiple of micro_batch_size={micro}"
            return WorkloadProblem("global_batch_size", message, "use a multiple")
        return None

    def samples(self, section: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
        return int(section.get("train_for", {}).get("tokens", 300_000) / 1000)


class OpenWorkload(ToyWorkload):
    """Any name is a parameter, any metric may come, as with a command."""

    kind = "open"
    families = ("env",)

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        return {}

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        return True

    def metrics(self, section: Mapping[str, Any]) -> tuple[str, ...] | None:
        return None


KINDS = {"toy": ToyWorkload, "open": OpenWorkload}
