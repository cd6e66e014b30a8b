"""A winner as something that runs elsewhere: one module per target, each ``render(document) -> str``.

Another package adds a target by an entry point of the group ``tuner.exporters``: name = "its.module:render".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tuner.export.errors import TargetError

Renderer = Callable[[Mapping[str, Any]], str]

_SHIPPED = {
    "yaml": "tuner.export.plain:render_yaml",
    "json": "tuner.export.plain:render_json",
    "torchrun": "tuner.export.torchrun:render",
    "vllm": "tuner.export.vllm:render_vllm",
}
ENTRY_POINT_GROUP = "tuner.exporters"
_HEADS = (
    "tuner_export:",
    '{\n  "tuner_export":',
    "number,outcome,failure_kind,",
    "# vllm serve --config FILE:",
)
_OF_A_SCRIPT = "train it again with tuner's own loop"


def is_export(head: str) -> bool:
    """Whether a file that begins so was written by an export of this program (not by a plugin of it)."""
    return head.startswith(_HEADS) or _OF_A_SCRIPT in head


def target_names() -> list[str]:
    """The targets that ``--to`` takes, plugins included."""
    return sorted(_targets())


def render(target: str, document: Mapping[str, Any]) -> str:
    """The document as text of a target. TargetError where there is none, or a plugin fails."""
    if target not in _targets():
        raise TargetError(f"no such format; there are {', '.join(target_names())}")
    place = _targets()[target]
    module, _, name = place.partition(":")
    try:
        renderer: Renderer = getattr(importlib.import_module(module), name)
        return renderer(document)
    except TargetError:
        raise
    except Exception as problem:
        if target in _SHIPPED:
            raise
        raise TargetError(f"the plugin {place} failed: {type(problem).__name__}: {problem}") from problem


def _targets() -> dict[str, str]:
    from importlib.metadata import entry_points

    plugins = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return plugins | _SHIPPED


__all__ = ["TargetError", "is_export", "render", "target_names"]
