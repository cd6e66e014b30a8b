"""File types, told from a file's bytes by the ONNX model that the package ``magika`` ships: no PyTorch source.

The files are this machine's own (installed packages, the standard library, ``/usr/share``), labelled by their
extension. A label that is wrong (a ``.txt`` that holds a table) is wrong for every engine alike.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from trials.inference.task import write_arrays

FILES, OF_EACH_TYPE, CALIBRATION_FILES = 2400, 60, 200
_BYTES, _PADDING, _BLOCK, _LEAST_BYTES = 1024, 256, 4096, 16
_AMBIGUOUS = frozenset({"txt", "bin", "dat", "h", "m", "in", "cfg", "conf"})
"""Extensions that say little of what is inside."""


class MagikaFiles:
    """A file is right where the most likely type is that of its extension; up to 60 files of each type."""

    metrics = ("accuracy",)
    outputs = ("target_label",)
    needs: ClassVar = {"magika": 'pip install "tuner[magika]"'}

    def __init__(self) -> None:
        self.cache_dir = Path()

    def onnx_file(self) -> Path:
        """The model of the package."""
        return _model_folder() / "model.onnx"

    def evaluation_data(self) -> dict[str, np.ndarray]:
        """The first and the last kilobyte of each file, as the package prepares them."""
        return {"bytes": self._table()["bytes"][CALIBRATION_FILES:]}

    def calibration_data(self) -> dict[str, np.ndarray]:
        """200 other files."""
        return {"bytes": self._table()["bytes"][:CALIBRATION_FILES]}

    def score(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Whether the most likely type is the extension's."""
        answers = outputs["target_label"].argmax(axis=1)
        labels = self._table()["labels"][CALIBRATION_FILES:]
        return {"accuracy": (answers == labels[: len(answers)]).astype(np.float64)}

    def _table(self) -> dict[str, np.ndarray]:
        """Bytes and labels of all files; read once for a study, since files change."""
        path = self.cache_dir / "magika-files.npz"
        if not path.exists():
            write_arrays(path, _read())
        with np.load(path) as stored:
            return dict(stored)


def _read() -> dict[str, np.ndarray]:
    types = _types_by_extension()
    labels: list[int] = []
    rows: dict[bytes, np.ndarray] = {}
    taken: Counter[int] = Counter()
    for path in _in_order(types):
        label = types[path.suffix[1:]]
        if len(rows) == FILES:
            break
        row = _features(path) if taken[label] < OF_EACH_TYPE else None
        if row is not None and row.tobytes() not in rows:
            rows[row.tobytes()] = row
            labels.append(label)
            taken[label] += 1
    return {"bytes": np.stack(list(rows.values())), "labels": np.array(labels)}


def _types_by_extension() -> dict[str, int]:
    """Extension -> number of the model's type, where exactly one type has it."""
    config = json.loads((_model_folder() / "config.min.json").read_text())
    known = json.loads((_model_folder().parents[1] / "config/content_types_kb.min.json").read_text())
    found: dict[str, set[int]] = {}
    for number, name in enumerate(config["target_labels_space"]):
        for extension in known[name]["extensions"]:
            found.setdefault(extension, set()).add(number)
    return {
        extension: next(iter(numbers))
        for extension, numbers in found.items()
        if len(numbers) == 1 and extension not in _AMBIGUOUS
    }


def _in_order(types: dict[str, int]) -> Iterator[Path]:
    """Files of a known type, in the order of a hash of their relative paths."""
    roots = [Path(sysconfig.get_paths()[name]) for name in ("purelib", "stdlib")] + [Path("/usr/share")]
    names = sorted(
        (path.relative_to(root).as_posix(), root)
        for root in roots
        for path in root.rglob("*.*")
        if path.suffix[1:] in types
    )
    names.sort(key=lambda named: hashlib.md5(named[0].encode(), usedforsecurity=False).digest())
    return (root / name for name, root in names)


def _features(path: Path) -> np.ndarray | None:
    """2,048 numbers: the first kilobyte without leading blanks, the last without trailing ones; 256 fills up."""
    try:
        if not path.is_file() or path.stat().st_size < _LEAST_BYTES:
            return None
        with path.open("rb") as stream:
            begin = stream.read(_BLOCK)
            stream.seek(max(0, path.stat().st_size - _BLOCK))
            end = stream.read(_BLOCK)
    except OSError:
        return None
    first = np.frombuffer(begin.lstrip()[:_BYTES], dtype=np.uint8)
    last = np.frombuffer(end.rstrip()[-_BYTES:], dtype=np.uint8)
    row = np.full(2 * _BYTES, _PADDING, dtype=np.int32)
    row[: len(first)] = first
    row[2 * _BYTES - len(last) :] = last
    return row


def _model_folder() -> Path:
    package = importlib.util.find_spec("magika")
    if package is None or package.origin is None:
        raise ModuleNotFoundError('the file types are told by magika\'s model: pip install "tuner[magika]"')
    return sorted((Path(package.origin).parent / "models").glob("*/model.onnx"))[-1].parent
