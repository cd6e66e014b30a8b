"""The engine ``aot_inductor``: exported, compiled ahead of time into a package, run without the module."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
from trials.inference.engines.torch_eager import export
from trials.inference.engines.torch_model import TorchModel, count_integer_products
from trials.inference.outputs import sized
from trials.training.compilation import products_in

_OPTIONS: Mapping[str | None, dict[str, Any]] = {
    None: {},
    "default": {},
    "max-autotune": {"max_autotune": True},
}


class AotInductorEngine:
    """torch.export and AOTInductor; with fixed shapes one package for each size."""

    def load(self, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase) -> None:
        """Export, compile and load."""
        count_integer_products()
        self._source, self._settings = source, settings
        model = TorchModel(source, settings, phase)
        self._packages: dict[tuple[tuple[str, int], ...], Path] = {}
        self._products: Counter[str] = Counter()
        sizes_list = settings.fixed_sizes(source) or [{}]
        for number, sizes in enumerate(sizes_list):
            with phase("export_s"):
                program = export(model, model.tensors(sized(source, sizes)), is_dynamic=not settings.is_fixed)
                self._products = _products(program)
            with phase("compile_s"):
                self._packages[_key(sizes)] = _compiled(program, folder / f"model{number}.pt2", settings)
        with phase("load_s"):
            self._runners = {
                key: torch._inductor.aoti_load_package(str(path)) for key, path in self._packages.items()
            }
        model.module = torch.nn.Module()  # the package has its own weights
        self.model = model

    @torch.no_grad()
    def run(self, batch: Batch) -> dict[str, np.ndarray]:
        """Outputs of one batch. Unsupported for a size that nothing was built for."""
        key = _key(axis_sizes(self._source, batch)) if self._settings.is_fixed else ()
        if key not in self._runners:
            raise Unsupported(f"shapes=fixed was built for {list(map(dict, self._runners))}, not {dict(key)}")
        return self.model.arrays(self._runners[key](**self.model.tensors(batch)))

    def describe(self) -> Description:
        """Products of the exported graph, which is what was compiled."""
        return Description(
            engine="aot_inductor",
            version=torch.__version__,
            provider=str(self.model.device),
            threads=torch.get_num_threads(),
            matmul_dtypes=dict(self._products),
            quantised=self.model.quantised,
            kept=self.model.kept,
            details={"packages": len(self._packages)},
        )

    def artifact(self, folder: Path) -> Artifact:
        """The packages."""
        files = [Path(shutil.copy2(path, folder / path.name)) for path in self._packages.values()]
        packages = [{"file": path.name, "sizes": dict(key)} for key, path in self._packages.items()]
        settings = {
            "packages": packages,
            "axes": {name: dict(axes) for name, axes in self._source.axes.items()},
            "threads": self._settings.threads,
            "device": self.model.device.type,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "outputs": self._source.outputs,
            "is_quantised": self._settings.is_quantised,
        }
        return write_artifact(folder, files, LOADERS / "aot_inductor.py", settings)

    def close(self) -> None:
        """Unload the packages."""
        self._runners.clear()


def _key(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items()))


def _products(program: Any) -> Counter[str]:
    """Attention stays whole here, as it does in the compiler: its inner products are not counted anywhere."""
    table = torch.export.default_decompositions()
    del table[torch.ops.aten.scaled_dot_product_attention.default]
    return products_in(program.run_decompositions(table).graph_module)


def _compiled(program: Any, path: Path, settings: EngineSettings) -> Path:
    options = _OPTIONS[settings.graph_optimization]
    with torch.no_grad():
        return Path(
            torch._inductor.aoti_compile_and_package(
                program, package_path=str(path), inductor_configs=options
            )
        )
