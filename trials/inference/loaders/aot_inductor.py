"""Runs the compiled packages: python loader.py inputs.npz outputs.npz (needs PyTorch on the same kind of CPU)."""

import json
import sys
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parent
SETTINGS = json.loads((FOLDER / "settings.json").read_text())


def load():
    """A function from arrays by input name to arrays by output name."""
    if SETTINGS["is_quantised"]:
        import torchao  # noqa: F401 - registers the operations of quantised layers
    if SETTINGS["threads"]:
        torch.set_num_threads(SETTINGS["threads"])
    models = [
        (package["sizes"], torch._inductor.aoti_load_package(str(FOLDER / package["file"])))
        for package in SETTINGS["packages"]
    ]
    dtype, device = getattr(torch, SETTINGS["dtype"]), SETTINGS["device"]

    @torch.no_grad()
    def run(batch):
        sizes = {
            axis: batch[name].shape[int(at)]
            for name, axes in SETTINGS["axes"].items()
            for at, axis in axes.items()
        }
        model = next(model for built_for, model in models if not built_for or built_for == sizes)
        tensors = {name: torch.from_numpy(array).to(device) for name, array in batch.items()}
        outputs = model(**{name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()})
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        named = outputs if hasattr(outputs, "keys") else dict(zip(SETTINGS["outputs"], outputs, strict=False))
        return {
            name: (named[name].float() if named[name].is_floating_point() else named[name]).cpu().numpy()
            for name in SETTINGS["outputs"]
        }

    return run


if __name__ == "__main__":
    np.savez(sys.argv[2], **load()(dict(np.load(sys.argv[1]))))
