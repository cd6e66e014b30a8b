"""Pairs of a function's first line and the rest of its docstring, from every package that is installed.

The same on one machine as long as the same packages are installed, and kept in the study's cache: all of its trials
see the same pairs, whatever is installed meanwhile.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from trials.contract import write_atomically

PAIRS = 4000
_PER_FILE = 3
_LARGEST_BYTES = 200_000
_LEAST_WORDS, _LEAST_BODY_WORDS = 4, 10
_TOLD_APART_BY = 60
"""Characters in which no two texts are the same: what is cut off behind them makes no difference between two."""


def docstring_pairs(cache_dir: Path) -> list[tuple[str, str]]:
    """Up to 4,000 (first line, rest), in an order that mixes packages."""
    path = cache_dir / "docstring-pairs.json"
    if not path.exists():
        found = collect([Path(sysconfig.get_paths()[name]) for name in ("purelib", "stdlib")], PAIRS)
        write_atomically(path, json.dumps(found))
    return [(first, rest) for first, rest in json.loads(path.read_text(encoding="utf-8"))]


def collect(roots: list[Path], at_most: int) -> list[tuple[str, str]]:
    """Pairs of the files below the folders, taken in the order of a hash of their relative paths."""
    names = sorted({(path.relative_to(root).as_posix(), root) for root in roots for path in _files(root)})
    names.sort(key=lambda named: hashlib.md5(named[0].encode(), usedforsecurity=False).digest())
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    for name, root in names:
        for first, rest in _new(_of_file(root / name), seen):
            pairs.append((first, rest))
            if len(pairs) == at_most:
                return pairs
    return pairs


def _new(found: Iterator[tuple[str, str]], seen: set[str]) -> Iterator[tuple[str, str]]:
    """Those that begin like no other text, a few of each file."""
    taken = 0
    for pair in found:
        keys = {text[:_TOLD_APART_BY].lower() for text in pair}
        if len(keys) == 2 and not keys & seen and taken < _PER_FILE:
            seen |= keys
            taken += 1
            yield pair


def _files(root: Path) -> Iterator[Path]:
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        is_library = root.name.endswith("-packages") or not parts[0].endswith("-packages")
        if is_library and not {"test", "tests", "idle_test", "__pycache__"} & set(parts):
            yield path


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in other people's texts
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # a file that is no Python has no docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            first, _, rest = text.partition("\n\n")
            pair = " ".join(first.split()), " ".join(rest.split())
            if text.isascii() and _is_long_enough(*pair):
                yield pair


def _is_long_enough(first: str, rest: str) -> bool:
    return len(first.split()) >= _LEAST_WORDS and len(rest.split()) >= _LEAST_BODY_WORDS
