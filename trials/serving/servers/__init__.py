"""The kinds of server: one file each. Another package adds one by an entry point of the group ``tuner.servers``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache

from trials.serving.servers.base import Launch, Server

_SHIPPED = {
    "custom": "trials.serving.servers.custom:CustomServer",
    "vllm": "trials.serving.servers.vllm:VllmServer",
}
ENTRY_POINT_GROUP = "tuner.servers"


def server_names() -> list[str]:
    """The words that ``server:`` takes, plugins included."""
    return sorted({*_SHIPPED, *_plugins()})


def server(name: str) -> Server:
    """The server of that name; KeyError where there is none."""
    module, _, cls = (_SHIPPED.get(name) or _plugins()[name]).partition(":")
    made: Server = getattr(importlib.import_module(module), cls)()
    return made


@cache
def _plugins() -> Mapping[str, str]:
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}


__all__ = ["Launch", "Server", "server", "server_names"]
