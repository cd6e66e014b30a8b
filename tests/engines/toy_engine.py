"""A whole engine as another package would write it: one class, and one entry that its metadata points to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from trials.inference.artifact import write_artifact
from trials.inference.engine import Artifact, Batch, Description, EngineSettings, ModelSource, Phase
from trials.inference.engines import EngineEntry

ENTRY = EngineEntry(
    "toy",
    "tests.engines.toy_engine:ToyEngine",
    "the module in PyTorch, for the tests",
    {"precision": ("fp32",), "provider": ("cpu",), "shapes": ("dynamic",)},
)

LOADER = """
import sys, pathlib, numpy, torch
model = torch.export.load(pathlib.Path(__file__).parent / "model.pt2").module()
batch = {name: torch.from_numpy(array) for name, array in numpy.load(sys.argv[1]).items()}
numpy.savez(sys.argv[2], logits=model(**batch).detach().float().numpy())
"""


class ToyEngine:
    def load(self, source: ModelSource, settings: EngineSettings, folder: Path, phase: Phase) -> None:
        torch.set_num_threads(settings.threads or 1)
        with phase("load_s"):
            self._source, self._module = source, source.module()

    def run(self, batch: Batch) -> dict[str, np.ndarray]:
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        with torch.no_grad():
            return {self._source.outputs[0]: self._module(**tensors).float().numpy()}

    def describe(self) -> Description:
        products = sum(isinstance(module, torch.nn.Linear) for module in self._module.modules())
        return Description("toy", torch.__version__, "cpu", torch.get_num_threads(), {"float32": products})

    def artifact(self, folder: Path) -> Artifact:
        (folder / "toy_loader.py").write_text(LOADER)
        inputs = {name: torch.from_numpy(array) for name, array in self._source.example.items()}
        dynamic = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
        program = torch.export.export(self._module, (), inputs, dynamic_shapes=dict.fromkeys(inputs, dynamic))
        torch.export.save(program, folder / "model.pt2")
        return write_artifact(folder, [folder / "model.pt2"], folder / "toy_loader.py", {})

    def close(self) -> None:
        del self._module
