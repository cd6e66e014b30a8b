"""The model of a trial, its data and its settings: what every replica builds for itself, in the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trials.contract import FailureKind, TrialFailure, TrialSpec
from trials.inference.engine import Batch, EngineSettings, ModelSource, Unsupported
from trials.inference.samples import Padding, PlannedBatch, Samples, plan_pass
from trials.inference.task import InferenceTask, load_task
from trials.user_code import named
from trials.workloads.inference import ONNX

_CALIBRATION_BATCH = 32
_LEAST_SAMPLES = 2


@dataclass(frozen=True)
class Served:
    """A task made ready to be served under some settings.

    ``evaluation`` are the samples that are timed and judged; ``examples`` counts what the task judges by.
    """

    task: InferenceTask
    source: ModelSource
    settings: EngineSettings
    evaluation: Samples
    padding: Padding
    examples: int

    def pass_over(self, instance: int, instances: int) -> list[PlannedBatch]:
        """The batches of one pass that this replica serves: every ``instances``-th."""
        settings = self.settings
        planned = plan_pass(self.evaluation, self.padding, settings.batch_size, is_fixed=settings.is_fixed)
        return planned[instance::instances]


def prepare(spec: TrialSpec, threads: int) -> Served:
    """Load the task, read its data, and say how its model is to be built; TrialFailure where something is wrong."""
    section, config = spec.workload, {k: v for k, v in spec.config.items() if v is not None}
    task = load_task(str(section["task"]), config, spec.cache_dir)
    evaluation, examples = _evaluation(task, section.get("evaluate_on"))
    calibration = _calibration(task)
    if calibration is not None:
        _refuse_overlap(task, evaluation, calibration)
    longest = max(
        int(s.lengths.max(initial=0)) for s in (evaluation, *([calibration] if calibration else []))
    )
    settings = EngineSettings.of({**config, "threads": threads})
    padding = Padding(longest, settings.sequence_buckets)
    if evaluation.is_ragged and settings.sequence_buckets:
        settings = replace(settings, sequence_buckets=padding.lengths)
    source = _source(task, section.get("model"), evaluation, calibration, padding)
    return Served(task, source, settings, evaluation, padding, examples)


def content_key(source: ModelSource) -> str:
    """A hash of the model: its parameters and buffers, or its file."""
    found = hashlib.sha256()
    if source.onnx is not None:
        found.update(source.onnx.read_bytes())
        return found.hexdigest()
    import torch

    module = source.module()
    found.update(repr(module).encode())
    for name, tensor in module.state_dict().items():
        if isinstance(tensor, torch.Tensor):
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            array = tensor.detach().contiguous().cpu().flatten().view(torch.uint8).numpy()
            found.update(array.data)
    return found.hexdigest()


def _evaluation(task: Any, at_most: int | None) -> tuple[Samples, int]:
    where = f"{type(task).__name__}.evaluation_data"
    samples = Samples.of(task.evaluation_data(), getattr(task, "padding", {}), where)
    each = int(getattr(task, "samples_per_example", 1))
    examples = len(samples) // each
    if len(samples) % each:
        said = f"gives {len(samples)} samples, which is no multiple of samples_per_example={each}"
        raise TrialFailure(FailureKind.CRASH, f"{where} {said}")
    examples = min(examples, at_most or examples)
    if examples * each < _LEAST_SAMPLES:
        raise TrialFailure(FailureKind.CRASH, f"{where} gives {len(samples)} samples; evaluate on more")
    return samples.first(examples * each), examples


def _calibration(task: Any) -> Samples | None:
    if not hasattr(task, "calibration_data"):
        return None
    where = f"{type(task).__name__}.calibration_data"
    return Samples.of(task.calibration_data(), getattr(task, "padding", {}), where)


def _refuse_overlap(task: Any, evaluation: Samples, calibration: Samples) -> None:
    """A model that was calibrated on what it is judged by looks better than it is."""
    both = set(evaluation.row_hashes()) & set(calibration.row_hashes())
    if both:
        raise Unsupported(
            f"{type(task).__name__}.calibration_data holds {len(both)} samples that are evaluated too; "
            "calibrate on others"
        )


def _source(
    task: Any, model: str | None, evaluation: Samples, calibration: Samples | None, padding: Padding
) -> ModelSource:
    shown = calibration if calibration is not None and len(calibration) >= _LEAST_SAMPLES else evaluation
    onnx = _onnx(task, model)
    return ModelSource(
        example=shown.batch(range(_LEAST_SAMPLES), padding.longest),
        outputs=tuple(getattr(task, "outputs", ("output",))),
        axes=evaluation.axes,
        factory=None if onnx else _factory(task, model),
        onnx=onnx,
        calibration=() if calibration is None else _Calibration(calibration, padding),
    )


def _onnx(task: Any, model: str | None) -> Path | None:
    path = model if model is not None and model.endswith(ONNX) else None
    if model is None and hasattr(task, "onnx_file"):
        path = task.onnx_file()
    if path is not None and not Path(path).is_file():
        raise TrialFailure(FailureKind.CRASH, f"there is no ONNX file {path}")
    return None if path is None else Path(path)


def _factory(task: Any, model: str | None) -> Callable[[], Any]:
    return partial(
        _module, task.model if model is None else named(model), model or f"{type(task).__name__}.model"
    )


def _module(make: Callable[[], Any], where: str) -> Any:
    from torch import nn

    module = make()
    if not isinstance(module, nn.Module):
        raise TrialFailure(
            FailureKind.CRASH, f"{where} returned {type(module).__name__}; it must return a torch.nn.Module"
        )
    return module


class _Calibration:
    """Batches of the calibration set, as often as they are iterated."""

    def __init__(self, samples: Samples, padding: Padding) -> None:
        self._samples, self._padding = samples, padding

    def __iter__(self) -> Iterator[Batch]:
        for begin in range(0, len(self._samples), _CALIBRATION_BATCH):
            indices = range(begin, min(begin + _CALIBRATION_BATCH, len(self._samples)))
            yield self._samples.batch(indices, self._padding.longest)


def joined(parts: Mapping[int, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Outputs by sample number as arrays in the order of the samples."""
    order = sorted(parts)
    names = parts[order[0]].keys()
    return {name: np.stack([parts[index][name] for index in order]) for name in names}
