"""The engine ``torch_compile``: the module compiled when it first runs."""

from __future__ import annotations

from pathlib import Path

from trials.inference.engine import (
    Artifact,
    Description,
    EngineSettings,
    ModelSource,
    Phase,
    Unsupported,
    axis_sizes,
)
from trials.inference.engines.torch_eager import TorchEngine
from trials.inference.outputs import sized
from trials.training.compilation import Compiler


class TorchCompileEngine(TorchEngine):
    """torch.compile; on a CPU weights are frozen, so that they are packed for the kernels once."""

    name = "torch_compile"

    def load(self, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase) -> None:
        """Build the module, and compile it for the sizes of the example (or the fixed ones)."""
        super().load(source, settings, folder, phase)
        self._is_dynamic = not settings.is_fixed
        is_frozen = self.model.device.type == "cpu"
        self._compiler = Compiler(settings.graph_optimization or "default", None, freezing=is_frozen)
        self._graphs_before = self._compiler.count_graphs()
        self._call = self._compiler.compile(self.model.module, dynamic=self._is_dynamic)
        for sizes in settings.fixed_sizes(source) or [axis_sizes(source, source.example)]:
            with phase("compile_s"):
                self.run(sized(source, sizes))

    def describe(self) -> Description:
        """Products of the compiled graphs. Unsupported where nothing was compiled."""
        found = self._compiler.describe()
        found["compiled_graphs"] -= self._graphs_before
        if not found["compiled_graphs"]:
            raise Unsupported("torch.compile compiled nothing; the model would run uncompiled")
        products = found.pop("compiled_products")
        return self.description(products, **found)

    def artifact(self, folder: Path) -> Artifact:
        """The exported graph, which the loader compiles in the same way."""
        return self.exported(folder, self._compiler.options, self._is_dynamic)
