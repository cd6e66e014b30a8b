"""The engine ``onnxruntime``: on the CPU, on a GPU by CUDA, or by TensorRT."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from trials.inference.artifact import LOADERS, write_artifact
from trials.inference.engine import (
    Artifact,
    Batch,
    Description,
    EngineSettings,
    ModelSource,
    Phase,
    Unsupported,
    axis_sizes,
)
from trials.inference.engines import first_line
from trials.inference.engines.onnx_graph_proof import GraphProof, read_proof
from trials.inference.engines.onnx_model import OnnxGraph, load_graph, save_graph

_PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("CPUExecutionProvider",),
    "cuda": ("CUDAExecutionProvider", "CPUExecutionProvider"),
    "tensorrt": ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"),
}
_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


@dataclass(frozen=True)
class _Session:
    """A session and the graph that it really runs; ``sizes`` are empty where it takes any."""

    session: Any
    sizes: dict[str, int]
    optimised: Path | None


class OnnxRuntimeEngine:
    """ONNX Runtime; with fixed shapes one session for each size."""

    def load(self, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase) -> None:
        """Export, quantise, and make the sessions."""
        self._source, self._settings = source, settings
        self._provider = settings.provider or "cpu"
        _check_provider(self._provider)
        with phase("export_s"):
            graph = load_graph(source)
        self._layers: tuple[str, ...] = ()
        if settings.is_quantised:
            from trials.inference.engines.onnx_quantise import quantise

            graph, self._layers = quantise(graph, source, settings, folder, phase)
        elif settings.precision == "fp16" and self._provider == "cuda":
            with phase("quantize_s"):
                graph = _halved(graph)
        self._model = folder / "model.onnx"
        save_graph(graph, self._model)
        with phase("load_s"):
            self._sessions = [
                self._session(graph, sizes, folder / f"optimised{number}.onnx")
                for number, sizes in enumerate(settings.fixed_sizes(source) or [{}])
            ]
        self._dimensions = graph.dimensions

    def run(self, batch: Batch) -> dict[str, np.ndarray]:
        """Outputs of one batch. Unsupported for a size that no session was made for."""
        session = self._for(batch).session
        return dict(zip(self._source.outputs, session.run(self._source.outputs, dict(batch)), strict=True))

    def describe(self) -> Description:
        """Read from the graphs as ONNX Runtime optimised them."""
        proof = self._proof()
        session = self._sessions[0].session
        return Description(
            engine="onnxruntime",
            version=onnxruntime.__version__,
            provider=session.get_providers()[0],
            threads=session.get_session_options().intra_op_num_threads,
            matmul_dtypes=proof.products,
            quantised=tuple(name for name in self._layers if name in proof.quantised),
            kept=tuple(name for name in self._layers if name not in proof.quantised),
            details={"providers": session.get_providers(), "operations": proof.operations},
        )

    def artifact(self, folder: Path) -> Artifact:
        """The graph before ONNX Runtime's own optimisation, which depends on the machine."""
        model = folder / "model.onnx"
        onnx.save(onnx.load(self._model), model)
        settings = {
            "providers": _provider_list(self._settings),
            "threads": self._threads,
            "graph_optimization": _LEVELS[self._settings.graph_optimization or "all"],
            "sessions": [
                {dimension: entry.sizes[axis] for dimension, axis in self._dimensions.items()}
                if entry.sizes
                else {}
                for entry in self._sessions
            ],
            "dimensions": [
                [name, position, dimension]
                for name, position, dimension in _positions(onnx.load(self._model), self._dimensions)
            ],
            "outputs": self._source.outputs,
        }
        return write_artifact(folder, [model], LOADERS / "onnxruntime.py", settings)

    def close(self) -> None:
        """Drop the sessions."""
        self._sessions.clear()

    @property
    def _threads(self) -> int:
        return self._settings.threads or len(os.sched_getaffinity(0))

    def _for(self, batch: Batch) -> _Session:
        if not self._settings.is_fixed:
            return self._sessions[0]
        sizes = axis_sizes(self._source, batch)
        for entry in self._sessions:
            if entry.sizes == sizes:
                return entry
        raise Unsupported(
            f"shapes=fixed was built for {[entry.sizes for entry in self._sessions]}, not {sizes}"
        )

    def _session(self, graph: OnnxGraph, sizes: dict[str, int], optimised: Path) -> _Session:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        level = _LEVELS[self._settings.graph_optimization or "all"]
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.log_severity_level = 3
        if self._provider != "tensorrt":  # its compiled parts cannot be written into a graph
            options.optimized_model_filepath = str(optimised)
        for dimension, axis in graph.dimensions.items():
            if sizes:
                options.add_free_dimension_override_by_name(dimension, sizes[axis])
        try:
            session = onnxruntime.InferenceSession(
                self._model, options, providers=_provider_list(self._settings)
            )
        except Exception as error:
            if type(error).__name__ in ("NotImplemented", "InvalidGraph"):
                traceback.print_exc()
                raise Unsupported(f"onnxruntime refuses the model: {first_line(error)}") from error
            raise
        check_no_fallback(session, self._provider)
        return _Session(session, sizes, optimised if optimised.exists() else None)

    def _proof(self) -> GraphProof:
        graphs = [entry.optimised for entry in self._sessions if entry.optimised]
        return read_proof(graphs[-1] if graphs else self._model)


def _check_provider(provider: str) -> None:
    wanted, there = _PROVIDERS[provider][0], onnxruntime.get_available_providers()
    if wanted not in there:
        raise Unsupported(
            f"provider={provider} needs {wanted}, which this ONNX Runtime does not have (it has "
            f"{', '.join(there)}); install onnxruntime-gpu, or use provider=cpu"
        )


def check_no_fallback(session: Any, provider: str) -> None:
    """Unsupported where the session runs elsewhere than asked: ONNX Runtime only logs that a library is missing."""
    first = session.get_providers()[0]
    if first != _PROVIDERS[provider][0]:
        raise Unsupported(
            f"ONNX Runtime fell back to {first}, provider={provider} was asked for; its reason is in the log"
        )


def _provider_list(settings: EngineSettings) -> list[Any]:
    providers: list[Any] = list(_PROVIDERS[settings.provider or "cpu"])
    if settings.provider == "tensorrt":
        providers[0] = (
            providers[0],
            {
                "trt_fp16_enable": settings.precision == "fp16",
                "trt_int8_enable": settings.precision == "int8_static",
            },
        )
    return providers


def _halved(graph: OnnxGraph) -> OnnxGraph:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return OnnxGraph(convert_float_to_float16(graph.model, keep_io_types=True), graph.dimensions)


def _positions(model: Any, dimensions: Mapping[str, str]) -> list[tuple[str, int, str]]:
    return [
        (value.name, position, dimension.dim_param)
        for value in model.graph.input
        for position, dimension in enumerate(value.type.tensor_type.shape.dim)
        if dimension.dim_param in dimensions
    ]
