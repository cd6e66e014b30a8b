"""Batch sizes and how many steps a horizon takes. Light: used by the checks and by the trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_MICRO_BATCH_SIZE = 32


class BatchProblem(ValueError):  # noqa: N818 - a wrong input, worded for the user
    """Batch sizes that contradict one another; ``parameter`` is the one to change, ``way_out`` how."""

    def __init__(self, parameter: str, message: str, way_out: str) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.message = message
        self.way_out = way_out


@dataclass(frozen=True)
class BatchPlan:
    """micro x accumulation x data-parallel degree = global (all in samples)."""

    micro_batch_size: int
    gradient_accumulation_steps: int
    data_parallel_degree: int = 1

    @property
    def global_batch_size(self) -> int:
        """Samples of one optimizer step."""
        return self.micro_batch_size * self.gradient_accumulation_steps * self.data_parallel_degree

    @classmethod
    def of(cls, config: Mapping[str, Any], data_parallel_degree: int = 1) -> BatchPlan:
        """Two of micro batch, accumulation and global batch give the third; one alone is not accumulated.

        Raises BatchProblem where three contradict one another or two do not divide.
        """
        micro, steps, total = (config.get(name) for name in _NAMES)
        if total is None:
            return cls(micro or DEFAULT_MICRO_BATCH_SIZE, steps or 1, data_parallel_degree)
        if micro is None:
            micro = _divided(total, (steps or 1) * data_parallel_degree, "gradient_accumulation_steps")
        if steps is None:
            steps = _divided(total, micro * data_parallel_degree, "micro_batch_size")
        plan = cls(micro, steps, data_parallel_degree)
        if plan.global_batch_size != total:
            raise BatchProblem(
                "global_batch_size",
                f"global_batch_size={total} is not micro_batch_size={micro} x "
                f"gradient_accumulation_steps={steps}"
                f"{_degree_text(data_parallel_degree)} = {plan.global_batch_size}",
                "give two of the three, the third follows",
            )
        return plan


_NAMES = ("micro_batch_size", "gradient_accumulation_steps", "global_batch_size")


@dataclass(frozen=True)
class Horizon:
    """For how long to train, from ``train_for``: exactly one of tokens, samples and steps."""

    unit: str
    amount: int

    @classmethod
    def of(cls, train_for: Mapping[str, int]) -> Horizon:
        """Read a checked ``train_for`` section."""
        ((unit, amount),) = train_for.items()
        return cls(unit, amount)

    def samples(self, plan: BatchPlan, tokens_per_sample: int | None) -> int:
        """Samples to train on; tokens are rounded up to whole samples. ValueError: tokens of a task without
        them.
        """
        if self.unit == "steps":
            return self.amount * plan.global_batch_size
        if self.unit == "samples":
            return self.amount
        if not tokens_per_sample:
            raise ValueError("train_for counts tokens, and the task does not set tokens_per_sample")
        return -(-self.amount // tokens_per_sample)


def _divided(total: int, by: int, because: str) -> int:
    if total % by:
        fitting = [size for size in range(1, total + 1) if total % size == 0]
        raise BatchProblem(
            because,
            f"global_batch_size={total} is not a multiple of {by} (what one accumulation step takes)"
            if because == "micro_batch_size"
            else f"global_batch_size={total} is not a multiple of {because}={by}",
            f"use one of {', '.join(map(str, fitting[-12:]))}",
        )
    return total // by


def _degree_text(degree: int) -> str:
    return f" x data_parallel_degree={degree}" if degree > 1 else ""
