"""``python -m trials.inference.build spec.json``: builds a configuration's artifact, and tries it out.

The artifact is left in ``artifact/`` beside the spec, with inputs and outputs to try it on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trials.context import TrialContext
from trials.contract import Measurement, Outcome
from trials.inference.engine import EngineStartError
from trials.inference.replica import Replica, places
from trials.inference.task import write_arrays

ARTIFACT_FOLDER = "artifact"
SAMPLE_INPUTS, SAMPLE_OUTPUTS = "sample_inputs.npz", "sample_outputs.npz"
_SAMPLES = 8
_RELATIVE_ERROR = 1e-2
"""Where a loader may differ from the engine: a library chooses kernels anew each time it compiles."""


def run(context: TrialContext) -> Measurement:
    """Build the engine of the spec's configuration and write it. ``facts`` say what and where."""
    spec = context.spec
    place = places(spec, {name: value for name, value in spec.config.items() if value is not None})[0]
    place.take()
    replica = Replica(spec, place, context.phase, context.phases)
    replica.load()
    folder = spec.trial_dir / ARTIFACT_FOLDER
    folder.mkdir()
    with context.phase("artifact_s"):
        written = replica.engine.artifact(folder)
        rows = _rows(replica)
        inputs = replica.served.evaluation.batch(range(rows), replica.served.padding.longest)
        outputs = replica.engine.run(inputs)
    write_arrays(folder / SAMPLE_INPUTS, inputs)
    write_arrays(folder / SAMPLE_OUTPUTS, outputs)
    proof = replica.describe()
    replica.close()
    with context.phase("try_out_s"):
        _try_out(folder, outputs)
    return Measurement(
        Outcome.COMPLETE,
        proof=proof,
        facts={"files": [str(file) for file in written.files], "model_bytes": written.model_bytes},
    )


def _rows(replica: Replica) -> int:
    """As many samples as the engine takes: an engine of fixed shapes was built for one number."""
    settings = replica.served.settings
    wanted = settings.batch_size if settings.is_fixed else _SAMPLES
    return min(int(wanted), len(replica.served.evaluation))


def _try_out(folder: Path, outputs: Mapping[str, np.ndarray]) -> None:
    """Run the loader in a fresh process, on the sample. EngineStartError where it fails or differs."""
    got = folder / f".{SAMPLE_OUTPUTS}"
    command = [sys.executable, "loader.py", SAMPLE_INPUTS, got.name]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(command, check=False, cwd=folder, env=environment)
    if ended.returncode:
        raise EngineStartError(
            f"the artifact's loader ended with status {ended.returncode}; its words are in the log"
        )
    with np.load(got) as loaded:
        different = [name for name, wanted in outputs.items() if not _is_close(loaded[name], wanted)]
    got.unlink()
    if different:
        raise EngineStartError(f"the artifact gives other outputs than the engine: {', '.join(different)}")


def _is_close(found: np.ndarray, wanted: np.ndarray) -> bool:
    distance = float(np.linalg.norm(found.astype(float) - wanted.astype(float)))
    return distance <= _RELATIVE_ERROR * float(np.linalg.norm(wanted.astype(float)))


if __name__ == "__main__":
    from trials.runner import main

    sys.exit(main(sys.argv[1:], time.monotonic(), run))
