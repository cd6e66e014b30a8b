"""The one place that knows how many processes train together and on which device this one is."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trials.contract import FailureKind, TrialFailure, TrialSpec
from trials.training.layout import Layout, Place

RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"
"""What a rank is told by its environment, under the names that torchrun uses too."""
LAUNCHER, STORE_FD, STARTED_AT = "TUNER_LAUNCHER", "TUNER_STORE_FD", "TUNER_STARTED_AT"
"""The process that started the ranks, the listening socket that rank 0 takes over (torchrun has one of its own),
and when the trial's first process began (monotonic clock).
"""
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


@dataclass(frozen=True)
class World:
    """``device`` as PyTorch names it (``cpu``, ``cuda:0``); ``device_name`` as its driver does.

    ``root_pid`` is the trial's first process, which holds its cores and is above every rank.
    """

    rank: int
    world_size: int
    device: str
    device_name: str
    layout: Layout = field(default_factory=Layout)
    root_pid: int = 0

    @property
    def device_type(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.device.partition(":")[0]

    @property
    def devices(self) -> int:
        """Devices that the job really uses."""
        return self.world_size

    @property
    def place(self) -> Place:
        """Where this rank stands in the layout."""
        return self.layout.place(self.rank)

    @cached_property
    def mesh(self) -> Any:
        """The ranks as a device mesh: ``pipeline``, ``replicate`` x ``shard`` (data parallel), ``tensor``."""
        from torch.distributed.device_mesh import init_device_mesh

        layout = self.layout
        shape = (
            layout.pipeline_degree,
            layout.data_degree // layout.shard_degree,
            layout.shard_degree,
            layout.tensor_degree,
        )
        names = ("pipeline", "replicate", "shard", "tensor")
        return init_device_mesh(self.device_type, shape, mesh_dim_names=names)

    @cached_property
    def data_group(self) -> Any:
        """The process group of the ranks that hold the same part of the model."""
        return self.mesh["replicate", "shard"]._flatten("data").get_group()

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, by rank; every rank must call it. Outside of measured windows only."""
        if self.world_size == 1:
            return [value]
        import torch.distributed

        found: list[Any] = [None] * self.world_size
        torch.distributed.all_gather_object(found, value)
        return found

    def agree(self, value: bool) -> bool:
        """Rank 0's answer on every rank, where all must decide alike. Outside of measured windows only."""
        return bool(self.gather(value)[0])

    def leave(self) -> None:
        """The last thing that the ranks do together; then each may end when it likes."""
        if self.world_size > 1:
            import torch.distributed

            torch.distributed.barrier()
            torch.distributed.destroy_process_group()


def is_rank() -> bool:
    """Whether this process is one of several that a launcher started."""
    return LAUNCHER in os.environ


def follow_launcher() -> None:
    """A rank must not outlive its launcher, however that one ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != int(os.environ[LAUNCHER]):  # it died before the line above could matter
        os._exit(1)


def show_devices(spec: TrialSpec) -> None:
    """Limit the process to the spec's GPUs; call it before torch is imported."""
    if spec.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(spec.gpus)


def join_world(spec: TrialSpec, layout: Layout) -> World:
    """This process's place: alone, or as one of the ranks (then it meets the others here). On the GPU of its
    rank, or on the CPU where the spec holds none.
    """
    rank = int(os.environ[RANK]) if is_rank() else 0
    device, name = _device(spec, rank)
    if not is_rank():
        return World(rank, 1, device, name, Layout())
    world = World(rank, layout.world_size, device, name, layout, int(os.environ[LAUNCHER]))
    _meet(world)
    return world


def _device(spec: TrialSpec, rank: int) -> tuple[str, str]:
    import torch

    if not spec.gpus:
        return "cpu", "cpu"
    if not torch.cuda.is_available():
        raise TrialFailure(
            FailureKind.UNSUPPORTED,
            f"the trial holds GPU {', '.join(spec.gpus)} and PyTorch sees no CUDA device",
        )
    torch.cuda.set_device(rank)
    return f"cuda:{rank}", torch.cuda.get_device_name(rank)


def _meet(world: World) -> None:
    """Join the process group through the launcher's socket (no port is ever free for another to take), or by
    the environment, as torchrun has it.
    """
    import torch.distributed as dist

    store = None
    if STORE_FD in os.environ:
        store = dist.TCPStore(  # type: ignore[attr-defined]  # torch's own documentation names it so
            os.environ[MASTER_ADDR],
            int(os.environ[MASTER_PORT]),
            world.world_size,
            is_master=world.rank == 0,
            master_listen_fd=int(os.environ[STORE_FD]) if world.rank == 0 else None,
        )
    backend = "gloo" if world.device_type == "cpu" else "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, store=store, rank=world.rank, world_size=world.world_size)
