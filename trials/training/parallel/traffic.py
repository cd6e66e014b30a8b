"""Bytes that a rank sends to the others, counted from its collectives.

A collective's volume is what the bandwidth-optimal algorithm sends per rank (Thakur et al. 2005): an
all-reduce over n ranks of S bytes 2 (n-1)/n S, a gather or scatter (n-1)/n S of the whole, a message S.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_SHARES = {
    "allreduce_": 2.0,
    "allreduce_coalesced_": 2.0,
    "all_reduce": 2.0,
    "all_reduce_": 2.0,
    "_allgather_base_": 1.0,
    "allgather_": 1.0,
    "allgather_into_tensor_coalesced_": 1.0,
    "all_gather_into_tensor": 1.0,
    "all_gather_into_tensor_out": 1.0,
    "_reduce_scatter_base_": 1.0,
    "reduce_scatter_": 1.0,
    "reduce_scatter_tensor_coalesced_": 1.0,
    "reduce_scatter_tensor": 1.0,
    "alltoall_base_": 1.0,
    "alltoall_": 1.0,
    "all_to_all_single": 1.0,
    "broadcast_": 1.0,
}
_NAMESPACES = ("c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd")


def sent_bytes(function: Any, arguments: Any) -> float:
    """Bytes that this rank sends in one dispatched operation; 0 where it is no communication."""
    packet = getattr(function, "_overloadpacket", None)
    namespace, _, name = str(packet).partition(".")
    if namespace not in _NAMESPACES:
        return 0.0
    if name == "send":
        return float(_bytes(arguments))
    share = _SHARES.get(name)
    if share is None:
        return 0.0
    ranks = _group_size(arguments)
    return share * (ranks - 1) / ranks * _largest(arguments)


def _group_size(arguments: Any) -> int:
    """Ranks of the operation's group: its first object (a reduction comes later), or known by its name."""
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _resolve_process_group  # type: ignore[attr-defined]  # its only home

    for argument in arguments:
        if isinstance(argument, torch.ScriptObject):
            return int(dist.ProcessGroup.unbox(argument).size())
    names = [argument for argument in arguments if isinstance(argument, str)]
    return int(_resolve_process_group(names[-1]).size())  # type: ignore[arg-type]  # a name is one


def _largest(arguments: Any) -> int:
    """The whole that is reduced, gathered or scattered: the largest of an operation's tensors."""
    return max((_bytes(argument) for argument in arguments), default=0)


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 0
