"""A winner as something that runs elsewhere: one module per target, each ``render(document) -> str``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

Renderer = Callable[[Mapping[str, Any]], str]

_SHIPPED = {
    "yaml": "tuner.export.plain:render_yaml",
    "json": "tuner.export.plain:render_json",
}
ENTRY_POINT_GROUP = "tuner.exporters"


def target_names() -> list[str]:
    """The targets that ``--to`` takes, plugins included."""
    return sorted(_targets())


def renderer(target: str) -> Renderer:
    """The function that writes a document for a target; KeyError where there is none."""
    module, _, name = _targets()[target].partition(":")
    found: Renderer = getattr(importlib.import_module(module), name)
    return found


def _targets() -> dict[str, str]:
    from importlib.metadata import entry_points

    return _SHIPPED | {entry.name: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}
