"""What the float32 model answers: eager PyTorch, or ONNX Runtime for an ONNX file. Computed once for a study.

Kept in the study's cache folder under a hash of the model and of every sample, so that a changed model, task or
data set never meets an old answer.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from trials.inference.engine import EngineSettings, Phase
from trials.inference.engines import start_engine
from trials.inference.model import Served, content_key, joined
from trials.inference.samples import Padding, plan_pass
from trials.inference.serving import Outputs
from trials.inference.task import write_arrays

_BATCH_SIZE = 32
_STEP = 16
"""Reference batches are padded to multiples of this: it is computed once, and padding costs time."""


def reference_outputs(served: Served, cache_dir: Path, folder: Path, phase: Phase) -> dict[str, np.ndarray]:
    """Outputs of every evaluation sample; from the cache where it has them. ``folder`` is for the engine's files."""
    path = cache_dir / f"reference-{_key(served)}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(path, _compute(served, folder, phase))
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def reference_engine(served: Served) -> str:
    """The engine that answers for float32."""
    return "torch" if served.source.form == "module" else "onnxruntime"


def _key(served: Served) -> str:
    parts = (content_key(served.source), served.evaluation.fingerprint(), reference_engine(served))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]


def _compute(served: Served, folder: Path, phase: Phase) -> dict[str, np.ndarray]:
    longest = served.padding.longest
    padding = Padding(longest, tuple(range(_STEP, longest, _STEP)))
    settings = EngineSettings(
        engine=reference_engine(served), threads=served.settings.threads, batch_size=_BATCH_SIZE
    )
    engine = start_engine(served.source, settings, folder, phase)
    outputs: Outputs = {}
    try:
        for planned in plan_pass(served.evaluation, padding, _BATCH_SIZE):
            found = engine.run(planned.arrays(served.evaluation))
            for row, index in enumerate(planned.indices):
                outputs[index] = {name: array[row] for name, array in found.items()}
    finally:
        engine.close()
    return joined(outputs)
