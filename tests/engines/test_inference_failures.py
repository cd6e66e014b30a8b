"""What an engine cannot serve ends as a typed outcome, with a message that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.contracts.served_model import AXES, batch, encoder, encoder_source
from tests.served_digits import write_model
from trials.contract import FailureKind
from trials.inference.engine import (
    BadOutput,
    Engine,
    EngineSettings,
    EngineStartError,
    ModelSource,
    Unsupported,
)
from trials.inference.engines import start_engine
from trials.inference.outputs import check_outputs


def start(source: ModelSource, folder: Path, **settings: object) -> Engine:
    return start_engine(
        source, EngineSettings.of({"threads": 1, **settings}), folder, lambda _name: nullcontext()
    )


def source_of(module: Callable[[], nn.Module]) -> ModelSource:
    return ModelSource(example=batch(3, seed=1), outputs=("logits",), axes=AXES, factory=module)


def broken() -> nn.Module:
    module = encoder()
    nn.init.constant_(module.head.weight, float("nan"))
    return module


def blind() -> nn.Module:
    module = encoder()
    nn.init.zeros_(module.head.weight)
    return module


class Branching(nn.Module):
    """Its control flow depends on the data, which no exported graph can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = encoder()

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        outputs = self.inner(tokens, mask)
        return outputs * 2 if outputs.sum().item() > 0 else outputs


def test_outputs_that_are_not_finite_are_no_result(tmp_path: Path) -> None:
    with pytest.raises(BadOutput, match=r"output logits is not finite in 100\.0%") as raised:
        start(source_of(broken), tmp_path)
    assert raised.value.kind is FailureKind.NON_FINITE


def test_the_same_output_for_every_sample_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(BadOutput, match="the same for all samples"):
        start(source_of(blind), tmp_path)


def test_equal_outputs_of_equal_samples_are_right() -> None:
    check_outputs({"logits": np.ones((2, 3))}, {"tokens": np.ones((2, 4))})


def test_a_model_that_cannot_be_exported_is_unsupported_with_the_exporters_words_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By torch.export; with ONNX, whose exporter tries several ways and takes seconds: tests/long/engines.py."""
    with pytest.raises(Unsupported, match="refuses the model"):
        start(source_of(Branching), tmp_path, engine="aot_inductor")
    assert "Traceback" in capsys.readouterr().err


def test_no_calibration_data_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="the calibration set has 0; give the task calibration data"):
        start(source_of(encoder), tmp_path, precision="int8_static")


def test_an_axis_that_the_file_fixes_is_unsupported(tmp_path: Path) -> None:
    import onnx

    file = tmp_path / "fixed.onnx"
    write_model(file)
    model = onnx.load(file)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    onnx.save(model, file)
    example = {"images": np.zeros((3, 64), np.float32)}
    source = ModelSource(example=example, outputs=("logits",), axes={"images": {0: "batch"}}, onnx=file)
    with pytest.raises(Unsupported, match=r"input images is 3 long in axis 0, which must vary \(batch\)"):
        start(source, tmp_path, engine="onnxruntime")


def test_a_provider_that_is_not_there_is_unsupported(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for engine, provider in (("onnxruntime", "tensorrt"), ("openvino", "gpu")):
        with pytest.raises(Unsupported, match="use provider=cpu"):
            start(encoder_source(), tmp_path, engine=engine, provider=provider)


def test_a_session_that_fell_back_to_the_cpu_is_unsupported() -> None:
    from trials.inference.engines.onnxruntime import check_no_fallback

    class Session:
        def get_providers(self) -> list[str]:
            return ["CPUExecutionProvider"]

    with pytest.raises(Unsupported, match="fell back to CPUExecutionProvider, provider=cuda was asked for"):
        check_no_fallback(Session(), "cuda")
    check_no_fallback(Session(), "cpu")


def test_a_factory_that_fails_is_an_engine_that_does_not_start(tmp_path: Path) -> None:
    def failing() -> nn.Module:
        raise OSError("no weights here")

    with pytest.raises(EngineStartError, match="torch: OSError: no weights here"):
        start(source_of(failing), tmp_path)


def test_an_output_that_the_model_does_not_have_is_said(tmp_path: Path) -> None:
    source = ModelSource(example=batch(3, seed=1), outputs=("logits", "hidden"), axes=AXES, factory=encoder)
    with pytest.raises(EngineStartError, match="outputs names logits, hidden"):
        start(source, tmp_path)
