"""Batch sizes and how many steps a horizon takes. Light: used by the checks and by the trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from trials.training.layout import Layout

DEFAULT_MICRO_BATCH_SIZE = 32


class BatchProblem(ValueError):  # noqa: N818 - a wrong input, worded for the user
    """Batch sizes that contradict one another; ``parameter`` is the one to change, ``way_out`` how."""

    def __init__(self, parameter: str, message: str, way_out: str) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.message = message
        self.way_out = way_out


class Part(NamedTuple):
    """Samples ``begin`` to ``begin + size`` of a step: one forward pass of one rank. ``weight`` is its share of
    the step's loss, times the data-parallel degree (gradients are averaged over those ranks).
    """

    begin: int
    size: int
    weight: float


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

    def parts(self, data_rank: int) -> list[Part]:
        """What a data-parallel rank takes of a full step: neighbouring micro-batches go to different ranks."""
        size, degree = self.micro_batch_size, self.data_parallel_degree
        weight = 1.0 / self.gradient_accumulation_steps
        return [
            Part((number * degree + data_rank) * size, size, weight)
            for number in range(self.gradient_accumulation_steps)
        ]

    def short_parts(self, samples: int, data_rank: int, is_one_pass: bool = False) -> list[Part]:
        """The same for a last step of fewer samples: as many passes on every rank (they must meet), full ones
        first; a rank without samples of its own repeats one, without weight. ``is_one_pass`` takes larger ones.
        """
        degree = self.data_parallel_degree
        largest = -(-samples // degree) if is_one_pass else self.micro_batch_size
        passes = -(-samples // (largest * degree))
        found = []
        for number in range(data_rank, passes * degree, degree):
            begin, end = min(number * largest, samples), min((number + 1) * largest, samples)
            size = end - begin
            found.append(Part(min(begin, samples - 1), max(1, size), size * degree / samples))
        return found

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> BatchPlan:
        """Two of micro batch, accumulation and global batch give the third, with the data-parallel degree; one
        alone is not accumulated.

        Raises BatchProblem where three contradict one another or two do not divide.
        """
        data_parallel_degree = Layout.of(config).data_degree
        micro, steps, total = (config.get(name) for name in _NAMES)
        if total is None:
            return cls(micro or DEFAULT_MICRO_BATCH_SIZE, steps or 1, data_parallel_degree)
        _divided(total, 1, data_parallel_degree, "data_parallel_degree")
        if micro is None:
            micro = _divided(total, data_parallel_degree, steps or 1, "gradient_accumulation_steps")
        if steps is None:
            steps = _divided(total, data_parallel_degree, micro, "micro_batch_size")
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


def _divided(total: int, degree: int, value: int, parameter: str) -> int:
    """``total`` over both; a ``value`` of the parameter that does not divide names those that do."""
    if total % (degree * value) == 0:
        return total // (degree * value)
    fitting = [number for number in range(1, total + 1) if total % (degree * number) == 0]
    ranks = f" on each of {degree} data-parallel ranks" if degree > 1 else ""
    raise BatchProblem(
        parameter,
        f"global_batch_size={total} is not a multiple of {degree * value} ({parameter}={value}{ranks})",
        f"use one of {', '.join(map(str, fitting[-12:]))}",
    )


def _degree_text(degree: int) -> str:
    return f" x data_parallel_degree={degree}" if degree > 1 else ""
