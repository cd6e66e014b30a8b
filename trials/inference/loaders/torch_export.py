"""Runs the exported model: python loader.py inputs.npz outputs.npz (needs PyTorch; torchao where quantised)."""

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
    torch.set_float32_matmul_precision("highest")
    if SETTINGS["threads"]:
        torch.set_num_threads(SETTINGS["threads"])
    model = torch.export.load(FOLDER / "model.pt2").module()
    if SETTINGS["compile"] is not None:
        model = torch.compile(model, dynamic=SETTINGS["is_dynamic"], options=SETTINGS["compile"])
    dtype, device = getattr(torch, SETTINGS["dtype"]), SETTINGS["device"]

    @torch.no_grad()
    def run(batch):
        tensors = {name: torch.from_numpy(array).to(device) for name, array in batch.items()}
        tensors = {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()}
        outputs = model(**tensors)
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
