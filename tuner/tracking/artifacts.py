"""Files on their way to MLflow, which takes them from a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_with(contents: Mapping[str, str | bytes]) -> Iterator[str]:
    """A temporary folder that holds ``contents`` (file name -> content); gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tuner-mlflow-") as folder:
        for name, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            (Path(folder) / name).write_bytes(data)
        yield folder
