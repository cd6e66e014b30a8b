"""Optimizers by name, with PyTorch's defaults besides learning rate and weight decay."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trials.contract import FailureKind, TrialFailure
from trials.training.task import Task, wrong_return

DEFAULT_LEARNING_RATE = 1e-3

_OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adamw": (torch.optim.AdamW, {}),
    "fused_adamw": (torch.optim.AdamW, {"fused": True}),
    "adam": (torch.optim.Adam, {}),
    "fused_adam": (torch.optim.Adam, {"fused": True}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
    "fused_sgd": (torch.optim.SGD, {"fused": True, "momentum": 0.9}),
    "adafactor": (torch.optim.Adafactor, {}),
    "rmsprop": (torch.optim.RMSprop, {}),
}


def build_optimizer(
    name: str, task: Task, model: nn.Module, shard_group: Any = None, *, is_on_host: bool = False
) -> torch.optim.Optimizer | HostOptimizer:
    """The optimizer over the model's trainable parameters, at the task's learning rate and weight decay.

    With ``shard_group`` each of its ranks keeps the state of its share of the parameters only (ZeRO 1);
    ``is_on_host`` keeps state and a copy of the parameters in host memory, and updates them there.
    """
    kind, options = _OPTIMIZERS[name]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise wrong_return(task, "model", model, "a model with trainable parameters")
    rate, decay = getattr(task, "learning_rate", DEFAULT_LEARNING_RATE), getattr(task, "weight_decay", 0.0)
    if shard_group is not None:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            parameters, kind, process_group=shard_group, lr=rate, weight_decay=decay, **options
        )
    if is_on_host:
        copies = [parameter.detach().to("cpu", copy=True) for parameter in parameters]
        return HostOptimizer(parameters, kind(copies, lr=rate, weight_decay=decay, **options), copies)  # type: ignore[call-arg]  # as below
    try:
        return kind(_alike(parameters), lr=rate, weight_decay=decay, **options)  # type: ignore[call-arg]  # each of them takes these
    except RuntimeError as problem:  # a fused kernel that this device or dtype lacks
        raise TrialFailure(FailureKind.UNSUPPORTED, f"optimizer={name}: {problem}") from problem


class HostOptimizer:
    """Updates copies of the parameters in host memory: gradients go there, new values come back.

    ``bytes_moved`` counts both ways.
    """

    def __init__(
        self, parameters: list[nn.Parameter], optim: torch.optim.Optimizer, copies: list[Tensor]
    ) -> None:
        self.optim = optim
        self.param_groups = optim.param_groups
        self.bytes_moved = 0
        self._pairs = list(zip(parameters, copies, strict=True))

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for parameter, copy in self._pairs:
            copy.grad = None if parameter.grad is None else parameter.grad.to("cpu")
        self.optim.step()
        for parameter, copy in self._pairs:
            if copy.grad is not None:
                parameter.copy_(copy)
                self.bytes_moved += 2 * copy.numel() * copy.element_size()
                copy.grad = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for parameter, _ in self._pairs:
            parameter.grad = None


def _alike(parameters: list[nn.Parameter]) -> list[Any]:
    """Parameters, in groups where some are sharded another way than others: one operation on many tensors at
    once takes no mix.
    """
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return parameters if len(groups) == 1 else [{"params": group} for group in groups.values()]


def describe(optimizer: torch.optim.Optimizer | HostOptimizer) -> dict[str, Any]:
    """Class and implementation, for the proof."""
    inner: Any = getattr(optimizer, "optim", optimizer)  # of a sharded one, or one on the host
    moved = (
        {"optimizer_bytes_moved_per_step": optimizer.bytes_moved}
        if isinstance(optimizer, HostOptimizer)
        else {}
    )
    return {
        **moved,
        "optimizer": type(inner).__name__,
        "optimizer_is_fused": bool(inner.defaults.get("fused")),
    }
