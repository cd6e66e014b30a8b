"""Runs the graph: python loader.py inputs.npz outputs.npz (needs onnxruntime)."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).parent
SETTINGS = json.loads((FOLDER / "settings.json").read_text())


def session(sizes):
    """A session, with its variable dimensions fixed to these sizes where there are any."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = SETTINGS["threads"], 1
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, SETTINGS["graph_optimization"]
    )
    for dimension, size in sizes.items():
        options.add_free_dimension_override_by_name(dimension, size)
    providers = [tuple(entry) if isinstance(entry, list) else entry for entry in SETTINGS["providers"]]
    return onnxruntime.InferenceSession(FOLDER / "model.onnx", options, providers=providers)


def load():
    """A function from arrays by input name to arrays by output name."""
    sessions = [(sizes, session(sizes)) for sizes in SETTINGS["sessions"]]

    def run(batch):
        sizes = {
            dimension: batch[name].shape[position] for name, position, dimension in SETTINGS["dimensions"]
        }
        chosen = next(entry for built_for, entry in sessions if not built_for or built_for == sizes)
        return dict(zip(SETTINGS["outputs"], chosen.run(SETTINGS["outputs"], batch), strict=True))

    return run


if __name__ == "__main__":
    np.savez(sys.argv[2], **load()(dict(np.load(sys.argv[1]))))
