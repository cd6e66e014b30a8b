"""Runs the model: python loader.py inputs.npz outputs.npz (needs openvino)."""

import json
import sys
from pathlib import Path

import numpy as np
import openvino

FOLDER = Path(__file__).parent
SETTINGS = json.loads((FOLDER / "settings.json").read_text())
CORE = openvino.Core()  # kept: unloading it takes away the stack that signal handlers run on


def compiled(sizes):
    """The model compiled, with its variable axes fixed to these sizes where there are any."""
    model = CORE.read_model(FOLDER / "model.xml")
    if sizes:
        shapes = {}
        for name, axes in SETTINGS["axes"].items():
            shapes[name] = list(model.input(name).partial_shape)
            for position, axis in axes.items():
                shapes[name][int(position)] = sizes[axis]
        model.reshape({name: openvino.PartialShape(shape) for name, shape in shapes.items()})
    return CORE.compile_model(model, SETTINGS["device"], SETTINGS["options"]).create_infer_request()


def load():
    """A function from arrays by input name to arrays by output name."""
    requests = [(sizes, compiled(sizes)) for sizes in SETTINGS["sizes"]]

    def run(batch):
        sizes = {
            axis: batch[name].shape[int(at)]
            for name, axes in SETTINGS["axes"].items()
            for at, axis in axes.items()
        }
        request = next(entry for built_for, entry in requests if not built_for or built_for == sizes)
        found = request.infer(batch, share_inputs=True).values()
        return {name: np.array(array) for name, array in zip(SETTINGS["outputs"], found, strict=False)}

    return run


if __name__ == "__main__":
    np.savez(sys.argv[2], **load()(dict(np.load(sys.argv[1]))))
