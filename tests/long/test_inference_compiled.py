"""The engines that compile: one build of each here; the whole contract suite takes minutes (tests/long/engines.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.contracts.engine_suite import run_artifact
from tests.contracts.served_model import relative_error
from trials.inference.engine import EngineSettings, ModelSource
from trials.inference.engines import start_engine

WIDTH = 32


def perceptron() -> nn.Module:
    """Few kernels, so that compiling takes seconds."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def rows(count: int) -> dict[str, np.ndarray]:
    return {"input": np.random.default_rng(count).standard_normal((count, WIDTH)).astype(np.float32)}


SOURCE = ModelSource(example=rows(4), outputs=("logits",), axes={"input": {0: "batch"}}, factory=perceptron)


@pytest.fixture(autouse=True, scope="module")
def _contained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No pool of processes and no cache is left behind; headers are not compiled ahead for two small models."""
    import torch._inductor.config as inductor

    lean = {
        "compile_threads": 1,
        "cpp_cache_precompile_headers": False,
        "aot_inductor.precompile_headers": False,
    }
    with pytest.MonkeyPatch.context() as patch, inductor.patch(lean):
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


@pytest.mark.parametrize("engine", ["torch_compile", "aot_inductor"])
def test_a_compiled_int8_model_agrees_with_float32_and_its_artifact_with_it(
    engine: str, tmp_path: Path
) -> None:
    settings = EngineSettings(
        engine=engine, precision="int8_weight_only", threads=1, keep_high_precision=("2",)
    )
    folder, artifact = tmp_path / "built", tmp_path / "artifact"
    folder.mkdir()
    artifact.mkdir()
    built = start_engine(SOURCE, settings, folder, lambda _name: nullcontext())
    inputs = rows(5)
    outputs = built.run(inputs)["logits"]
    with torch.no_grad():
        wanted = perceptron()(torch.from_numpy(inputs["input"])).numpy()
    found = built.describe()
    assert 0 < relative_error(outputs, wanted) < 0.02
    assert (found.quantised, found.kept) == (("0",), ("2",))
    assert found.matmul_dtypes == {"float32": 2}
    built.artifact(artifact)
    if engine == "aot_inductor":  # the other one's loader would compile all over again
        assert np.allclose(run_artifact(artifact, inputs)["logits"], outputs, atol=1e-5)
