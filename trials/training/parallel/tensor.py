"""Tensor parallelism: the linear layers of each block split over ranks, by columns and then by rows, so that one
all-reduce closes the pair (Megatron-LM, arXiv 1909.08053).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from trials.contract import FailureKind, TrialFailure
from trials.training.task import Task, wrong_return
from trials.training.world import World

# fmt: off
COLUMN_NAMES = frozenset((
    "qkv", "query_key_value", "c_attn", "in_proj", "query", "key", "value", "q_proj", "k_proj", "v_proj", "wq", "wk",
    "wv", "up_proj", "gate_proj", "gate_up_proj", "c_fc", "fc1", "w1", "w3", "linear1", "dense_h_to_4h",
))
ROW_NAMES = frozenset((
    "out", "out_proj", "o_proj", "wo", "dense", "c_proj", "down_proj", "fc2", "w2", "linear2", "dense_4h_to_h",
))
# fmt: on
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2}


def split_blocks(
    task: Task, model: nn.Module, blocks: list[nn.Module], world: World, batch: Any | None
) -> dict[str, str]:
    """Split the model in place and return the plan, layer name -> ``column`` or ``row``.

    The split model must give the loss that the whole one gave on ``batch``: code that counts heads by itself
    goes wrong silently otherwise. (None: the model has no values to compare.)
    """
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = _plan(task, model, blocks, world.layout.tensor_degree)
    before = None if batch is None else _loss(task, model, batch)
    styles = {"column": ColwiseParallel, "row": RowwiseParallel}
    parallelize_module(model, world.mesh["tensor"], {name: styles[kind]() for name, kind in plan.items()})
    if before is None:
        return plan
    try:
        after = _loss(task, model, batch)
    except RuntimeError as problem:
        raise _unsupported(f"the model cannot run with {plan}: {problem}") from problem
    tolerance = _TOLERANCE[next(model.parameters()).dtype]
    if not math.isclose(before, after, rel_tol=tolerance):
        raise _unsupported(
            f"split by {plan} the model gives a loss of {after:.6g} instead of {before:.6g}: its blocks must take "
            "the number of heads from the tensors, and keep a head's parts together"
        )
    return plan


def _plan(task: Task, model: nn.Module, blocks: list[nn.Module], degree: int) -> dict[str, str]:
    """``task.tensor_parallel_plan(model)``, or what the names of the blocks' layers tell."""
    if hasattr(task, "tensor_parallel_plan"):
        plan = task.tensor_parallel_plan(model)
        if not isinstance(plan, Mapping) or not set(plan.values()) <= {"column", "row"}:
            raise wrong_return(
                task, "tensor_parallel_plan", plan, 'a dict of layer name -> "column" or "row"'
            )
    else:
        names = {module: name for name, module in model.named_modules()}
        plan = {names[layer]: kind for block in blocks for layer, kind in _derived(block)}
    if not plan:
        raise _unsupported(
            f"{type(task).__name__} has no blocks with layers of known names: give it a method "
            'tensor_parallel_plan(model) that returns layer name -> "column" or "row"'
        )
    for name, kind in plan.items():
        layer = model.get_submodule(name)
        assert isinstance(layer, nn.Linear)  # derived ones are; a task's own names what it is
        size = layer.out_features if kind == "column" else layer.in_features
        if size % degree:
            raise _unsupported(
                f"tensor_parallel_degree={degree} does not divide the {size} features of {name}"
            )
    return dict(plan)


def _derived(block: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Layers of known names; in an ``nn.Sequential`` of two linear layers the first by columns, the second by
    rows. A block counts only where both kinds are there: a lone half would leave its output in parts.
    """
    found: list[tuple[nn.Module, str]] = []
    for name, module in block.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, nn.Sequential):
            layers = [layer for layer in module if isinstance(layer, nn.Linear)]
            if len(layers) == 2:
                found += [(layers[0], "column"), (layers[1], "row")]
        elif isinstance(module, nn.Linear) and last in COLUMN_NAMES | ROW_NAMES:
            found.append((module, "column" if last in COLUMN_NAMES else "row"))
    if {kind for _, kind in found} == {"column", "row"}:
        yield from found


def _loss(task: Task, model: nn.Module, batch: Any) -> float:
    was_training = model.training
    model.eval()  # dropout draws differ
    with torch.no_grad():
        loss = task.loss(model, batch).item()
    model.train(was_training)
    return float(loss)


def _unsupported(message: str) -> TrialFailure:
    return TrialFailure(FailureKind.UNSUPPORTED, f"tensor_parallel_degree: {message}")
