"""What a protocol between client and server does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from trials.serving.exchange import Answer, BadAnswer, Exchange, Prompt

MODEL = "{model}"
LONGEST_QUOTE = 200


class Api(Protocol):
    """Bodies and answers of one protocol. ``path`` may hold ``{model}``; ``is_streaming`` says that an answer comes
    in pieces, so that the times of its tokens are known; ``reports_tokens`` that answers are made of tokens.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    is_streaming: ClassVar[bool]
    reports_tokens: ClassVar[bool]

    def __init__(self, model: str, extra: Mapping[str, Any]) -> None:
        """``extra`` are fields that go into every body."""

    def body(self, prompt: Prompt) -> bytes:
        """The body of a request."""
        ...

    def read(self, exchange: Exchange) -> Answer:
        """The answer of an exchange that came through with status 200; BadAnswer where it is none."""
        ...


def parsed(data: bytes, what: str = "the answer") -> Any:
    """The JSON in a body; BadAnswer where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise BadAnswer("bad_answer", f"{what} is not JSON: {quoted(data)}") from None


def quoted(data: bytes) -> str:
    """The start of a body, for a message."""
    text = data[:LONGEST_QUOTE].decode("utf-8", "replace").strip()
    return f"{text}..." if len(data) > LONGEST_QUOTE else text or "(empty)"


def encoded(fields: Mapping[str, Any]) -> bytes:
    """The fields as JSON."""
    return json.dumps(fields).encode()
