"""One request and what came back: raw while the load runs, read afterwards, so that reading costs no window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prompt:
    """What one request asks: a text, messages of a chat, or a body that is sent as it is.

    ``output_tokens`` is the most that may be answered; ``answer`` what a right server says, where that is known.
    ``follow_ups`` are the user's later turns of the same conversation.
    """

    text: str = ""
    messages: tuple[Mapping[str, str], ...] = ()
    body: Any = None
    output_tokens: int | None = None
    answer: Any = None
    follow_ups: tuple[str, ...] = ()


@dataclass(slots=True)
class Exchange:
    """One request. Times are seconds of the monotonic clock; ``ended_s`` is None where it was not waited for.

    ``error`` is a word for what went wrong on the way (``refused``, ``disconnected``, ``timeout``, ``too_long``),
    ``chunks`` the body as it arrived.
    """

    prompt: Prompt
    scheduled_s: float
    sent_s: float
    is_counted: bool = True
    status: int = 0
    error: str = ""
    message: str = ""
    ended_s: float | None = None
    chunks: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(data for _, data in self.chunks)


@dataclass(frozen=True)
class Answer:
    """A body as read: text or parsed value, how many tokens, when each piece of text arrived.

    ``tokens`` is None where the server does not say and it cannot be counted; ``tokens_by`` says who counted.
    """

    text: str = ""
    value: Any = None
    tokens: int | None = None
    prompt_tokens: int | None = None
    arrivals_s: Sequence[float] = ()
    tokens_by: str = ""


class BadAnswer(Exception):  # noqa: N818 - an outcome of one request, not a programming error
    """An answer that is none: ``kind`` is a word to count by, the message is for the reader."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message
