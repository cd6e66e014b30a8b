"""Memory taken on the trial's GPUs, as the driver counts it: engines allocate without PyTorch knowing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_TIMEOUT_S = 10.0


def device_memory_gib(gpus: Sequence[str]) -> float | None:
    """What is in use on these devices now, by whomever; None without devices, or where the driver does not say.

    Takes tens of milliseconds: call it outside a measured window.
    """
    if not gpus:
        return None
    program = ["nvidia-smi", f"--id={','.join(gpus)}", "--query-gpu=memory.used"]
    try:
        done = subprocess.run(
            [*program, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        return sum(float(line) for line in done.stdout.splitlines() if line.strip()) / 1024
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
