"""What this machine has, as far as the kernel and the driver tell: nothing heavy is loaded."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trials.measurement.environment import machine
from tuner.cli.options import visible_gpus

_GPU_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader,nounits")
_BF16_FLAGS = ("amx_bf16", "avx512_bf16")
_AMPERE, _VOLTA = (
    8.0,
    7.0,
)  # compute capabilities: tf32 and bf16 begin with the first, fast fp16 with the second
_DRIVER_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Gpu:
    """One kind of NVIDIA device: the weakest that was found. ``capability`` is its compute capability."""

    name: str
    memory_gib: float
    capability: float


@dataclass(frozen=True)
class Hardware:
    """``cores`` are those that this process may use; ``gpu`` is None without one, or where no driver answers."""

    cpu_model: str
    cpu_flags: tuple[str, ...]
    cores: int
    memory_gib: float
    gpus: int = 0
    gpu: Gpu | None = None

    @property
    def precisions(self) -> tuple[str, ...]:
        """The formats that this hardware is fast in, fp32 first."""
        if not self.gpus:
            return ("fp32", "bf16") if set(self.cpu_flags) & set(_BF16_FLAGS) else ("fp32",)
        capability = self.gpu.capability if self.gpu else 0.0
        if capability >= _AMPERE:
            return ("fp32", "tf32", "bf16")
        return ("fp32", "fp16") if capability >= _VOLTA else ("fp32",)

    @property
    def trial_memory_gib(self) -> float:
        """The memory that a trial's peak is measured in: the device's, or the machine's."""
        return self.gpu.memory_gib if self.gpu else self.memory_gib

    def __str__(self) -> str:
        fast = next((flag for flag in _BF16_FLAGS if flag in self.cpu_flags), "no bf16 in hardware")
        device = self.gpu.name if self.gpu else "GPU whose driver does not answer"
        gpus = f"{self.gpus} x {device}" if self.gpus else "no GPU"
        cores = f"{self.cores} core{'s' if self.cores != 1 else ''}"
        return f"{cores} ({fast}), {self.memory_gib:.0f} GiB of memory, {gpus}"


def this_machine() -> Hardware:
    """The machine that this process runs on, with the devices that it may use."""
    found, gpus = machine(), visible_gpus()
    return Hardware(
        str(found["cpu_model"]),
        tuple(found["cpu_flags"]),
        len(found["cores_held"]),
        _memory_gib(found),
        gpus,
        _weakest_gpu() if gpus else None,
    )


def _memory_gib(found: Mapping[str, Any]) -> float:
    """The machine's memory, or what a container of ours is allowed of it."""
    limits = [float(found["memory_gib"])]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as stream:  # noqa: PTH123 - a kernel file, not a path to keep
                limits.append(int(stream.read()) / 2**30)
        except (OSError, ValueError):
            continue  # not that version of cgroups, or "max"
    return min(limits)


def _weakest_gpu() -> Gpu | None:
    """What the driver's own program says; None where it is not there or does not answer."""
    try:
        done = subprocess.run(
            _GPU_QUERY,
            capture_output=True,
            text=True,
            timeout=_DRIVER_TIMEOUT_S,
            check=True,
            env={**os.environ},
        )
        rows = [line.rsplit(",", 2) for line in done.stdout.splitlines() if line.strip()]
        found = [Gpu(name.strip(), float(mib) / 1024, float(capability)) for name, mib, capability in rows]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return min(found, key=lambda gpu: (gpu.capability, gpu.memory_gib), default=None)
