"""The one place that knows how many processes train together and on which device this one is."""

from __future__ import annotations

import os
from dataclasses import dataclass

from trials.contract import FailureKind, TrialFailure, TrialSpec


@dataclass(frozen=True)
class World:
    """``device`` as PyTorch names it (``cpu``, ``cuda:0``); ``device_name`` as its driver does."""

    rank: int
    world_size: int
    device: str
    device_name: str

    @property
    def device_type(self) -> str:
        """``cpu`` or ``cuda``."""
        return self.device.partition(":")[0]

    @property
    def devices(self) -> int:
        """Devices that the job really uses."""
        return self.world_size


def show_devices(spec: TrialSpec) -> None:
    """Limit the process to the spec's GPUs; call it before torch is imported."""
    if spec.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(spec.gpus)


def join_world(spec: TrialSpec) -> World:
    """One process: on the first GPU of the spec, or on the CPU where the spec holds none."""
    import torch

    if not spec.gpus:
        return World(0, 1, "cpu", "cpu")
    if not torch.cuda.is_available():
        raise TrialFailure(
            FailureKind.UNSUPPORTED,
            f"the trial holds GPU {', '.join(spec.gpus)} and PyTorch sees no CUDA device",
        )
    return World(0, 1, "cuda:0", torch.cuda.get_device_name(0))
