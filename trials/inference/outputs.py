"""Batches and outputs as arrays: batches of a given size, calibration batches, outputs that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from trials.inference.engine import BATCH, BadOutput, Batch, ModelSource, Unsupported


def sized(source: ModelSource, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The example, cropped or repeated along its named axes to these sizes."""
    batch = dict(source.example)
    for name, axes in source.axes.items():
        for position, axis in axes.items():
            if axis in sizes:
                index = np.arange(sizes[axis]) % batch[name].shape[position]
                batch[name] = np.ascontiguousarray(np.take(batch[name], index, axis=position))
    return batch


def calibration_batches(source: ModelSource, samples: int) -> Iterator[dict[str, np.ndarray]]:
    """Batches with ``samples`` rows in all. Unsupported where the calibration set has fewer."""
    left = samples
    for batch in source.calibration:
        rows = min(left, rows_of(source, batch))
        yield {name: array[:rows] if _varies(source, name) else array for name, array in batch.items()}
        left -= rows
        if not left:
            return
    have = samples - left
    raise Unsupported(
        f"calibration_samples={samples}, but the calibration set has {have}; "
        + ("use fewer" if have else "give the task calibration data, or use a precision that needs none")
    )


def rows_of(source: ModelSource, batch: Batch) -> int:
    """Samples in a batch."""
    for name, axes in source.axes.items():
        if axes.get(0) == BATCH:
            return int(batch[name].shape[0])
    raise Unsupported(
        "no input of the model has the axis 'batch' first; name it in the axes of the model source"
    )


def check_outputs(outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
    """BadOutput where an output is not finite, or every output is the same for inputs that differ."""
    for name, array in outputs.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            share = 1 - np.isfinite(array).mean()
            raise BadOutput(f"output {name} is not finite in {share:.1%} of its elements")
    if outputs and _rows_differ(batch) and not _rows_differ(outputs):
        raise BadOutput("every output is the same for all samples, though the samples differ")


def _rows_differ(arrays: Mapping[str, np.ndarray]) -> bool:
    return any(len(array) > 1 and (array != array[:1]).any() for array in arrays.values() if array.ndim)


def _varies(source: ModelSource, name: str) -> bool:
    return source.axes.get(name, {}).get(0) == BATCH
