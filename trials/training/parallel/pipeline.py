"""Pipeline parallelism: each rank holds stages of the model, and micro-batches flow through them (PyTorch's
schedules).

A task's ``loss`` calls the model itself, so it is asked twice: by the first stage with a stand-in that keeps what
the model would get, and by the last one with a stand-in that hands out what the pipeline gave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from trials.contract import FailureKind, TrialFailure
from trials.training.layout import STAGES_PER_RANK
from trials.training.parallel.replicas import Replica, form_replica
from trials.training.task import Task, checked_loss, wrong_return
from trials.training.world import World


def split(task: Task, model: nn.Module, world: World, schedule: str) -> dict[int, nn.Module]:
    """The stages of this rank by their number. TrialFailure where the model has no such parts."""
    ranks, own = world.layout.pipeline_degree, world.place.pipeline
    count = ranks * STAGES_PER_RANK[schedule]
    stages = _stages(task, model, count)
    held = sum(parameter.numel() for stage in stages for parameter in stage.parameters())
    if held != sum(parameter.numel() for parameter in model.parameters()):
        raise TrialFailure(
            FailureKind.UNSUPPORTED,
            f"the {count} pipeline stages of {type(task).__name__} do not hold each parameter once; "
            "stages cannot share weights",
        )
    return {number: stages[number] for number in range(own, count, ranks)}


def _stages(task: Task, model: nn.Module, count: int) -> list[nn.Module]:
    """``task.pipeline_stages(model, count)``, or even runs of an ``nn.Sequential``."""
    if hasattr(task, "pipeline_stages"):
        found = task.pipeline_stages(model, count)
        if not isinstance(found, list) or len(found) != count:
            raise wrong_return(task, "pipeline_stages", found, f"a list of {count} modules")
        return found
    if isinstance(model, nn.Sequential) and len(model) >= count:
        edges = [len(model) * number // count for number in range(count + 1)]
        return [model[begin:end] for begin, end in pairwise(edges)]
    raise TrialFailure(
        FailureKind.UNSUPPORTED,
        f"pipeline_parallel_degree: {type(task).__name__} has no {count} stages: give it a method "
        "pipeline_stages(model, count) that returns modules to be run one after the other",
    )


class Pipeline:
    """The stages of this rank, each wrapped as its data-parallel form asks, under one schedule."""

    def __init__(
        self,
        task: Task,
        stages: dict[int, nn.Module],
        blocks: list[nn.Module],
        world: World,
        config: Any,
    ) -> None:
        self._task, self._world, self._kind = task, world, config["pipeline_schedule"]
        self._count = world.layout.pipeline_degree * STAGES_PER_RANK[self._kind]
        self.replicas = {
            number: form_replica(stage, _inside(blocks, stage), world, config)
            for number, stage in stages.items()
        }
        self._group = world.mesh["pipeline"].get_group()
        self._schedules: dict[tuple[int, int], Any] = {}

    @property
    def is_last(self) -> bool:
        """Whether this rank computes the loss."""
        return self._count - 1 in self.replicas

    def step(
        self, batches: Sequence[tuple[Any, float]], after_forward: Callable[[Tensor], Any] | None
    ) -> Tensor:
        """Forward and backward of all micro-batches; the weighted loss on the last stage's rank, 0 elsewhere."""
        count = len(batches)

        def loss_of(output: Tensor, number: Tensor) -> Tensor:
            batch, weight = batches[int(number)]
            loss = checked_loss(self._task, self._task.loss(_Stub(output), batch))
            if after_forward:
                after_forward(loss)
            return loss * weight * count  # the schedule divides gradients by the number of micro-batches

        self._loss = loss_of
        inputs = [model_input(self._task, self._task.loss, batch) for batch, _ in batches]
        schedule = self._schedule(count, len(inputs[0]))
        losses: list[Tensor] = []
        arguments = (torch.cat(inputs),) if 0 in self.replicas else ()
        target = torch.arange(count) if self.is_last else None
        schedule.step(*arguments, target=target, losses=losses, return_outputs=False)
        if not self.is_last:
            return torch.zeros((), device=self._world.device)
        return torch.stack([loss.detach() for loss in losses]).mean()

    def forward(self, inputs: Tensor) -> Tensor:
        """What the whole model gives, on every rank; for evaluation."""
        hidden: Tensor = inputs
        for number in range(self._count):
            owner = number % self._world.layout.pipeline_degree
            if number in self.replicas:
                hidden = self.replicas[number].forward(hidden)
            hidden = _broadcast(hidden, owner, self._world, self._group)
        return hidden

    def _schedule(self, count: int, samples: int) -> Any:
        """The schedule for ``count`` micro-batches of ``samples``; stages keep the shapes that they met first."""
        if (count, samples) not in self._schedules:
            self._schedules[count, samples] = self._new_schedule(count)
        return self._schedules[count, samples]

    def _new_schedule(self, count: int) -> Any:
        from torch.distributed import pipelining

        stages: list[Any] = [
            pipelining.PipelineStage(
                replica.forward, number, self._count, torch.device(self._world.device), group=self._group
            )
            for number, replica in self.replicas.items()
        ]
        if self._kind == "interleaved":
            return pipelining.ScheduleInterleaved1F1B(stages, count, self._compute_loss)
        is_short = count < self._count  # a last, short step
        kind = pipelining.ScheduleGPipe if self._kind == "gpipe" or is_short else pipelining.Schedule1F1B
        return kind(stages[0], count, self._compute_loss)

    def _compute_loss(self, output: Tensor, number: Tensor) -> Tensor:
        return self._loss(output, number)


class StagedModel(nn.Module):
    """Stands for the whole model in ``task.score``: the pipeline's forward pass over all ranks."""

    def __init__(self, pipeline: Pipeline, stages: dict[int, nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages.values())
        self._forward = pipeline.forward

    def forward(self, inputs: Tensor) -> Tensor:
        """The output of the last stage, on every rank."""
        return self._forward(inputs)


class PipelineReplica(Replica):
    """For the trainer: the parts of a replica that do not concern single passes."""

    form = "pipeline"

    def __init__(self, model: StagedModel, pipeline: Pipeline) -> None:
        super().__init__(model)
        self.pipeline = pipeline
        first = next(iter(pipeline.replicas.values()))
        self._group = first.shard_group()
        self.form = first.form

    def shard_group(self) -> Any:
        """The group of ZeRO 1, which all stages of a rank share."""
        return self._group


class _Stub(nn.Module):
    """A model that has been run already."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self._output = output

    def forward(self, *_: Any, **__: Any) -> Tensor:
        return self._output


class _Met(Exception):  # noqa: N818 - leaves a task's method, no error
    def __init__(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        super().__init__()
        self.arguments, self.keywords = arguments, keywords


class _Recorder(nn.Module):
    def forward(self, *arguments: Any, **keywords: Any) -> Tensor:
        raise _Met(arguments, keywords)


def model_input(task: Task, method: Callable[..., Any], batch: Any) -> Tensor:
    """The tensor with which the task calls the model. TrialFailure where it is not one tensor."""
    try:
        method(_Recorder(), batch)
    except _Met as met:
        if len(met.arguments) == 1 and not met.keywords and isinstance(met.arguments[0], Tensor):
            return met.arguments[0]
    raise TrialFailure(
        FailureKind.UNSUPPORTED,
        f"pipeline_parallel_degree: {type(task).__name__}.{method.__name__} must call the model with one tensor "
        "whose rows are samples",
    )


def _inside(blocks: list[nn.Module], stage: nn.Module) -> list[nn.Module]:
    members = set(stage.modules())
    return [block for block in blocks if block in members and block is not stage]


def _broadcast(tensor: Tensor, owner: int, world: World, group: Any) -> Tensor:
    """The owner's tensor on every rank of the pipeline."""
    import torch.distributed as dist

    source = dist.get_global_rank(group, owner)
    kind: list[Any] = [(tensor.shape, tensor.dtype)]
    dist.broadcast_object_list(kind, src=source, group=group)
    shape, dtype = kind[0]
    if world.rank != source:
        tensor = torch.empty(shape, dtype=dtype, device=world.device)
    dist.broadcast(tensor.contiguous(), src=source, group=group)
    return tensor
