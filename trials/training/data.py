"""The same samples in the same order for every trial: whatever the batch sizes, workers and precision are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, default_collate

from trials.training.batch_plan import BatchPlan, Part
from trials.training.task import Task, wrong_return


class TensorRows:
    """A dataset over tensors of equal length: a batch is one indexing operation, not one per sample."""

    def __init__(self, tensors: tuple[Tensor, ...], is_single: bool) -> None:
        self._tensors = tensors
        self._is_single = is_single

    def __len__(self) -> int:
        return len(self._tensors[0])

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])

    def __getitems__(self, indices: list[int]) -> Any:
        """The rows of a batch; PyTorch's loader calls this where a dataset has it."""
        wanted = torch.tensor(indices)
        rows = tuple(tensor[wanted] for tensor in self._tensors)
        return rows[0] if self._is_single else rows


def as_dataset(task: Task, method: str) -> Any:
    """The dataset that ``task.<method>()`` gives; tensors are wrapped, anything else must be map-style."""
    data = getattr(task, method)()
    tensors = (data,) if isinstance(data, Tensor) else data
    if (
        isinstance(tensors, tuple | list)
        and tensors
        and all(isinstance(tensor, Tensor) for tensor in tensors)
    ):
        if len({len(tensor) for tensor in tensors}) > 1:
            raise wrong_return(
                task, method, data, f"tensors of equal length, not {[len(t) for t in tensors]}"
            )
        data = TensorRows(tuple(tensors), isinstance(data, Tensor))
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise wrong_return(task, method, data, "tensors, or a dataset with __len__ and __getitem__")
    if len(data) == 0:
        raise wrong_return(task, method, data, "at least one sample")
    return data


def sample_order(length: int, total: int, seed: int) -> Iterator[int]:
    """``total`` sample numbers: one permutation per pass over the data, all drawn from ``seed``."""
    generator = torch.Generator().manual_seed(seed)
    given = 0
    while given < total:
        yield from torch.randperm(length, generator=generator)[: total - given].tolist()
        given += length


class BatchSampler(Sampler[list[int]]):
    """The order cut into steps, and of each step the micro-batches of one data-parallel rank; the last step may
    be short (``short`` says how it is cut).
    """

    def __init__(
        self, length: int, total: int, plan: BatchPlan, seed: int, rank: int, short: list[Part]
    ) -> None:
        self._order = (length, total, seed)
        self._step, self._parts, self._short = plan.global_batch_size, plan.parts(rank), short

    def __iter__(self) -> Iterator[list[int]]:
        order = sample_order(*self._order)
        while step := list(islice(order, self._step)):
            for part in self._parts if len(step) == self._step else self._short:
                yield step[part.begin : part.begin + part.size]

    def __len__(self) -> int:
        return self._order[1] // self._step * len(self._parts) + len(self._short)


def train_loader(
    task: Task, data: Any, sampler: BatchSampler, workers: int, prefetch_factor: int, pin_memory: bool
) -> DataLoader[Any]:
    """PyTorch's loader over the micro-batches of the whole training, in one pass (workers start once)."""
    return DataLoader(
        data,
        batch_sampler=sampler,
        num_workers=workers,
        prefetch_factor=prefetch_factor if workers else None,
        pin_memory=pin_memory,
        collate_fn=_collate(task, data),
    )


def batches_in_order(task: Task, data: Any, begins: Iterable[int], size: int, count: int) -> Iterator[Any]:
    """The batches that begin at ``begins``, of ``size`` samples each, from the first ``count`` of the data."""
    fetch, collate = getattr(data, "__getitems__", None), _collate(task, data)
    for begin in begins:
        indices = list(range(begin, min(begin + size, count)))
        yield collate(fetch(indices) if fetch else [data[index] for index in indices])


def to_device(batch: Any, device: str, floating: torch.dtype | None) -> Any:
    """The batch on the device; ``floating`` casts its floating-point tensors (None leaves them)."""
    if isinstance(batch, Tensor):
        dtype = floating if batch.is_floating_point() else None
        return batch.to(device, dtype or batch.dtype, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(item, device, floating) for key, item in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(item, device, floating) for item in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(item, device, floating) for item in batch)
    return batch


def _collate(task: Task, data: Any) -> Callable[[Any], Any]:
    if isinstance(data, TensorRows):
        return _as_it_is
    return getattr(task, "collate", None) or default_collate


def _as_it_is(batch: Any) -> Any:
    return batch
