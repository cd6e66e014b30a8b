"""The engines that compile: one build of each here; the whole contract suite takes minutes (tests/long/engines.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from tests.contracts.engine_suite import run_artifact
from tests.contracts.served_model import LINEAR_LAYERS, batch, encoder_source, reference, relative_error
from trials.inference.engine import EngineSettings
from trials.inference.engines import start_engine

INPUTS = batch(5, seed=7, length=12)


@pytest.fixture(autouse=True)
def _no_workers() -> Iterator[None]:
    """The compiler would leave a pool of processes behind."""
    import torch._inductor.config as inductor

    with inductor.patch(compile_threads=1):
        yield


@pytest.mark.parametrize("engine", ["torch_compile", "aot_inductor"])
def test_a_compiled_int8_model_agrees_with_float32_and_its_artifact_with_it(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    settings = EngineSettings(engine=engine, precision="int8_dynamic", threads=1)
    folder, artifact = tmp_path / "built", tmp_path / "artifact"
    folder.mkdir()
    artifact.mkdir()
    built = start_engine(encoder_source(), settings, folder, lambda _name: nullcontext())
    outputs = built.run(INPUTS)["logits"]
    found = built.describe()
    assert relative_error(outputs, reference(INPUTS)) < 0.03
    assert set(found.quantised) == set(LINEAR_LAYERS)
    assert found.matmul_dtypes["int8"] == len(LINEAR_LAYERS)
    built.artifact(artifact)
    if engine == "aot_inductor":  # the other one would compile once more
        assert np.allclose(run_artifact(artifact, INPUTS)["logits"], outputs, atol=1e-5)
