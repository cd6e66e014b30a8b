"""The engine ``openvino``: OpenVINO on the CPU or an Intel GPU, quantised with NNCF."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino

from trials.inference.artifact import LOADERS, write_artifact
from trials.inference.engine import (
    Artifact,
    Batch,
    Description,
    EngineSettings,
    EngineStartError,
    ModelSource,
    Phase,
    Unsupported,
    axis_sizes,
)
from trials.inference.engines import first_line
from trials.inference.engines.openvino_layers import layers_of, products_of, quantisable

_HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}


@cache
def _core() -> openvino.Core:
    """The process's one Core, never unloaded.

    The CPU plugin replaces the thread's stack for signal handlers and puts the earlier one back when it is
    unloaded. Two plugins that are unloaded in another order than they were loaded leave the thread with a stack
    that is no longer mapped, and the next signal that has a handler ends the process with a segmentation fault.
    """
    return openvino.Core()


class OpenVinoEngine:
    """OpenVINO; with fixed shapes one compiled model for each size."""

    def load(self, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase) -> None:
        """Convert, quantise and compile."""
        self._source, self._settings = source, settings
        self._core, self._device = _core(), (settings.provider or "cpu").upper()
        _check_device(self._core, self._device)
        with phase("export_s"):
            self._model = _converted(source, folder)
        if settings.is_quantised:
            from trials.inference.engines.openvino_quantise import quantise

            self._model = quantise(self._model, source, settings, phase)
        with phase("compile_s"):
            self._compiled = [
                (sizes, self._core.compile_model(self._sized(sizes), self._device, self._options))
                for sizes in settings.fixed_sizes(source) or [{}]
            ]
        self._requests = [(sizes, compiled.create_infer_request()) for sizes, compiled in self._compiled]

    def run(self, batch: Batch) -> dict[str, np.ndarray]:
        """Outputs of one batch. Unsupported for a size that nothing was compiled for."""
        found = self._for(batch).infer(dict(batch), share_inputs=True, share_outputs=True)
        return {
            name: _as_float32(array)
            for name, array in zip(self._source.outputs, found.values(), strict=False)
        }

    def describe(self) -> Description:
        """Read from the model that the plugin made."""
        compiled = self._compiled[-1][1]
        layers = layers_of(self._model)
        products, quantised = products_of(compiled, layers)
        names = quantisable(layers, self._settings.precision)
        return Description(
            engine="openvino",
            version=openvino.__version__,
            provider=",".join(compiled.get_property("EXECUTION_DEVICES")),
            threads=int(compiled.get_property("INFERENCE_NUM_THREADS")) if self._device == "CPU" else 0,
            matmul_dtypes=products,
            quantised=tuple(name for name in names if name in quantised),
            kept=tuple(name for name in names if name not in quantised)
            if self._settings.is_quantised
            else (),
            details={"compiled_models": len(self._compiled)},
        )

    def artifact(self, folder: Path) -> Artifact:
        """OpenVINO's intermediate representation."""
        openvino.save_model(self._model, folder / "model.xml", compress_to_fp16=False)
        settings = {
            "device": self._device,
            "options": self._options,
            "sizes": [sizes for sizes, _ in self._compiled],
            "axes": {name: dict(axes) for name, axes in self._source.axes.items()},
            "outputs": self._source.outputs,
        }
        return write_artifact(
            folder, [folder / "model.xml", folder / "model.bin"], LOADERS / "openvino.py", settings
        )

    def close(self) -> None:
        """Drop the compiled models."""
        self._requests.clear()
        self._compiled.clear()

    @property
    def _options(self) -> dict[str, str]:
        """Of compiling: one batch at a time, on all threads that are given."""
        precision = self._settings.high_precision if self._settings.is_quantised else self._settings.precision
        options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": _HINTS[precision]}
        if self._device == "CPU":
            options["INFERENCE_NUM_THREADS"] = str(self._settings.threads or len(os.sched_getaffinity(0)))
            options["ENABLE_CPU_PINNING"] = "NO"  # the trial is pinned to its cores already
            options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = (
                "0"  # else weight-only would quantise activations too
            )
        return options

    def _sized(self, sizes: Mapping[str, int]) -> Any:
        """The model with each named axis fixed to its size, or free."""
        model = self._model.clone()
        shapes = {}
        for name, example in self._source.example.items():
            axes = self._source.axes.get(name, {})
            shapes[name] = openvino.PartialShape(
                [
                    sizes.get(axes[position], -1) if position in axes else size
                    for position, size in enumerate(example.shape)
                ]
            )
        try:
            model.reshape(shapes)
        except RuntimeError as error:
            traceback.print_exc()
            raise Unsupported(f"openvino refuses the shapes {shapes}: {first_line(error)}") from error
        return model

    def _for(self, batch: Batch) -> Any:
        if not self._settings.is_fixed:
            return self._requests[0][1]
        wanted = axis_sizes(self._source, batch)
        for sizes, request in self._requests:
            if sizes == wanted:
                return request
        raise Unsupported(
            f"shapes=fixed was built for {[sizes for sizes, _ in self._requests]}, not {wanted}"
        )


def _check_device(core: Any, device: str) -> None:
    there = core.get_available_devices()
    if not any(name.split(".")[0] == device for name in there):
        raise Unsupported(f"OpenVINO finds no device {device} (it has {', '.join(there)}); use provider=cpu")


def _converted(source: ModelSource, folder: Path) -> Any:
    """The model with its inputs in OpenVINO's form, named as in the source."""
    if source.onnx is not None:
        from trials.inference.engines.onnx_model import load_graph, save_graph

        path = folder / "named.onnx"
        save_graph(load_graph(source), path)
        model = openvino.convert_model(path)
    else:
        model = _from_module(source)
    if len(model.outputs) < len(source.outputs):
        raise EngineStartError(f"the model has {len(model.outputs)} outputs, named are {len(source.outputs)}")
    return model


def _from_module(source: ModelSource) -> Any:
    import torch

    example = {name: torch.from_numpy(array) for name, array in source.example.items()}
    try:
        return openvino.convert_model(source.module(), example_input=example)
    except Exception as error:
        traceback.print_exc()
        raise Unsupported(f"openvino cannot convert the model: {first_line(error)}") from error


def _as_float32(array: np.ndarray) -> np.ndarray:
    """A copy: the next call writes into the same memory."""
    return array.astype(np.float32 if np.issubdtype(array.dtype, np.floating) else array.dtype)
