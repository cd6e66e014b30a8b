"""What every engine must do. Subclass it and say which engine, and the relative error of each precision:

class TestTorch(EngineSuite):
    engine = "torch"
    tolerances: ClassVar = {"fp32": 1e-5, "int8_dynamic": 0.03}

Outputs are compared with those of PyTorch alone, in float32, on the encoder of ``served_model``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.contracts.served_model import (
    LINEAR_LAYERS,
    batch,
    encoder_source,
    reference,
    relative_error,
)
from trials.inference.engine import (
    QUANTISED_PRECISIONS,
    Engine,
    EngineSettings,
    ModelSource,
    Unsupported,
)
from trials.inference.engines import engine_entry, rejection, start_engine

OF_THE_CPU = ("bf16", "fp16")
"""Formats that some CPUs lack; an engine must then refuse, since it would run in another one."""
KEPT = "block.down"


class EngineSuite:
    """The promises of ``trials.inference.engine.Engine``; an engine is built once for each precision."""

    engine: str
    tolerances: ClassVar[Mapping[str, float]]
    more: ClassVar[Mapping[str, Any]] = {}

    def source(self) -> ModelSource:
        """The model that is served; its outputs are those of the encoder."""
        return encoder_source()

    def settings(self, precision: str, **more: Any) -> EngineSettings:
        config = {"threads": 1, "calibration_samples": 128, **self.more, **more}
        return EngineSettings.of({"engine": self.engine, "precision": precision, **config})

    def start(self, folder: Path, precision: str, **more: Any) -> Engine:
        folder.mkdir(exist_ok=True)
        self.phases: list[str] = []
        return start_engine(self.source(), self.settings(precision, **more), folder, self._phase)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self.phases.append(name)
        yield

    @pytest.fixture(scope="class")
    def engines(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
        """Every precision, started."""
        folder = tmp_path_factory.mktemp(self.engine)
        started: dict[str, Engine] = {}
        for precision in self.tolerances:
            try:
                started[precision] = self.start(folder / precision, precision)
            except Unsupported as refusal:
                assert precision in OF_THE_CPU, refusal
                assert "matrix products" in str(refusal)
        yield started
        for engine in started.values():
            engine.close()

    @pytest.fixture(scope="class")
    def one(self, engines: dict[str, Engine]) -> Engine:
        return next(iter(engines.values()))

    def test_its_entry_takes_the_settings_of_this_suite(self) -> None:
        for precision in self.tolerances:
            config = {**self.more, "engine": self.engine, "precision": precision}
            assert rejection(config, {"cpus": 2, "gpus": 0}, self.source().form) is None

    def test_every_precision_agrees_with_float32_on_sizes_that_it_was_not_built_with(
        self, engines: dict[str, Engine]
    ) -> None:
        for inputs in (batch(5, seed=7), batch(2, seed=8, length=9)):
            wanted = reference(inputs)
            for precision, engine in engines.items():
                outputs = engine.run(inputs)["logits"]
                assert outputs.dtype == np.float32
                assert relative_error(outputs, wanted) < self.tolerances[precision], precision

    def test_a_single_sample_gives_what_it_gives_in_a_batch(self, engines: dict[str, Engine]) -> None:
        inputs = batch(4, seed=9)
        single = {name: array[:1] for name, array in inputs.items()}
        for precision, engine in engines.items():
            alone, together = engine.run(single)["logits"], engine.run(inputs)["logits"][:1]
            assert relative_error(alone, together) < max(self.tolerances[precision], 1e-4), precision

    def test_outputs_stay_as_they_are_when_the_engine_runs_again(self, one: Engine) -> None:
        first = one.run(batch(3, seed=10))["logits"]
        before = first.copy()
        one.run(batch(3, seed=11))
        assert np.array_equal(first, before)

    def test_what_runs_is_described_from_the_engine(self, engines: dict[str, Engine]) -> None:
        for precision, engine in engines.items():
            found = engine.describe()
            assert found.engine == self.engine
            assert found.version
            assert found.threads == 1
            assert sum(found.matmul_dtypes.values()) >= len(LINEAR_LAYERS), precision
            if precision in QUANTISED_PRECISIONS:
                assert set(LINEAR_LAYERS) <= set(found.quantised), precision
            else:
                assert found.quantised == ()

    def test_a_layer_kept_in_high_precision_is_not_quantised(self, tmp_path: Path) -> None:
        precision = self._quantised()
        found = self.start(tmp_path, precision, keep_high_precision=[KEPT]).describe()
        assert KEPT in found.kept
        assert set(LINEAR_LAYERS) - {KEPT} <= set(found.quantised)

    def test_to_keep_every_layer_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Unsupported, match="no layer to quantise"):
            self.start(tmp_path, self._quantised(), keep_high_precision="*")

    def test_more_calibration_samples_than_there_are_is_refused(self, tmp_path: Path) -> None:
        if "int8_static" not in self.tolerances:
            pytest.skip("calibrates nothing here")
        with pytest.raises(Unsupported, match="calibration_samples=1000, but the calibration set has 128"):
            self.start(tmp_path, "int8_static", calibration_samples=1000)

    def test_fixed_shapes_serve_batches_and_single_samples(self, tmp_path: Path) -> None:
        if "fixed" not in engine_entry(self.engine).choices.get("shapes", ()):
            pytest.skip("has no fixed shapes")
        engine = self.start(tmp_path, next(iter(self.tolerances)), shapes="fixed", batch_size=4)
        for rows in (1, 4):
            inputs = batch(rows, seed=12)
            error = relative_error(engine.run(inputs)["logits"], reference(inputs))
            assert error < next(iter(self.tolerances.values()))

    def test_the_artifact_gives_the_same_outputs_in_a_fresh_process_without_tuner(
        self, engines: dict[str, Engine], tmp_path: Path
    ) -> None:
        precision, engine = list(engines.items())[-1]
        written = engine.artifact(tmp_path)
        assert written.model_bytes > 0
        assert {str(file) for file in written.files} >= {"loader.py", "settings.json"}
        inputs = batch(3, seed=13)
        assert np.allclose(
            run_artifact(tmp_path, inputs)["logits"], engine.run(inputs)["logits"], atol=1e-5
        ), precision

    def _quantised(self) -> str:
        found = next((p for p in self.tolerances if p in QUANTISED_PRECISIONS), None)
        if found is None:
            pytest.skip("quantises nothing here")
        return found


def run_artifact(folder: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The artifact's own loader, in a process where importing tuner or trials is an error."""
    given, got = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(given, **inputs)
    script = (
        "import sys, runpy\n"
        "sys.modules['tuner'] = sys.modules['trials'] = None\n"
        f"sys.argv = ['loader.py', {str(given)!r}, {str(got)!r}]\n"
        f"runpy.run_path({str(folder / 'loader.py')!r}, run_name='__main__')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=folder
    )
    assert ended.returncode == 0, ended.stderr
    return dict(np.load(got))
