"""The fingerprint of machine and libraries that a measurement belongs to."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

_WORTH_NAMING = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_bf16",
    "amx_fp16",
    "amx_int8",
)


def machine(root: int = 0) -> dict[str, Any]:
    """Processor, cores (of the machine, and held by the process ``root``, 0: this one), memory, kernel and
    Python.
    """
    model, flags = _processor()
    return {
        "cpu_model": model,
        "cpu_flags": [flag for flag in _WORTH_NAMING if flag in flags],
        "cpu_count": os.cpu_count(),
        "cores_held": sorted(os.sched_getaffinity(root)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def torch_environment(device_type: str, root: int = 0) -> dict[str, Any]:
    """``machine()`` with PyTorch's version and, on a GPU, the device's name, memory and CUDA version."""
    import torch

    found = {**machine(root), "torch": torch.__version__}
    if device_type == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "gpu": properties.name,
            "gpu_memory_gib": round(properties.total_memory / 2**30, 2),
            "cuda": torch.version.cuda,
            "driver": _driver(),
        }
    return found


def _processor() -> tuple[str, set[str]]:
    model, flags = platform.machine(), set[str]()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() == "flags":
            flags = set(value.split())
        elif not key.strip():
            break  # one core is enough: the others say the same
    return model, flags


def _driver() -> str | None:
    version = Path("/sys/module/nvidia/version")
    return version.read_text().strip() if version.exists() else None
