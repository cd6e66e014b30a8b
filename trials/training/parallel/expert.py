"""Expert parallelism: each data-parallel rank keeps some of a layer's experts, and tokens travel to them and back
(GShard, arXiv 2006.16668; nothing is dropped here).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trials.contract import FailureKind, TrialFailure
from trials.training.task import Task
from trials.training.world import World


class Exchange:
    """Sends tokens, sorted by expert, to the ranks that hold these experts, and their results back."""

    def __init__(self, group: Any, ranks: int) -> None:
        self._group, self._ranks = group, ranks

    def there(self, tokens: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """``tokens`` (n, width) sorted by expert, ``counts`` (experts) of them -> what came here, rank by rank, and
        its counts (ranks, own experts).
        """
        from torch.distributed._functional_collectives import all_to_all_single

        own = len(counts) // self._ranks
        arrived = all_to_all_single(counts, [own] * self._ranks, [own] * self._ranks, self._group)
        received = torch.as_tensor(arrived).view(self._ranks, own)
        self._sent = counts.view(self._ranks, own).sum(1).tolist()
        self._received = received.sum(1).tolist()
        return self._moved(tokens, self._received, self._sent), received

    def back(self, results: Tensor) -> Tensor:
        """The results for what came with the last ``there``, in its order -> those for the tokens sent then."""
        return self._moved(results, self._sent, self._received)

    def _moved(self, tensor: Tensor, arriving: list[int], leaving: list[int]) -> Tensor:
        from torch.distributed._functional_collectives import all_to_all_single_autograd

        moved: Tensor = all_to_all_single_autograd(tensor.contiguous(), arriving, leaving, self._group)
        return moved


class Spread:
    """The experts of this rank. Their gradients come from the tokens of all ranks, so they are no part of what
    data parallelism averages; ``finish`` makes them the mean that the others' gradients are.
    """

    def __init__(self, parameters: list[nn.Parameter], world: World) -> None:
        self.parameters = parameters
        self._degree = world.layout.data_degree
        copies = world.layout.data_degree // world.layout.expert_degree
        self._copies = world.mesh["replicate"].get_group() if copies > 1 else None

    def finish(self) -> None:
        """Before the optimizer's step: sum over the copies of the same experts, divide by the data-parallel ranks."""
        import torch.distributed as dist

        for parameter in self.parameters:
            if parameter.grad is None:  # no token came to this expert, here; another copy may have had some
                parameter.grad = torch.zeros_like(parameter)
            if self._copies is not None:
                dist.all_reduce(parameter.grad, group=self._copies)
            parameter.grad /= self._degree


def spread_experts(task: Task, model: nn.Module, world: World) -> Spread:
    """Let the task keep this rank's experts. TrialFailure where it has none to spread."""
    degree = world.layout.expert_degree
    group = world.mesh["shard"].get_group()
    if not hasattr(task, "spread_experts"):
        raise TrialFailure(
            FailureKind.UNSUPPORTED,
            f"expert_parallel_degree: {type(task).__name__} has no method "
            "spread_experts(model, rank, degree, new_exchange)",
        )
    rank = world.place.data % degree
    kept = list(task.spread_experts(model, rank, degree, lambda: Exchange(group, degree)))
    if not kept:
        raise TrialFailure(
            FailureKind.UNSUPPORTED, f"expert_parallel_degree={degree}: this model has no experts to spread"
        )
    return Spread(kept, world)
