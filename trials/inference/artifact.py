"""Writes a built model as an artifact: its files, ``settings.json``, and a ``loader.py`` that needs no tuner."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.inference.engine import Artifact

LOADERS = Path(__file__).parent / "loaders"


def write_artifact(
    folder: Path, model_files: Sequence[Path], loader: Path, settings: Mapping[str, Any]
) -> Artifact:
    """The artifact around model files that lie in ``folder``; ``loader`` is copied to ``loader.py``."""
    shutil.copyfile(loader, folder / "loader.py")
    (folder / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return Artifact(folder, tuple(files), sum(path.stat().st_size for path in model_files))
