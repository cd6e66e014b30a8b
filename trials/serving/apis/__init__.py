"""How requests are written and answers read: one file a protocol, each a class with the methods of ``base.Api``."""

from __future__ import annotations

from trials.serving.apis.base import Api
from trials.serving.apis.kserve import KServe
from trials.serving.apis.openai import Chat, Completions, Embeddings
from trials.serving.apis.plain import PlainHttp

_APIS: dict[str, type[Api]] = {api.name: api for api in (Completions, Chat, Embeddings, KServe, PlainHttp)}


def api_names() -> list[str]:
    """The words that ``api:`` takes."""
    return sorted(_APIS)


def api(name: str) -> type[Api]:
    """The protocol of that name; KeyError where there is none."""
    return _APIS[name]


__all__ = ["Api", "api", "api_names"]
