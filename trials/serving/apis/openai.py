"""OpenAI-compatible completions, chat and embeddings (https://platform.openai.com/docs/api-reference)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from trials.serving.apis.base import encoded, parsed, quoted
from trials.serving.apis.events import events
from trials.serving.exchange import Answer, BadAnswer, Exchange, Prompt

DONE = b"[DONE]"


class _Streamed:
    """What completions and chat share: a stream of events, closed by ``[DONE]``, with the usage before it."""

    is_streaming: ClassVar[bool] = True
    reports_tokens: ClassVar[bool] = True

    def __init__(self, model: str, extra: Mapping[str, Any]) -> None:
        self._fields = {
            **({"model": model} if model else {}),
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            **extra,
        }

    def body(self, prompt: Prompt) -> bytes:
        """The request; a prompt that is a body of its own is sent with the common fields around it."""
        limit = {} if prompt.output_tokens is None else {"max_tokens": prompt.output_tokens}
        own = prompt.body if isinstance(prompt.body, Mapping) else self._question(prompt)
        return encoded({**self._fields, **limit, **own})

    def read(self, exchange: Exchange) -> Answer:
        """Text, tokens and arrivals; a stream without its end, or with wrong counts, is no answer."""
        pieces: list[str] = []
        arrivals: list[float] = []
        usage: Mapping[str, Any] = {}
        is_done = False
        for at_s, data in events(exchange.chunks):
            if data == DONE:
                is_done = True
                break
            event = _event(data)
            usage = event.get("usage") or usage
            piece = self._piece(event, data)
            if piece:
                pieces.append(piece)
                arrivals.append(at_s)
        if not is_done:
            raise BadAnswer(
                "cut_stream", f"the stream ended without {DONE.decode()} after {len(pieces)} pieces"
            )
        return _answer(exchange.prompt, "".join(pieces), arrivals, usage)

    def _question(self, prompt: Prompt) -> dict[str, Any]:
        raise NotImplementedError

    def _piece(self, event: Mapping[str, Any], data: bytes) -> str:
        choices = event.get("choices")
        if not choices:
            return ""  # the event with the usage has no choice
        text = self._text(choices[0]) if isinstance(choices, list) and isinstance(choices[0], Mapping) else 0
        if not isinstance(text, str | None):
            raise BadAnswer("bad_answer", f"an event without text: {quoted(data)}")
        return text or ""

    def _text(self, choice: Mapping[str, Any]) -> Any:
        raise NotImplementedError


class Completions(_Streamed):
    """A text is continued."""

    name: ClassVar[str] = "openai"
    path: ClassVar[str] = "/v1/completions"

    def _question(self, prompt: Prompt) -> dict[str, Any]:
        return {"prompt": prompt.text}

    def _text(self, choice: Mapping[str, Any]) -> Any:
        return choice.get("text")


class Chat(_Streamed):
    """Messages are answered."""

    name: ClassVar[str] = "openai_chat"
    path: ClassVar[str] = "/v1/chat/completions"

    def _question(self, prompt: Prompt) -> dict[str, Any]:
        messages = prompt.messages or ({"role": "user", "content": prompt.text},)
        return {"messages": list(messages)}

    def _text(self, choice: Mapping[str, Any]) -> Any:
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return 0  # no text: an event of another protocol
        return delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning")


class Embeddings:
    """A text becomes a vector."""

    name: ClassVar[str] = "openai_embeddings"
    path: ClassVar[str] = "/v1/embeddings"
    is_streaming: ClassVar[bool] = False
    reports_tokens: ClassVar[bool] = False

    def __init__(self, model: str, extra: Mapping[str, Any]) -> None:
        self._fields = {**({"model": model} if model else {}), **extra}

    def body(self, prompt: Prompt) -> bytes:
        """The request."""
        own = prompt.body if isinstance(prompt.body, Mapping) else {"input": prompt.text}
        return encoded({**self._fields, **own})

    def read(self, exchange: Exchange) -> Answer:
        """The vectors, as ``value``."""
        found = parsed(exchange.body)
        try:
            vectors = [list(map(float, row["embedding"])) for row in found["data"]]
        except (KeyError, TypeError, ValueError):
            vectors = []
        if not vectors or not all(vectors):
            raise BadAnswer("bad_answer", f"no embedding: {quoted(exchange.body)}")
        return Answer(value=vectors)


def _event(data: bytes) -> Mapping[str, Any]:
    event = parsed(data, "an event of the stream")
    if not isinstance(event, Mapping):
        raise BadAnswer("bad_answer", f"an event that is no object: {quoted(data)}")
    if event.get("error"):
        raise BadAnswer("server_error", f"the server broke off: {quoted(data)}")
    return event


def _answer(prompt: Prompt, text: str, arrivals: list[float], usage: Mapping[str, Any]) -> Answer:
    """The server's own count where it gives one that can be true; else one token for each piece."""
    said, asked = usage.get("completion_tokens"), usage.get("prompt_tokens")
    if said is None:
        if not arrivals:
            raise BadAnswer("bad_answer", "an answer without text, and without a count of its tokens")
        return Answer(text, None, len(arrivals), None, arrivals, "pieces of the stream")
    if isinstance(said, bool) or not isinstance(said, int) or said < 1:
        raise BadAnswer("bad_answer", f"the server counts completion_tokens={said!r} for {text[:60]!r}")
    if said < len(arrivals) or (prompt.output_tokens is not None and said > prompt.output_tokens):
        limit = "no limit" if prompt.output_tokens is None else f"at most {prompt.output_tokens}"
        raise BadAnswer(
            "token_count",
            f"the server counts {said} tokens in {len(arrivals)} pieces, where {limit} was asked for",
        )
    return Answer(text, None, said, asked if isinstance(asked, int) else None, arrivals, "the server's usage")
