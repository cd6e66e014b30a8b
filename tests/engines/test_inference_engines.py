"""The engines that start in seconds, through the contract suite, in float32 and one int8 form.

Every engine in every precision: tests/long/engines.py.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import pytest

from tests.contracts.engine_suite import EngineSuite
from tests.contracts.served_model import (
    AXES,
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
    tolerances: ClassVar = {"fp32": 1e-5, "int8_dynamic": 0.03}


@pytest.fixture(autouse=True, scope="module")
def _exported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The encoder as PyTorch exports it, once for all tests."""
    FromOnnxFile.file = tmp_path_factory.mktemp("onnx") / "encoder.onnx"
    save_graph(load_graph(encoder_source()), FromOnnxFile.file)


class FromOnnxFile(EngineSuite):
    """A suite whose model is an ONNX file, in which layers are still called as the modules are."""

    file: ClassVar[Path]

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
    tolerances: ClassVar = {"fp32": 1e-5, "int8_static": 0.06}


class TestOpenVino(FromOnnxFile):
    engine = "openvino"
    tolerances: ClassVar = {"fp32": 1e-5, "int8_static": 0.06}


def test_what_is_not_quantised_can_be_bfloat16(tmp_path: Path) -> None:
    settings = EngineSettings(precision="int8_dynamic", high_precision="bf16", keep_high_precision=("head",))
    engine = start_engine(encoder_source(), settings, tmp_path, lambda _name: nullcontext())
    inputs = batch(5, seed=7)
    assert relative_error(engine.run(inputs)["logits"], reference(inputs)) < 0.04
    assert engine.describe().matmul_dtypes == {"int8": 4, "bfloat16": 1}
