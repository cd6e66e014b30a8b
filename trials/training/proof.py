"""What really ran: the dtype of the matrix products, counted in FLOPs during one step outside the timed
window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from trials.contract import FailureKind, TrialFailure
from trials.training.parallel.traffic import sent_bytes
from trials.training.precision import Precision

MIN_SHARE = 0.5


class MatmulWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Counts matrix products, convolutions and attention, and their FLOPs, by the dtype of their first input; and
    the bytes sent to the other ranks.

    ``forward_flops`` is what had been counted when ``end_of_forward`` was called first: one micro-batch,
    without any recomputation.
    """

    def __init__(self, ranks: int = 1) -> None:  # of the whole trial
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._ranks = ranks
        self.sent_bytes = 0.0
        self.flops: Counter[str] = Counter()
        self.products: Counter[str] = Counter()
        self.forward_flops: int | None = None

    def end_of_forward(self) -> None:
        """The first forward pass ended here."""
        if self.forward_flops is None:
            self.forward_flops = sum(self.flops.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and count it where it is one of those."""
        result = func(*args, **(kwargs or {}))
        if self._ranks > 1:
            self.sent_bytes += sent_bytes(func, args)
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.products[_first_dtype(args)] += 1
            self.flops[_first_dtype(args)] += count(*args, **(kwargs or {}), out_val=result)
        return result

    def shares(self) -> dict[str, float]:
        """Share of the FLOPs by dtype name."""
        total = sum(self.flops.values()) or 1
        return {name: round(count / total, 4) for name, count in self.flops.most_common()}


def check_precision(precision: Precision, shares: Mapping[str, float]) -> None:
    """A silent fall-back is a failure: at least half of the work must have run in the dtype asked for."""
    wanted = dtype_name(precision.matmul)
    if shares and shares.get(wanted, 0.0) < MIN_SHARE:
        ran = ", ".join(f"{share:.0%} in {name}" for name, share in shares.items())
        raise TrialFailure(
            FailureKind.UNSUPPORTED,
            f"precision={precision.name} means matrix products in {wanted}, but they ran {ran}; "
            "look for casts or a disabled autocast in the task",
        )


def dtype_name(dtype: torch.dtype) -> str:
    """``bfloat16`` for ``torch.bfloat16``."""
    return str(dtype).removeprefix("torch.")


def _first_dtype(args: Any) -> str:
    return next((dtype_name(argument.dtype) for argument in args if isinstance(argument, Tensor)), "none")
