"""Where ``tuner export -o`` may write: never over the records, and over no file that somebody else wrote."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from trials.contract import write_atomically
from tuner.cli.errors import CliError
from tuner.export import is_export
from tuner.records.names import location_meant

_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database holds data of it."""
_HEAD_BYTES = 4096


def output_path(name: str, records: str | None, *, force: bool = False) -> Path:
    """Where to write; refused before any work. ``force``: also over what no export wrote."""
    path = Path(name)
    if path.is_dir():
        raise CliError(f"-o {name}: is a folder; name a file in it, such as {path / 'best.yaml'}")
    if not path.parent.is_dir():
        raise CliError(f"-o {name}: the folder {path.parent} does not exist; create it first")
    refuse_the_records(name, records)
    if path.is_file() and not force and not _may_be_replaced(path):
        raise CliError(f"-o {name}: is there, and no export wrote it; name another file, or say --force")
    return path


def refuse_the_records(name: str, records: str | None) -> None:
    """CliError where ``name``, a path or an SQLite URL, is the file of the records, or one that belongs to it."""
    holding = location_meant(records).removeprefix("sqlite:///")
    given = name.removeprefix("sqlite:///")
    if "://" in holding or "://" in given:
        return
    target = os.path.realpath(given)
    if target in [os.path.realpath(Path(holding).expanduser()) + end for end in _BESIDE]:
        raise CliError(f"-o {name}: holds the records; name another file")


def write_output(path: Path, text: str) -> None:
    """Write the file whole or not at all. CliError where it cannot be."""
    try:
        write_atomically(path, text)
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise CliError(f"{path}: the disk is full; free some space, or name another place") from problem
        raise CliError(f"{path}: cannot be written: {problem.strerror or problem}") from problem


def _may_be_replaced(path: Path) -> bool:
    """An earlier export, or an empty file."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    return not head or is_export(head.decode(errors="replace"))
