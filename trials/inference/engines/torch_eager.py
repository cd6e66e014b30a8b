"""The engine ``torch``: the module run operation by operation."""

from __future__ import annotations

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
)
from trials.inference.engines import first_line
from trials.inference.engines.torch_model import TorchModel, count_integer_products, dynamic_shapes


class TorchEngine:
    """PyTorch, uncompiled; the artifact is the exported graph, which runs without the module's source."""

    name = "torch"

    def load(self, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase) -> None:
        """Build the module, cast and quantised."""
        count_integer_products()
        self.model = TorchModel(source, settings, phase)
        self._call: Any = self.model.module

    @torch.no_grad()
    def run(self, batch: Batch) -> dict[str, np.ndarray]:
        """Outputs of one batch."""
        return self.model.arrays(self._call(**self.model.tensors(batch)))

    def describe(self) -> Description:
        """Products counted while the example runs."""
        return self.description(self.model.products(self.model.module, self.model.source.example))

    def description(self, products: Any, **details: Any) -> Description:
        """The description with these products."""
        return Description(
            engine=self.name,
            version=torch.__version__,
            provider=str(self.model.device),
            threads=torch.get_num_threads(),
            matmul_dtypes=dict(products),
            quantised=self.model.quantised,
            kept=self.model.kept,
            details={"parameters": str(self.model.dtype).removeprefix("torch."), **details},
        )

    def artifact(self, folder: Path) -> Artifact:
        """The exported graph. Unsupported where the module cannot be exported."""
        return self.exported(folder, compile_options=None, is_dynamic=True)

    def exported(self, folder: Path, compile_options: dict[str, Any] | None, is_dynamic: bool) -> Artifact:
        """The exported graph, which the loader compiles with these options."""
        model = self.model
        torch.export.save(export(model, model.tensors(model.source.example)), folder / "model.pt2")
        return write_artifact(
            folder,
            [folder / "model.pt2"],
            LOADERS / "torch_export.py",
            {
                "compile": compile_options,
                "is_dynamic": is_dynamic,
                "is_quantised": model.settings.is_quantised,
                "threads": model.settings.threads,
                "device": model.device.type,
                "dtype": str(model.dtype).removeprefix("torch."),
                "outputs": model.source.outputs,
            },
        )

    def close(self) -> None:
        """Drop the module."""
        del self.model, self._call


def export(model: TorchModel, tensors: dict[str, torch.Tensor], is_dynamic: bool = True) -> Any:
    """The module as an exported program. Unsupported, with PyTorch's words in the log, where it cannot be."""
    shapes = dynamic_shapes(model.source) if is_dynamic else None
    try:
        with torch.no_grad():
            return torch.export.export(model.module, (), tensors, dynamic_shapes=shapes)
    except Exception as error:
        import traceback

        traceback.print_exc()
        raise Unsupported(f"torch.export refuses the model: {first_line(error)}") from error
