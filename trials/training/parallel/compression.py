"""Gradients sent in fewer bytes: PyTorch's communication hooks on DDP's buckets."""

from __future__ import annotations

from typing import Any

from trials.contract import FailureKind, TrialFailure

POWERSGD_RANK = 2
_POWERSGD_START = 2
"""Steps that send whole gradients first; PyTorch asks for at least two with error feedback."""


def compress(ddp: Any, kind: str, group: Any) -> None:
    """Put the hook in place; ``none`` leaves DDP's own averaging. TrialFailure ``unsupported`` for what the
    backend cannot send.
    """
    if kind == "none":
        return
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    if kind == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            group, matrix_approximation_rank=POWERSGD_RANK, start_powerSGD_iter=_POWERSGD_START
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return
    hooks = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
    try:
        ddp.register_comm_hook(group, hooks[kind])
    except TypeError as problem:  # DDP's own check of the hook
        raise TrialFailure(FailureKind.UNSUPPORTED, f"gradient_compression={kind}: {problem}") from problem
