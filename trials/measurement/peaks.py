"""Dense peak rates of devices, for MFU. A device that is not listed has no MFU.

Sources: NVIDIA A100 datasheet (2021), NVIDIA H100 datasheet (2023), NVIDIA H200 datasheet (2024), NVIDIA L4
and L40S datasheets (2023). Rates are dense: the datasheets' "with sparsity" numbers are halved. ``float32``
is the rate of the CUDA cores, ``tf32`` that of the tensor cores.
"""

from __future__ import annotations

_TERA = 1e12
_PEAK_TFLOPS: dict[str, dict[str, float]] = {
    "H200": {"float32": 67, "tf32": 494.7, "bfloat16": 989.4, "float16": 989.4},
    "H100 PCIe": {"float32": 51, "tf32": 378, "bfloat16": 756, "float16": 756},
    "H100": {"float32": 67, "tf32": 494.7, "bfloat16": 989.4, "float16": 989.4},
    "A100": {"float32": 19.5, "tf32": 156, "bfloat16": 312, "float16": 312},
    "L40S": {"float32": 91.6, "tf32": 183, "bfloat16": 362, "float16": 362},
    "L4": {"float32": 30.3, "tf32": 60, "bfloat16": 121, "float16": 121},
}


def peak_flops_per_s(device_name: str, compute: str) -> float | None:
    """Dense peak in FLOP/s of a device (by the name its driver gives) for a compute type, or None if
    unknown.
    """
    for name, rates in _PEAK_TFLOPS.items():  # longer names stand before their prefixes
        if name in device_name:
            return rates[compute] * _TERA if compute in rates else None
    return None
