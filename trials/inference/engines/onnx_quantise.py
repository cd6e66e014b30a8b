"""Quantisation of ONNX graphs with ONNX Runtime's own tools, by layer name."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from trials.inference.engine import EngineSettings, ModelSource, Phase, Unsupported
from trials.inference.engines.onnx_model import OnnxGraph, split_gemms
from trials.inference.outputs import calibration_batches

logging.getLogger().setLevel(logging.WARNING)  # the quantiser sets the root logger to print every node
BLOCK_SIZE = 32  # weights that share a scale, for weight-only precisions
_BITS = {"int8_weight_only": 8, "int4_weight_only": 4}
_METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}


def quantise(
    graph: OnnxGraph, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase
) -> tuple[OnnxGraph, tuple[str, ...]]:
    """The quantised graph, and the names of all layers that could have been."""
    with phase("quantize_s"):
        split_gemms(graph)
    types = ("MatMul", "Conv") if settings.precision == "int8_static" else ("MatMul",)
    layers = [name for name, node in graph.layers.items() if node.op_type in types]
    chosen = [name for name in layers if not settings.keeps(name)]
    if not chosen:
        raise Unsupported(
            f"precision={settings.precision} finds no layer to quantise: {len(layers)} layers, all of them kept in "
            "high precision"
        )
    if settings.precision in _BITS:
        with phase("quantize_s"):
            kept = [name for name in layers if name not in chosen]
            model = _weight_only(graph.model, _BITS[settings.precision], kept)
    elif settings.precision == "int8_dynamic":
        with phase("quantize_s"):
            model = _dynamic(graph.model, chosen, folder)
    else:
        with phase("calibration_s"):
            reader = _Reader(list(calibration_batches(source, settings.calibration_samples)))
            model = _static(graph.model, chosen, types, reader, settings, folder)
    return OnnxGraph(model, graph.dimensions), tuple(layers)


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # untyped
    """Hands out the calibration batches, all or a range of them."""

    def __init__(self, batches: list[dict[str, np.ndarray]]) -> None:
        self._batches = batches
        self._left: Iterator[dict[str, np.ndarray]] = iter(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def set_range(self, start_index: int, end_index: int) -> None:
        """Go on with these batches."""
        self._left = iter(self._batches[start_index:end_index])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next batch, None after the last."""
        return next(self._left, None)


def _dynamic(model: ModelProto, layers: list[str], folder: Path) -> ModelProto:
    path = folder / "quantised.onnx"
    quantize_dynamic(
        model,
        path,
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        reduce_range=_saturates(),
        weight_type=QuantType.QInt8,
        nodes_to_quantize=layers,
        extra_options={"MatMulConstBOnly": True},
    )
    return onnx.load(path)


def _static(
    model: ModelProto,
    layers: list[str],
    types: tuple[str, ...],
    reader: _Reader,
    settings: EngineSettings,
    folder: Path,
) -> ModelProto:
    """Activations are unsigned on a CPU, as its kernels want; on a GPU signed and symmetric."""
    path, is_cpu = folder / "quantised.onnx", settings.provider in (None, "cpu")
    quantize_static(
        model,
        path,
        reader,
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=list(types),
        per_channel=True,
        reduce_range=is_cpu and _saturates(),
        activation_type=QuantType.QUInt8 if is_cpu else QuantType.QInt8,
        weight_type=QuantType.QInt8,
        nodes_to_quantize=layers,
        calibrate_method=_METHODS[settings.calibration_method or "minmax"],
        extra_options={
            "MatMulConstBOnly": True,
            "ActivationSymmetric": not is_cpu,
            "CalibStridedMinMax": 1,  # batch by batch: they differ in length, and need not be held together
        },
    )
    return onnx.load(path)


def _weight_only(model: ModelProto, bits: int, kept: list[str]) -> ModelProto:
    quantiser: Any = MatMulNBitsQuantizer(
        model, bits=bits, block_size=BLOCK_SIZE, is_symmetric=True, nodes_to_exclude=kept
    )
    quantiser.process()
    quantised: ModelProto = quantiser.model.model
    return quantised


def _saturates() -> bool:
    """True on an x86 CPU without VNNI, whose 8-bit products overflow unless weights use 7 bits."""
    import platform

    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True
    return "vnni" not in flags
