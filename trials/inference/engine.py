"""What serves a model: the model handed over, the settings, the protocol of an engine, what it proves.

Imports nothing heavy. The engines there are, and which settings each takes: ``trials.inference.engines``.

An engine takes batches as NumPy arrays by input name and gives arrays by output name; floating-point outputs are
always float32, so that engines and precisions can be compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from trials.contract import FailureKind, TrialFailure

if TYPE_CHECKING:
    import numpy as np
    import torch

Batch: TypeAlias = "Mapping[str, np.ndarray]"
"""Arrays by input (or output) name."""

BATCH, SEQUENCE = "batch", "sequence"
"""Names of the dynamic axes."""

FULL_PRECISIONS = ("fp32", "bf16", "bf16_params", "fp16")
QUANTISED_PRECISIONS = ("int8_dynamic", "int8_weight_only", "int8_static", "int4_weight_only", "fp8")
PRECISIONS = (*FULL_PRECISIONS, *QUANTISED_PRECISIONS)

Phase = Callable[[str], AbstractContextManager[None]]
"""``TrialContext.phase``: ``with phase("compile_s"): ...``. Engines use export_s, calibration_s, quantize_s,
compile_s and load_s."""


class Unsupported(TrialFailure):
    """This engine cannot serve this model with these settings: operator, precision, provider, shape."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureKind.UNSUPPORTED, message)


class EngineStartError(TrialFailure):
    """The engine failed while building or loading the model; its own words are in the trial's log."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureKind.ENGINE_START, message)


class BadOutput(TrialFailure):
    """What the engine computes cannot be right: not finite, or the same for every input."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureKind.NON_FINITE, message)


@dataclass(frozen=True)
class ModelSource:
    """A trained model, and what an engine must know to build it.

    Exactly one of ``factory`` (makes the ``nn.Module``, float32; it is put into eval mode) and ``onnx`` is given.
    ``example`` is one batch; its names are the parameters of ``forward`` (passed by keyword), or the inputs of the
    ONNX file; every named axis is at least 2 long, since an exporter takes a 1 for a constant. ``axes`` names the
    axes that vary, by input: ``{"input_ids": {0: "batch", 1: "sequence"}}``; axis 0 of every output is the batch.
    ``outputs`` names what ``forward`` returns, in its order. ``calibration`` gives batches from data that no
    evaluation uses, as often as it is iterated; each is of any size.
    """

    example: Batch
    outputs: tuple[str, ...]
    axes: Mapping[str, Mapping[int, str]]
    factory: Callable[[], torch.nn.Module] | None = None
    onnx: Path | None = None
    calibration: Iterable[Batch] = ()

    def __post_init__(self) -> None:
        if (self.factory is None) == (self.onnx is None):
            raise ValueError("a model source is a factory of a module or an ONNX file, and not both")
        short = [axis for axis, size in axis_sizes(self, self.example).items() if size < 2]
        if short:
            raise ValueError(f"the example is less than 2 long in {', '.join(short)}")

    @property
    def form(self) -> str:
        """``module`` or ``onnx``: what an engine's entry lists under ``takes``."""
        return "module" if self.onnx is None else "onnx"

    def module(self) -> torch.nn.Module:
        """A new copy of the module, in eval mode, without gradients. Unsupported for an ONNX file."""
        if self.factory is None:
            raise Unsupported(f"{self.onnx} has no PyTorch source; use engine=onnxruntime or openvino")
        return self.factory().eval().requires_grad_(False)


@dataclass(frozen=True)
class EngineSettings:
    """How the model is to be served; a field's name is that of the knob. None is the engine's own default.

    ``threads`` are those of one operation. ``shapes=fixed`` builds for exact shapes: batches of ``batch_size`` and
    of 1, at each length of ``sequence_buckets`` (without buckets: the length of the example). A layer whose module
    name matches one of the patterns of ``keep_high_precision``, or lies inside one that does, is not quantised; under
    a quantised precision it, and all else that is not, is in the format ``high_precision``.
    """

    engine: str = "torch"
    precision: str = "fp32"
    provider: str | None = None
    threads: int | None = None
    graph_optimization: str | None = None
    shapes: str = "dynamic"
    batch_size: int = 1
    sequence_buckets: tuple[int, ...] = ()
    keep_high_precision: tuple[str, ...] = ()
    high_precision: str = "fp32"
    calibration_samples: int = 128
    calibration_method: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> EngineSettings:
        """From a configuration; names that are no field here (``instances``, ``task.*``) are passed over."""
        known = {name: config[name] for name in cls.__dataclass_fields__ if config.get(name) is not None}
        if "sequence_buckets" in known:
            known["sequence_buckets"] = tuple(sorted(set(_several(known["sequence_buckets"]))))
        if "keep_high_precision" in known:
            known["keep_high_precision"] = tuple(_several(known["keep_high_precision"]))
        return cls(**known)

    @property
    def is_quantised(self) -> bool:
        """True where weights are stored in fewer bits than a floating-point format of the model."""
        return self.precision in QUANTISED_PRECISIONS

    @property
    def is_fixed(self) -> bool:
        """True where the engine is built for exact shapes."""
        return self.shapes == "fixed"

    def fixed_sizes(self, source: ModelSource) -> list[dict[str, int]]:
        """The sizes by axis name that a fixed engine is built for, the largest last; empty where dynamic."""
        if not self.is_fixed:
            return []
        example = axis_sizes(source, source.example)
        by_axis = {axis: (size,) for axis, size in example.items()}
        if BATCH in by_axis:
            by_axis[BATCH] = tuple(sorted({1, self.batch_size}))  # type: ignore[assignment]
        if SEQUENCE in by_axis and self.sequence_buckets:
            by_axis[SEQUENCE] = self.sequence_buckets  # type: ignore[assignment]
        return [dict(zip(by_axis, sizes, strict=True)) for sizes in itertools.product(*by_axis.values())]

    def keeps(self, layer: str) -> bool:
        """True where the layer (its module name, or a node's name in an ONNX file) stays in high precision."""
        parts = layer.split(".")
        inside = [".".join(parts[: end + 1]) for end in range(len(parts))]
        return any(fnmatchcase(name, pattern) for pattern in self.keep_high_precision for name in inside)


def axis_sizes(source: ModelSource, batch: Batch) -> dict[str, int]:
    """The size of every named axis in a batch: ``{"batch": 32, "sequence": 128}``."""
    return {
        axis: int(batch[name].shape[position])
        for name, axes in source.axes.items()
        for position, axis in axes.items()
    }


@dataclass(frozen=True)
class Description:
    """What really runs, read from the built engine and never from the settings.

    ``matmul_dtypes`` counts the matrix products and convolutions by the number format that they compute in
    (``{"int8": 36, "float32": 2}``); ``quantised`` and ``kept`` name the layers whose weights are in fewer bits,
    and those that could have been and are not.
    """

    engine: str
    version: str
    provider: str
    threads: int
    matmul_dtypes: Mapping[str, int]
    quantised: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    """The built model as files that run without ``tuner``: ``python loader.py inputs.npz outputs.npz``.

    ``files`` are relative to ``folder``, ``loader.py`` and its ``settings.json`` included; ``model_bytes`` is the
    size of the model's files alone.
    """

    folder: Path
    files: tuple[Path, ...]
    model_bytes: int


_COMPUTES_IN = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "bf16_params": "bfloat16",
    "fp16": "float16",
    "int8_dynamic": "int8",
    "int8_static": "int8",
    "fp8": "float8_e4m3fn",
}
"""The format of the matrix products; weight-only precisions compute in any float format."""


def check_description(description: Description, settings: EngineSettings) -> None:
    """A silent fall-back is a failure: the layers must be quantised, and products in the format asked for."""
    asked = f"precision={settings.precision}"
    ran = ", ".join(f"{count} in {name}" for name, count in description.matmul_dtypes.items()) or "none"
    if settings.is_quantised and not description.quantised:
        kept = f", {len(description.kept)} kept in high precision" if description.kept else ""
        raise Unsupported(
            f"{asked}: {description.engine} quantised no layer{kept} (matrix products: {ran}); "
            "choose another precision, or fewer patterns in keep_high_precision"
        )
    wanted = _COMPUTES_IN.get(settings.precision)
    share = description.matmul_dtypes.get(wanted, 0) if wanted else 0
    total = sum(description.matmul_dtypes.values())
    enough = share > 0 if settings.is_quantised else 2 * share >= total
    if wanted and total and not enough:
        raise Unsupported(f"{asked} means matrix products in {wanted}, but {description.engine} ran {ran}")


class Engine(Protocol):
    """One way to serve a model. A new engine is one class in one file, and one entry in the registry."""

    def load(self, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase) -> None:
        """Build and load the model, ready to run; ``folder`` is for files, times go to ``phase``.

        Raises Unsupported where the engine lacks something, and never falls back to something else in silence.
        """
        ...

    def run(self, batch: Batch) -> dict[str, np.ndarray]:
        """Outputs of one batch, on the host and complete: a clock may be read right after."""
        ...

    def describe(self) -> Description:
        """What really runs; called after at least one batch has run."""
        ...

    def artifact(self, folder: Path) -> Artifact:
        """Write the built model and its loader into the (empty) folder."""
        ...

    def close(self) -> None:
        """Free the model's memory; the engine is not used any more."""
        ...


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
