"""``python -m trials.measurement.probe``: what PyTorch can do here, as JSON. Takes about as long as its import.

Keys: ``torch`` (version), ``built_for`` (CUDA version or ``cpu``), ``device`` (what the products ran on),
``devices`` (the GPUs that PyTorch sees: name, memory_gib), ``threads``, ``tflops`` (format: best rate of a square
product, in 1e12 FLOP/s) and ``refused`` (format: why it does not run).
"""

from __future__ import annotations

import json
import time
from typing import Any

REPEATS, LONG_S = 5, 0.2  # a product that takes long is not repeated
FORMATS = ("fp32", "tf32", "bf16", "fp16")
_SIDE = {"cpu": 768, "cuda": 4096}


def probe() -> dict[str, Any]:
    """The facts of the module's text; imports torch."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "built_for": f"CUDA {torch.version.cuda}" if torch.version.cuda else "cpu",
        "device": device,
        "devices": [_device(index) for index in range(torch.cuda.device_count() if device == "cuda" else 0)],
        "threads": torch.get_num_threads(),
        "tflops": {},
        "refused": {},
    }
    for name in FORMATS:
        try:
            found["tflops"][name] = _rate(name, device)
        except RuntimeError as problem:  # torch's way to say that it has no such kernel
            found["refused"][name] = str(problem).splitlines()[0]
    return found


def _rate(name: str, device: str) -> float:
    """Best rate of a square matrix product in 1e12 FLOP/s."""
    import torch

    if name == "tf32" and (device == "cpu" or torch.cuda.get_device_capability() < (8, 0)):
        raise RuntimeError("needs an NVIDIA GPU from Ampere on")
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32)
    side = _SIDE[device]
    matrix = torch.ones(side, side, dtype=dtype, device=device)
    times = [_time(matrix)]  # the best of several: other programs may run now
    while len(times) <= REPEATS and times[0] < LONG_S:
        times.append(_time(matrix))
    return 2 * side**3 / min(times) / 1e12


def _time(matrix: Any) -> float:
    """Seconds of one product, the device synchronised."""
    import torch

    begin = time.perf_counter()
    matrix @ matrix
    if matrix.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _device(index: int) -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(index)
    return {"name": properties.name, "memory_gib": round(properties.total_memory / 2**30, 1)}


if __name__ == "__main__":
    print(json.dumps(probe()))
