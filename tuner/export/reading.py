"""Reads an exported document back for ``tuner verify``; whatever is wrong with the file is one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuner.export.document import EXPORT_VERSION, nested, verify_digest
from tuner.space.errors import Problems, Where
from tuner.space.yaml_source import plain, read_yaml

MAX_BYTES = 10_000_000


class ExportError(Exception):
    """The file is not an export that this version can read; the message says why."""


def read_document(path: Path) -> dict[str, Any]:
    """An exported file, YAML or JSON, with all that verifying needs. ExportError where it is not one."""
    document = _parsed(path, _text(path))
    if not isinstance(document, dict) or "tuner_export" not in document:
        raise ExportError(f"{path} is not a file that 'tuner export' wrote (it has no key tuner_export)")
    if document["tuner_export"] != EXPORT_VERSION:
        raise ExportError(
            f"{path}: tuner_export={document['tuner_export']} is another version, this program reads "
            f"{EXPORT_VERSION}; export again"
        )
    for key, (is_fitting, what) in _NEEDED.items():
        value = _at(document, key)
        if not is_fitting(value):
            found = "is missing" if value is None else f"is {json.dumps(value, default=str)[:80]}"
            raise ExportError(f"{path}: {key} {found}, and should be {what}; export again")
    _refuse_edits(path, document)
    return document


def _refuse_edits(path: Path, document: Mapping[str, Any]) -> None:
    """ExportError where what would be measured is not what was: noise would let it pass for the same."""
    is_whole = verify_digest(document["verify"]) == _at(document, "provenance.verify_sha256")
    if not is_whole or document.get("config") != nested(document["verify"]["parameters"]):
        what = "config" if is_whole else "verify"
        raise ExportError(
            f"{path}: the section {what} was edited, so the file no longer says what was measured; export again, "
            f"or measure your own values with: tuner try {document['study']} KEY=VALUE"
        )


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ExportError(
                f"{path} is larger than {MAX_BYTES:,} bytes; is it a file that 'tuner export' wrote?"
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ExportError(f"{path} is not UTF-8 text (byte {problem.start}); export again") from problem
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise ExportError(
            f"{path} cannot be read: {reason}; give a file that 'tuner export' wrote"
        ) from problem


def _parsed(path: Path, text: str) -> Any:
    """JSON, or YAML by the rules of space files, so that ``1e-4`` typed in by hand is a number."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise ExportError(f"{path} is not JSON: {problem}; export again") from problem
    problems = Problems()
    node = read_yaml(text, Where(str(path), 1), problems)
    if problems.found or node is None:
        raise ExportError(f"{problems.found[0]}; or export again")
    return plain(node)


def _at(document: Mapping[str, Any], dotted: str) -> Any:
    found: Any = document
    for key in dotted.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_runs(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(v, list) and all(map(_is_number, v)) for v in value.values()
    )


def _is_spread(value: Any) -> bool:
    wanted = {"sd", "around", "degrees"}
    return isinstance(value, dict) and all(
        isinstance(v, dict) and set(v) == wanted and all(map(_is_number, v.values())) for v in value.values()
    )


def _is_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_NEEDED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "study": (_is_text, "a name"),
    "trial": (_is_count, "a whole number"),
    "metrics": (_is_map, "a map"),
    "verify.workload.kind": (_is_text, "a kind of workload"),
    "verify.parameters": (_is_map, "a map"),
    "verify.seed": (_is_count, "a whole number"),
    "verify.judged_by": (_is_names, "a list of metrics"),
    "verify.runs": (_is_runs, "lists of numbers by metric"),
    "verify.spread": (_is_spread, "maps of sd, around and degrees by metric"),
    "verify.within": (_is_numbers, "numbers by metric"),
}
