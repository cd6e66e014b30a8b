"""The engines that start in seconds, through the contract suite; every precision of each: tests/long/engines.py."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import pytest

from tests.contracts.engine_suite import EngineSuite
from tests.contracts.served_model import (
    AXES,
    LINEAR_LAYERS,
    Calibration,
    batch,
    encoder_source,
    reference,
    relative_error,
)
from trials.inference.engine import EngineSettings, ModelSource
from trials.inference.engines import start_engine
from trials.inference.engines.onnx_model import load_graph, save_graph


class TestTorch(EngineSuite):
    engine = "torch"
    tolerances: ClassVar = {
        "fp32": 1e-5,
        "bf16": 0.02,
        "bf16_params": 0.02,
        "fp16": 0.005,
        "int8_weight_only": 0.02,
        "int8_static": 0.06,
        "int4_weight_only": 0.15,
        "int8_dynamic": 0.03,
    }


@pytest.fixture(autouse=True, scope="module")
def _exported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The encoder as PyTorch exports it, once for all tests."""
    FromOnnxFile.file = tmp_path_factory.mktemp("onnx") / "encoder.onnx"
    save_graph(load_graph(encoder_source()), FromOnnxFile.file)


class FromOnnxFile(EngineSuite):
    """A suite whose model is an ONNX file."""

    file: Path

    def source(self) -> ModelSource:
        return ModelSource(
            example=batch(3, seed=1),
            outputs=("logits",),
            axes=AXES,
            onnx=self.file,
            calibration=Calibration(),
        )


class TestOnnxRuntime(FromOnnxFile):
    engine = "onnxruntime"
    tolerances: ClassVar = {
        "fp32": 1e-5,
        "int8_weight_only": 0.02,
        "int8_static": 0.06,
        "int4_weight_only": 0.15,
        "int8_dynamic": 0.03,
    }


class TestOpenVino(EngineSuite):
    engine = "openvino"
    tolerances: ClassVar = {"fp32": 1e-5, "bf16": 0.02, "int8_static": 0.06}


class TestOpenVinoFromAnOnnxFile(FromOnnxFile):
    engine = "openvino"
    tolerances: ClassVar = {"int8_weight_only": 0.02}


def test_a_module_is_exported_to_onnx_with_its_module_names(tmp_path: Path) -> None:
    settings = EngineSettings(engine="onnxruntime", threads=1, graph_optimization="basic")
    engine = start_engine(encoder_source(), settings, tmp_path, lambda _name: nullcontext())
    inputs = batch(5, seed=7, length=9)
    assert relative_error(engine.run(inputs)["logits"], reference(inputs)) < 1e-5
    assert set(load_graph(encoder_source()).layers) == set(LINEAR_LAYERS)


def test_what_is_not_quantised_can_be_bfloat16(tmp_path: Path) -> None:
    settings = EngineSettings(precision="int8_dynamic", high_precision="bf16", keep_high_precision=("head",))
    engine = start_engine(encoder_source(), settings, tmp_path, lambda _name: nullcontext())
    inputs = batch(5, seed=7)
    assert relative_error(engine.run(inputs)["logits"], reference(inputs)) < 0.04
    assert engine.describe().matmul_dtypes == {"int8": 4, "bfloat16": 1}
