"""Number formats of training: what is cast, what is scaled, and what the matrix products must then be in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from trials.contract import FailureKind, TrialFailure


@dataclass(frozen=True)
class Precision:
    """One format. ``matmul`` is the dtype that the matrix products must really have; ``peak`` names the
    hardware rate.
    """

    name: str
    matmul: torch.dtype
    autocast: torch.dtype | None = None
    parameters: torch.dtype = torch.float32
    has_scaler: bool = False
    peak: str = ""

    @property
    def batch_dtype(self) -> torch.dtype | None:
        """What floating-point inputs are cast to, None where autocast or nothing does it."""
        return self.parameters if self.parameters is not torch.float32 else None

    def casting(self, device_type: str) -> AbstractContextManager[Any]:
        """Entered around every forward pass."""
        return torch.autocast(device_type, self.autocast) if self.autocast else nullcontext()


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("fp32", torch.float32, peak="float32"),
        Precision("tf32", torch.float32, peak="tf32"),
        Precision("bf16", torch.bfloat16, autocast=torch.bfloat16, peak="bfloat16"),
        Precision("fp16", torch.float16, autocast=torch.float16, has_scaler=True, peak="float16"),
        Precision("bf16_params", torch.bfloat16, parameters=torch.bfloat16, peak="bfloat16"),
    )
}


def set_up(name: str, device_type: str) -> Precision:
    """The precision, with PyTorch's global switch for TensorFloat-32 set to match; tf32 needs CUDA from
    Ampere on.
    """
    precision = PRECISIONS[name]
    if name == "tf32" and (device_type != "cuda" or torch.cuda.get_device_capability() < (8, 0)):
        raise TrialFailure(
            FailureKind.UNSUPPORTED,
            f"precision=tf32 needs an NVIDIA GPU from Ampere on, the trial runs on {device_type}",
        )
    # "highest" on a CPU too: otherwise oneDNN may compute float32 products in bfloat16
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    if device_type == "cuda":
        torch.backends.cudnn.allow_tf32 = name == "tf32"
    return precision
