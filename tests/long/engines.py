"""Every engine in every precision that this CPU has, through the contract suite; ten minutes and more.

python -m pytest -o addopts= tests/long/engines.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.contracts.engine_suite import EngineSuite
from tests.engines.test_inference_failures import Branching, source_of, start
from trials.inference.engine import Unsupported

TORCH = {
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
def _no_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No pool of processes, no shared cache: what is left behind would be somebody else's."""
    import torch._inductor.config as inductor

    with pytest.MonkeyPatch.context() as patch, inductor.patch(compile_threads=1):
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


class TestTorch(EngineSuite):
    engine = "torch"
    tolerances: ClassVar = TORCH


class TestTorchWithTheRestInBfloat16(EngineSuite):
    engine = "torch"
    tolerances: ClassVar = {name: 1.5 * error for name, error in TORCH.items() if name.startswith("int")}
    more: ClassVar = {"high_precision": "bf16"}


class TestTorchCompile(EngineSuite):
    engine = "torch_compile"
    tolerances: ClassVar = TORCH


class TestAotInductor(EngineSuite):
    engine = "aot_inductor"
    tolerances: ClassVar = TORCH


class TestOnnxRuntime(EngineSuite):
    engine = "onnxruntime"
    tolerances: ClassVar = {
        name: error for name, error in TORCH.items() if name not in ("bf16", "bf16_params", "fp16")
    }


class TestOnnxRuntimeByEntropy(EngineSuite):
    engine = "onnxruntime"
    tolerances: ClassVar = {"int8_static": 0.1}
    more: ClassVar = {"calibration_method": "entropy"}


class TestOnnxRuntimeByPercentile(EngineSuite):
    engine = "onnxruntime"
    tolerances: ClassVar = {"int8_static": 0.1}
    more: ClassVar = {"calibration_method": "percentile"}


class TestOpenVino(EngineSuite):
    engine = "openvino"
    tolerances: ClassVar = {
        name: error for name, error in TORCH.items() if name not in ("bf16_params", "int8_dynamic")
    }


class TestOpenVinoWithTheRestInBfloat16(EngineSuite):
    engine = "openvino"
    tolerances: ClassVar = {"int8_weight_only": 0.03, "int8_static": 0.08}
    more: ClassVar = {"high_precision": "bf16"}


def test_a_model_that_cannot_be_exported_to_onnx_is_unsupported(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="refuses the model"):
        start(source_of(Branching), tmp_path, engine="onnxruntime")
