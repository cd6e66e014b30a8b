"""``--set key=value``: a dotted key into the file, and a value that is read as YAML."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.space.errors import Problems, Where
from tuner.space.yaml_source import Entry, Map, Node, read_yaml

_DOTTED = ("parameters", "baseline")  # sections whose own keys are dotted names


def apply_overrides(root: Map, overrides: Mapping[str, str], problems: Problems) -> None:
    """Put each value into the tree; a key that the language does not know is found by whoever reads its
    section.
    """
    for key, text in overrides.items():
        where = Where(f"--set {key}={text}", None)
        value = read_yaml(text, where, problems)
        parts = [part.strip() for part in key.split(".")]
        if not all(parts):
            problems.add(where, f"{key!r} is no key of the file", "write --set budget.trials=10")
        elif value is not None:
            _put(root, parts, value, where, is_dotted=False, problems=problems)


def _put(
    node: Map, parts: list[str], value: Node, where: Where, *, is_dotted: bool, problems: Problems
) -> None:
    """Descend along the longest key that is there (``task.learning_rate`` may be one key), and create the
    rest.
    """
    for length in range(len(parts), 0, -1):
        entry = node.get(".".join(parts[:length]))
        if entry is None:
            continue
        rest = parts[length:]
        if not rest:
            entry.node, entry.where = value, where
        elif isinstance(entry.node, Map):
            below = is_dotted or entry.key in _DOTTED
            _put(entry.node, rest, value, where, is_dotted=below, problems=problems)
        else:
            problems.add(
                where,
                f"{entry.key} is not a map, so it has no {'.'.join(rest)}",
                f"set {entry.key} as a whole",
            )
        return
    node.entries.append(_created(parts, value, where, is_dotted=is_dotted))


def _created(parts: list[str], value: Node, where: Where, *, is_dotted: bool) -> Entry:
    if is_dotted or len(parts) == 1:
        return Entry(".".join(parts), ".".join(parts), where, value)
    below = _created(parts[1:], value, where, is_dotted=parts[0] in _DOTTED)
    return Entry(parts[0], parts[0], where, Map([below], where))
