"""A built model as an artifact: its files, ``settings.json``, and a ``loader.py`` that needs no tuner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trials.inference.engine import Artifact, EngineStartError

LOADERS = Path(__file__).parent / "loaders"
SAMPLE_INPUTS, SAMPLE_OUTPUTS = "sample_inputs.npz", "sample_outputs.npz"
_STDERR = 2
_RELATIVE_ERROR = 1e-2
"""Where a loader may differ from the engine: a library chooses kernels anew each time it compiles."""


def write_artifact(
    folder: Path, model_files: Sequence[Path], loader: Path, settings: Mapping[str, Any]
) -> Artifact:
    """The artifact around model files that lie in ``folder``; ``loader`` is copied to ``loader.py``."""
    shutil.copyfile(loader, folder / "loader.py")
    (folder / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return Artifact(folder, tuple(files), sum(path.stat().st_size for path in model_files))


def try_out(folder: Path) -> None:
    """Run the loader on the artifact's sample, in a fresh process that prints to this one's standard error.

    EngineStartError where it fails, or gives other outputs than the engine that was measured.
    """
    with tempfile.TemporaryDirectory() as place:
        got = Path(place) / SAMPLE_OUTPUTS
        command = [sys.executable, "loader.py", SAMPLE_INPUTS, str(got)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ended = subprocess.run(command, check=False, cwd=folder, env=environment, stdout=_STDERR)
        if ended.returncode:
            raise EngineStartError(f"the artifact's loader ended with status {ended.returncode}; it said why")
        with np.load(got) as found, np.load(folder / SAMPLE_OUTPUTS) as wanted:
            different = [name for name in wanted.files if not _is_close(found[name], wanted[name])]
    if different:
        raise EngineStartError(f"the artifact gives other outputs than the engine: {', '.join(different)}")


def _is_close(found: np.ndarray, wanted: np.ndarray) -> bool:
    distance = float(np.linalg.norm(found.astype(float) - wanted.astype(float)))
    return distance <= _RELATIVE_ERROR * float(np.linalg.norm(wanted.astype(float)))
