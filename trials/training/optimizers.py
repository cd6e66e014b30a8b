"""Optimizers by name, with PyTorch's defaults besides learning rate and weight decay."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

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


def build_optimizer(name: str, task: Task, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over the model's trainable parameters, at the task's learning rate and weight decay."""
    kind, options = _OPTIMIZERS[name]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise wrong_return(task, "model", model, "a model with trainable parameters")
    rate, decay = getattr(task, "learning_rate", DEFAULT_LEARNING_RATE), getattr(task, "weight_decay", 0.0)
    try:
        return kind(parameters, lr=rate, weight_decay=decay, **options)  # type: ignore[call-arg]  # each of them takes these
    except RuntimeError as problem:  # a fused kernel that this device or dtype lacks
        raise TrialFailure(FailureKind.UNSUPPORTED, f"optimizer={name}: {problem}") from problem


def describe(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Class and implementation, for the proof."""
    return {
        "optimizer": type(optimizer).__name__,
        "optimizer_is_fused": bool(optimizer.defaults.get("fused")),
    }
