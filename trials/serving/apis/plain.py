"""Any HTTP service: a body is posted, and what comes back with status 200 is the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from trials.serving.apis.base import encoded
from trials.serving.exchange import Answer, Exchange, Prompt


class PlainHttp:
    """A prompt's body is posted as JSON; a text as ``{"text": ...}``."""

    name: ClassVar[str] = "http"
    path: ClassVar[str] = "/"
    is_streaming: ClassVar[bool] = False
    reports_tokens: ClassVar[bool] = False

    def __init__(self, model: str, extra: Mapping[str, Any]) -> None:
        self._extra = dict(extra)

    def body(self, prompt: Prompt) -> bytes:
        """The request."""
        if prompt.body is not None and not isinstance(prompt.body, Mapping):
            return json.dumps(prompt.body).encode()
        return encoded({**self._extra, **(prompt.body or {"text": prompt.text})})

    def read(self, exchange: Exchange) -> Answer:
        """The text, and as ``value`` what it is as JSON, where it is JSON."""
        text = exchange.body.decode("utf-8", "replace")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        return Answer(text=text, value=value)
