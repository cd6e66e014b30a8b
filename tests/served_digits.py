"""Handwritten digits served from an ONNX file, without PyTorch: random features and a least-squares layer.

A task as a user writes it: ``write_model`` makes the file, ``ServedDigits`` holds the data and the score. Where a
model has an ``outlier``, it is the weight of one input of ``hidden.1`` that is always 0: in float32 it changes nothing,
in 8 bits all other weights of that layer (about 0.1) are rounded to multiples of outlier / 127.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np

WIDTH, TRAINED_ON, CALIBRATED_ON = 96, 700, 97
WRONG, CONSTANT = 20.0, 1e4
"""Outliers with which integers answer a third of the digits wrongly, and all of them the same."""


class ServedDigits:
    metrics = ("accuracy",)
    outputs = ("logits",)

    def __init__(self, *, fault: str = ""):
        self.fault = fault
        self.images, self.labels = digits()

    def evaluation_data(self):
        if self.fault == "second instance is killed" and "trials.inference" in sys.orig_argv:
            threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return {"images": self.images[TRAINED_ON + CALIBRATED_ON :]}

    def calibration_data(self):
        if self.fault == "calibration overlaps":
            return {"images": self.images[TRAINED_ON : TRAINED_ON + CALIBRATED_ON + 1]}
        if self.fault == "calibration is empty":
            return {"images": self.images[:0]}
        return {"images": self.images[TRAINED_ON : TRAINED_ON + CALIBRATED_ON]}

    def score(self, outputs):
        logits = outputs["logits"]
        labels = self.labels[TRAINED_ON + CALIBRATED_ON :][: len(logits)]
        if self.fault == "score of another length":
            labels, logits = labels[1:], logits[1:]
        return {"accuracy": (logits.argmax(1) == labels).astype(float)}


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (0-1) and labels, in a fixed order."""
    package = importlib.util.find_spec("sklearn")
    assert package is not None and package.origin is not None
    with gzip.open(Path(package.origin).parent / "datasets/data/digits.csv.gz", "rt") as stream:
        table = np.loadtxt(stream, delimiter=",", dtype=np.float32)
    table = np.random.default_rng(0).permutation(table)
    return table[:, :64] / 16, table[:, 64].astype(np.int64)


def layers(outlier: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Weights (inputs, outputs) and biases; about 95% of the digits are told apart."""
    images, labels = digits()
    random = np.random.default_rng(1)
    first = (
        random.normal(0, 0.3, (64, WIDTH)).astype(np.float32),
        random.normal(0, 0.5, WIDTH).astype(np.float32),
    )
    first[0][:, 0], first[1][0] = 0, -1  # ReLU makes it 0, always
    second = random.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32), np.zeros(WIDTH, np.float32)
    hidden = images[:TRAINED_ON]
    for weight, bias in (first, second):
        hidden = np.maximum(hidden @ weight + bias, 0)
    inputs = np.hstack([hidden, np.ones((len(hidden), 1))])
    wanted = np.eye(10)[labels[:TRAINED_ON]]
    solved = np.linalg.solve(inputs.T @ inputs + 0.1 * np.eye(WIDTH + 1), inputs.T @ wanted).astype(
        np.float32
    )
    second[0][0] = outlier
    return {"hidden.0": first, "hidden.1": second, "head": (solved[:-1], solved[-1])}


def write_model(path: Path, outlier: float = 0, *, unknown_operator: bool = False, nan: bool = False) -> Path:
    """The network as an ONNX file; nodes are named like its layers."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, initializers, last = [], [], "images"
    for name, (weight, bias) in layers(outlier).items():
        offset = np.full_like(bias, np.nan) if nan and name == "head" else bias
        initializers += [numpy_helper.from_array(weight, f"{name}.weight")]
        initializers += [numpy_helper.from_array(offset, f"{name}.bias")]
        out = "logits" if name == "head" else f"{name}.sum"
        nodes.append(helper.make_node("MatMul", [last, f"{name}.weight"], [f"{name}.product"], name=name))
        nodes.append(helper.make_node("Add", [f"{name}.product", f"{name}.bias"], [out], name=f"{name}.add"))
        if name != "head":
            nodes.append(helper.make_node("Relu", [out], [f"{name}.out"], name=f"{name}.relu"))
        last = f"{name}.out"
    if unknown_operator:
        nodes[0].op_type = "Enchant"
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path
