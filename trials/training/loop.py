"""The timed loop: optimizer steps over micro-batches, each step's end marked, nothing else done in between.

Warm-up and steady window are told apart afterwards from the marks (``trials.measurement.steady``), so nothing
is decided, written or synchronised while steps run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from trials.contract import FailureKind, TrialFailure
from trials.measurement.clocks import StepClock
from trials.training.activations import Offload, saving
from trials.training.batch_plan import BatchPlan, Part
from trials.training.data import to_device
from trials.training.optimizers import HostOptimizer
from trials.training.parallel.pipeline import PipelineReplica
from trials.training.parallel.replicas import Replica
from trials.training.precision import Precision
from trials.training.task import Task, checked_loss
from trials.training.world import World


class Batches(Protocol):
    """The micro-batches of one step, each with its weight."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[Any, float]]: ...


NON_FINITE_CHECK_STEPS = 64
"""On a GPU reading a loss makes the host wait, so losses are looked at only this often there; on a CPU
always.
"""


@dataclass
class Trainer:
    """Everything that one optimizer step needs. ``replica.forward`` is what the task's loss gets as model."""

    task: Task
    world: World
    plan: BatchPlan
    precision: Precision
    replica: Replica
    optimizer: torch.optim.Optimizer | HostOptimizer
    scaler: Any | None
    offload: Offload | None
    total_steps: int

    def __post_init__(self) -> None:
        self._schedule: Callable[[float], float] | None = getattr(self.task, "schedule", None)
        self._rates = [group["lr"] for group in self.optimizer.param_groups]

    def step(
        self,
        number: int,
        batches: Batches,
        after_forward: Callable[[Tensor], Any] | None = None,
    ) -> Tensor:
        """One optimizer step over ``(batch, weight)`` pairs whose weights add up to 1; returns the mean
        loss.
        """
        loss = self._passes(batches, after_forward)
        self.replica.before_update()
        self._update(number)
        return loss

    def _passes(self, batches: Batches, after_forward: Callable[[Tensor], Any] | None) -> Tensor:
        """Forward and backward of every micro-batch; the mean loss."""
        losses, last = [], len(batches) - 1
        for index, (batch, weight) in enumerate(batches):
            moved = to_device(batch, self.world.device, self.precision.batch_dtype)
            with self.replica.one_pass(is_last=index == last):
                with self.precision.casting(self.world.device_type), saving(self.offload):
                    loss = self.task.loss(self.replica.forward, moved)
                if after_forward:
                    after_forward(loss)
                weighted = loss * weight if weight != 1.0 else loss
                (self.scaler.scale(weighted) if self.scaler else weighted).backward()
            losses.append(weighted.detach())
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def _update(self, number: int) -> None:
        if self._schedule:
            factor = self._schedule(number / max(1, self.total_steps - 1))
            for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate * factor
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


@dataclass
class PipelineTrainer(Trainer):
    """Takes all micro-batches of a step into the pipeline at once."""

    replica: PipelineReplica

    def _passes(self, batches: Batches, after_forward: Callable[[Tensor], Any] | None) -> Tensor:
        dtype = self.precision.batch_dtype
        moved = [(to_device(batch, self.world.device, dtype), weight) for batch, weight in batches]
        with self.precision.casting(self.world.device_type):
            return self.replica.pipeline.step(moved, after_forward)


@dataclass
class StepLog:
    """What the loop recorded, from the first step of the training on; waits and graphs of the marked steps
    only.
    """

    losses: list[Tensor] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    graphs: list[int] = field(default_factory=list)
    _checked: int = 0

    def check_finite(self) -> None:
        """TrialFailure ``non_finite`` naming the first new step whose loss is NaN or infinite."""
        for number in range(self._checked, len(self.losses)):
            if not math.isfinite(value := self.losses[number].item()):
                raise TrialFailure(
                    FailureKind.NON_FINITE,
                    f"the loss of step {number + 1} is {value}: lower the learning rate, "
                    "or use a format of more range",
                )
        self._checked = len(self.losses)


def proof_step(trainer: Trainer, batches: Iterator[Any], watch: Any, log: StepLog) -> None:
    """The first optimizer step, under a mode that watches every operation; part of the training, never
    timed.
    """

    def after_forward(loss: object) -> None:
        checked_loss(trainer.task, loss)
        watch.end_of_forward()

    with watch:
        log.losses.append(trainer.step(0, _Waiting(batches, trainer.plan), after_forward))
    log.check_finite()


def run_steps(
    trainer: Trainer,
    batches: Iterator[Any],
    numbers: range,
    clock: StepClock,
    log: StepLog,
    graphs: Callable[[], int] | None,
) -> None:
    """Train the steps ``numbers`` of full size, marking the end of each. ``graphs`` counts compiled graphs so
    far.
    """
    every = 1 if trainer.world.device_type == "cpu" else NON_FINITE_CHECK_STEPS
    for number in numbers:
        waited = _Waiting(batches, trainer.plan)
        log.losses.append(trainer.step(number, waited))
        clock.mark()
        log.waits_s.append(waited.waited_s)
        if graphs:
            log.graphs.append(graphs())
        if number % every == 0:
            log.check_finite()


def short_step(
    trainer: Trainer, number: int, batches: Iterator[Any], parts: list[Part], log: StepLog
) -> None:
    """The last, smaller step where the horizon is no multiple of the batch: weighted by its samples, not
    timed.
    """
    log.losses.append(trainer.step(number, [(next(batches), part.weight) for part in parts]))
    log.check_finite()


class _Waiting:
    """The micro-batches of one step with their weights; adds up how long they were waited for."""

    def __init__(self, batches: Iterator[Any], plan: BatchPlan) -> None:
        self.waited_s = 0.0
        self._batches, self._count = batches, plan.gradient_accumulation_steps

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        for _ in range(self._count):
            begin = time.perf_counter()
            batch = next(self._batches)
            self.waited_s += time.perf_counter() - begin
            yield batch, 1.0 / self._count
