"""What an inference task is: a plain class. Nothing needs to be imported from here to write one.

    class Digits:
        metrics = ("accuracy",)                    # what `score` gives, so that a check knows it
        outputs = ("logits",)                      # names of what the model returns, in its order

        def __init__(self, *, hidden: int = 64):   # task.* parameters
            ...

        def model(self):                           # the trained nn.Module, float32
            return module

        def evaluation_data(self):                 # input name -> array whose rows are samples
            return {"images": images}

        def calibration_data(self):                # the same form; no sample of it is evaluated
            return {"images": other_images}

        def score(self, outputs):                  # metric -> one number per example
            right = outputs["logits"].argmax(1) == self.labels[: len(outputs["logits"])]
            return {"accuracy": right.astype(float)}

Names of inputs are the parameters of the model's ``forward``, or the inputs of the ONNX file. An input whose samples
have different lengths is a list of one-dimensional arrays: it is padded along axis 1, with the value in the class
attribute ``padding`` (``padding = {"input_ids": 0, "attention_mask": 0}``).

Instead of ``model``: ``onnx_file(self)``, the path of an ONNX file; or neither, where the space file names the
``model``. ``calibration_data`` is needed by ``int8_static`` only. Other optional parts:

- ``samples_per_example`` (1): an example is made of so many samples that follow one another in the data (question
  and answer); ``evaluate_on`` counts examples, and takes the first ones;
- ``predictions(self, outputs)``: one answer per example, to compare with the reference's (default: the index of the
  largest element of the first output);
- ``needs``: ``{"some_module": 'pip install "some-package"'}``, named by a check where it is not installed;
- ``cache_dir``: set before any method is called, a folder for files that all trials of the study share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trials.user_code import make_task

METHODS = ("evaluation_data", "score")
Inputs = Mapping[str, np.ndarray | Sequence[np.ndarray]]
"""Input name -> samples as rows, or as one-dimensional arrays of different lengths."""


class InferenceTask(Protocol):
    """The methods that every task has; the module's text shows them in use."""

    def evaluation_data(self) -> Inputs:
        """The samples that quality is measured on, and that are served while it is timed."""
        ...

    def score(self, outputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Metric key -> one number per example, from the outputs of all samples in order."""
        ...


def load_task(target: str, config: Mapping[str, Any], cache_dir: Path) -> InferenceTask:
    """Import the task and construct it with the ``task.*`` values; TrialFailure says what is wrong with it."""
    task = make_task(target, config, METHODS)
    cache_dir.mkdir(parents=True, exist_ok=True)
    task.cache_dir = cache_dir
    loaded: InferenceTask = task
    return loaded


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an ``.npz`` whole or not at all: other trials may read it meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]  # names become the archive's members
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
