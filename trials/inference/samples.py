"""Samples as a task gives them, and the batches that are made of them: padded, by length, in a fixed order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trials.contract import FailureKind, TrialFailure
from trials.inference.engine import BATCH, SEQUENCE, Batch

_ORDER_SEED = 0
"""Batches of different lengths are mixed, in the same order in every trial."""


@dataclass(frozen=True)
class Samples:
    """Inputs by name. ``padding`` names those whose samples differ in length, with the value that fills them up."""

    inputs: Mapping[str, Any]
    padding: Mapping[str, Any]

    @classmethod
    def of(cls, inputs: Any, padding: Mapping[str, Any], where: str) -> Samples:
        """Checked samples; TrialFailure naming the method ``where`` they come from."""
        if not isinstance(inputs, Mapping) or not inputs:
            raise _wrong(where, f"returned {type(inputs).__name__}; it must return input name -> array")
        ragged = {name for name, rows in inputs.items() if _is_ragged(rows)}
        if ragged != set(padding):
            said = f"has rows of different lengths in {_names(ragged)}, padding names {_names(padding)}"
            raise _wrong(where, f"{said}; give each such input, and no other, a value in padding")
        made = {
            str(name): [np.asarray(row) for row in rows] if name in ragged else np.ascontiguousarray(rows)
            for name, rows in inputs.items()
        }
        if len({len(rows) for rows in made.values()}) != 1:
            lengths = ", ".join(f"{name}: {len(rows)}" for name, rows in made.items())
            raise _wrong(where, f"gives inputs of different numbers of samples ({lengths})")
        return cls(made, dict(padding))

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    @property
    def is_ragged(self) -> bool:
        """True where samples differ in length (text)."""
        return bool(self.padding)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The length of each sample; 0 where all are alike."""
        if not self.padding:
            return np.zeros(len(self), dtype=np.int64)
        return np.array([len(row) for row in self.inputs[next(iter(self.padding))]], dtype=np.int64)

    @property
    def axes(self) -> dict[str, dict[int, str]]:
        """The named axes of every input."""
        return {name: {0: BATCH, 1: SEQUENCE} if name in self.padding else {0: BATCH} for name in self.inputs}

    def first(self, count: int) -> Samples:
        """The first so many."""
        return Samples({name: rows[:count] for name, rows in self.inputs.items()}, self.padding)

    def batch(self, indices: Sequence[int] | np.ndarray, length: int) -> Batch:
        """These samples, padded to ``length`` where they differ in length."""
        return {
            name: _padded([rows[i] for i in indices], length, self.padding[name])
            if name in self.padding
            else rows[np.asarray(indices)]
            for name, rows in self.inputs.items()
        }

    def fingerprint(self) -> str:
        """A hash of every sample, in order."""
        return hashlib.sha256(b"".join(self.row_hashes())).hexdigest()

    def row_hashes(self) -> list[bytes]:
        """A hash of each sample."""
        return [
            hashlib.sha256(
                b"".join(
                    name.encode() + np.ascontiguousarray(self.inputs[name][i]).tobytes()
                    for name in sorted(self.inputs)
                )
            ).digest()
            for i in range(len(self))
        ]


@dataclass(frozen=True)
class PlannedBatch:
    """Which samples one call serves: ``rows`` at ``length``, of which the first ``len(indices)`` are real."""

    indices: tuple[int, ...]
    rows: int
    length: int

    @property
    def shape(self) -> tuple[int, int]:
        """What decides how long it takes: rows and length."""
        return self.rows, self.length

    def arrays(self, samples: Samples) -> Batch:
        """The batch itself; rows that only fill it up repeat its last sample."""
        fill = (self.indices[-1],) * (self.rows - len(self.indices))
        return samples.batch((*self.indices, *fill), self.length)


@dataclass(frozen=True)
class Padding:
    """To which lengths samples are padded: the ``buckets``, ascending; longer ones to the ``longest`` of all."""

    longest: int
    buckets: tuple[int, ...] = ()

    @property
    def lengths(self) -> tuple[int, ...]:
        """Every length that occurs."""
        return (*(bucket for bucket in self.buckets if bucket < self.longest), self.longest)

    def of(self, length: int) -> int:
        """The length that a sample of this length is padded to."""
        return next(bucket for bucket in self.lengths if length <= bucket)


def plan_pass(
    samples: Samples, padding: Padding, batch_size: int, *, is_fixed: bool = False
) -> list[PlannedBatch]:
    """Batches that serve every sample once: each of one padded length, mixed in an order that never changes.

    The last batch of a length may be short; an engine built for exact shapes gets it filled up.
    """
    groups: dict[int, list[int]] = {}
    for index, length in enumerate(samples.lengths.tolist()):
        groups.setdefault(padding.of(length), []).append(index)
    planned = [
        PlannedBatch(
            part := tuple(indices[begin : begin + batch_size]),
            batch_size if is_fixed and len(part) > 1 else len(part),
            length,
        )
        for length, indices in sorted(groups.items())
        for begin in range(0, len(indices), batch_size)
    ]
    order = np.random.default_rng(_ORDER_SEED).permutation(len(planned))
    return [planned[position] for position in order]


def padding_waste(samples: Samples, planned: Sequence[PlannedBatch]) -> float:
    """Share (0-1) of the sequence positions of a pass that hold padding."""
    computed = sum(batch.rows * batch.length for batch in planned)
    return 1 - int(samples.lengths.sum()) / computed if computed else 0.0


def single_requests(samples: Samples, padding: Padding) -> Iterator[Batch]:
    """Every sample by itself, in an order that never changes, over and over."""
    order = np.random.default_rng(_ORDER_SEED).permutation(len(samples))
    while True:
        for index in order.tolist():
            yield samples.batch([index], padding.of(int(samples.lengths[index])))


def _is_ragged(rows: Any) -> bool:
    return isinstance(rows, list | tuple) and bool(rows) and np.ndim(rows[0]) == 1


def _padded(rows: Sequence[np.ndarray], length: int, value: Any) -> np.ndarray:
    filled = np.full((len(rows), length), value, dtype=rows[0].dtype)
    for position, row in enumerate(rows):
        filled[position, : len(row)] = row
    return filled


def _names(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _wrong(where: str, what: str) -> TrialFailure:
    return TrialFailure(FailureKind.CRASH, f"{where} {what}")
