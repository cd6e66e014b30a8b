"""What becomes of activations between forward and backward: kept, recomputed, or parked in host memory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from trials.contract import FailureKind, TrialFailure
from trials.training.task import Task, wrong_return

MIN_OFFLOADED_BYTES = 1024  # smaller tensors cost more to move than they free

_NO_BACKWARD = -1
_aten = torch.ops.aten
_KEPT_BY_SELECTIVE = [
    _aten.mm.default,
    _aten.addmm.default,
    _aten.bmm.default,
    _aten.baddbmm.default,
    _aten.convolution.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
]


def blocks_of(task: Task, model: nn.Module) -> list[nn.Module]:
    """The modules to checkpoint: ``task.blocks(model)``, or the members of the model's largest ModuleList."""
    blocks = units_of(task, model)
    known = set(model.modules())
    if not blocks or any(block not in known for block in blocks):
        raise TrialFailure(
            FailureKind.UNSUPPORTED,
            f"activation checkpointing works on blocks, and {type(task).__name__} has none: give the model a "
            "torch.nn.ModuleList, or the task a method blocks(model) that returns modules of the model",
        )
    return blocks


def units_of(task: Task, model: nn.Module) -> list[nn.Module]:
    """What the model repeats, the unit of checkpointing and sharding: ``task.blocks(model)``, or the members of
    the largest ModuleList; empty where there is neither.
    """
    if hasattr(task, "blocks"):
        found = task.blocks(model)
        if not isinstance(found, Iterable):
            raise wrong_return(task, "blocks", found, "modules of the model")
        return list(found)
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len, default=[])


class Checkpointing:
    """Puts a checkpoint around the forward of each block, and counts during the first step that it
    recomputes.
    """

    def __init__(self, kind: str, blocks: list[nn.Module]) -> None:
        self.kind = kind
        self._blocks = blocks
        self._plain = [block.forward for block in blocks]
        self._recomputed: set[int] = set()
        self._wrap([partial(self._counted, index) for index in range(len(blocks))])

    def settle(self) -> int:
        """Stop counting; the number of blocks whose forward ran again in the backward pass so far.

        TrialFailure where none did: the checkpoint was asked for and is not there.
        """
        self._wrap(self._plain)
        recomputed = len(self._recomputed)
        if not recomputed:
            raise TrialFailure(
                FailureKind.UNSUPPORTED,
                f"activation_checkpointing={self.kind}: none of the {len(self._blocks)} blocks was "
                "recomputed; they must be called as modules, in training mode",
            )
        return recomputed

    def _wrap(self, forwards: list[Any]) -> None:
        keywords: dict[str, Any] = {"use_reentrant": False}
        if self.kind == "selective":
            keywords["context_fn"] = partial(create_selective_checkpoint_contexts, _KEPT_BY_SELECTIVE)
        for block, forward in zip(self._blocks, forwards, strict=True):
            # an instance attribute, so that the names in the state_dict stay as they are
            block.forward = partial(_checkpointed, forward, keywords)

    def _counted(self, index: int, *args: Any, **kwargs: Any) -> Any:
        if (
            torch._C._current_graph_task_id() != _NO_BACKWARD
        ):  # accumulation runs a forward more than once too
            self._recomputed.add(index)
        return self._plain[index](*args, **kwargs)


def _checkpointed(forward: Any, keywords: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, **keywords, **kwargs)


class Offload:
    """Copies what autograd saves to host memory and brings it back for the backward pass.

    Parameters stay where they are. On a CPU the copies are real, and free nothing. ``bytes_moved`` counts the
    copies to the host.
    """

    def __init__(self, model: nn.Module) -> None:
        self.bytes_moved = 0
        self._parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def saving(self) -> AbstractContextManager[Any]:
        """Entered around every forward pass."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, tensor: Tensor) -> tuple[torch.device | None, Tensor]:
        size = tensor.numel() * tensor.element_size()
        if size < MIN_OFFLOADED_BYTES or tensor.untyped_storage().data_ptr() in self._parameters:
            return None, tensor
        # the layout is kept: kernels of the backward pass may rely on it
        host = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
        host.copy_(tensor, non_blocking=True)  # in the order of the stream, as is the way back
        self.bytes_moved += size
        return tensor.device, host

    def _unpack(self, packed: tuple[torch.device | None, Tensor]) -> Tensor:
        device, tensor = packed
        return tensor if device is None else tensor.to(device, non_blocking=True)


def saving(offload: Offload | None) -> AbstractContextManager[Any]:
    """The offload's context, or none."""
    return offload.saving() if offload else nullcontext()
