"""How a rank's copy of the model works together with the others': alone, averaged (DDP), or sharded (FSDP2).

``form_replica`` is called once, on the freshly built model with its checkpointing in place; it changes the model
where the form is one of shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from trials.training.parallel.compression import compress
from trials.training.parallel.expert import Spread
from trials.training.world import World

MIB = 2**20


class Replica:
    """One copy on one process: nothing to agree on. ``forward`` is what a task's ``loss`` gets as its model."""

    form = "single"

    def __init__(self, forward: nn.Module) -> None:
        self.forward = forward

    def one_pass(self, is_last: bool) -> AbstractContextManager[Any]:
        """Entered around forward and backward of one micro-batch; ``is_last`` of its step."""
        return nullcontext()

    def before_update(self) -> None:
        """Called when all gradients of a step are there, before the optimizer uses them."""

    def shard_group(self) -> Any:
        """The group over which the optimizer's state is sharded (ZeRO 1), or None."""
        return None


class Averaged(Replica):
    """A whole copy on each rank; gradients are averaged in buckets while the backward pass runs (DDP)."""

    form = "ddp"

    def __init__(
        self, model: nn.Module, world: World, config: Mapping[str, Any], spread: Spread | None
    ) -> None:
        from torch.nn.parallel import DistributedDataParallel

        self._spread = spread
        if spread:
            own = set(spread.parameters)
            names = [name for name, parameter in model.named_parameters() if parameter in own]
            ignore = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
            ignore(model, names)  # type: ignore[no-untyped-call]  # torch's
        self._ddp = DistributedDataParallel(
            model,
            process_group=world.data_group,
            bucket_cap_mb=config["bucket_size_mib"],
            gradient_as_bucket_view=True,  # or each gradient exists twice
        )
        compress(self._ddp, config["gradient_compression"], world.data_group)
        super().__init__(self._ddp)
        self._syncs_always = config["gradient_sync"] == "every_micro_batch"
        self._group = world.data_group if world.layout.zero_stage == 1 else None

    def one_pass(self, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients are sent in the last micro-batch only, unless asked for otherwise."""
        return nullcontext() if is_last or self._syncs_always else self._ddp.no_sync()

    def before_update(self) -> None:
        """Spread experts are averaged here, not by DDP."""
        if self._spread:
            self._spread.finish()

    def shard_group(self) -> Any:
        """The data-parallel ranks, where ZeRO 1 was asked for."""
        return self._group


class Sharded(Replica):
    """Parameters, gradients and optimizer state as shards (FSDP2): block by block, and the rest of the model.

    ZeRO 3 frees a block's gathered parameters after its forward pass, ZeRO 2 keeps them until its backward.
    With one shard (``tensor_parallel_degree`` above 1 and no ZeRO) it only averages gradients.
    """

    form = "fsdp2"

    def __init__(
        self, model: nn.Module, blocks: list[nn.Module], world: World, config: Mapping[str, Any]
    ) -> None:
        from torch.distributed.fsdp import FSDPModule, fully_shard

        layout = world.layout
        is_hybrid = layout.shard_degree < layout.data_degree or not layout.is_sharded
        mesh = world.mesh["replicate", "shard"] if is_hybrid else world.mesh["shard"]
        for block in blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=layout.zero_stage == 3)
        fully_shard(model, mesh=mesh, reshard_after_forward=layout.zero_stage == 3)
        assert isinstance(model, FSDPModule)  # fully_shard has changed its class
        self._sharded = model
        super().__init__(model)
        self._syncs_always = config["gradient_sync"] == "every_micro_batch"

    def one_pass(self, is_last: bool) -> AbstractContextManager[Any]:
        """Without a sync in between, gradients add up unsharded: faster, and more memory."""
        self._sharded.set_requires_gradient_sync(is_last or self._syncs_always)
        return nullcontext()


def form_replica(
    model: nn.Module,
    blocks: list[nn.Module],
    world: World,
    config: Mapping[str, Any],
    spread: Spread | None = None,
) -> Replica:
    """The form that the layout asks for; ``blocks`` are the units of sharding (empty: the model as a whole),
    ``spread`` the experts that this rank has for itself.
    """
    layout = world.layout
    if layout.data_degree == 1:
        return Replica(model)
    if layout.is_sharded or layout.tensor_degree > 1:
        return Sharded(model, blocks, world, config)
    return Averaged(model, world, config, spread)


def local_bytes(tensors: Any) -> int:
    """Bytes that this rank really holds of tensors, sharded ones included."""
    total = 0
    for tensor in tensors:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        total += local.numel() * local.element_size()
    return total


def optimizer_state_bytes(optimizer: Any) -> int:
    """Bytes of the optimizer's state on this rank (of its own shard, with ZeRO)."""
    inner = getattr(optimizer, "optim", optimizer)
    return local_bytes(
        value for state in inner.state.values() for value in state.values() if isinstance(value, torch.Tensor)
    )
