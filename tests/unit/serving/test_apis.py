"""Bodies and answers of every protocol, and what is no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trials.serving.apis import api, api_names
from trials.serving.apis.events import events
from trials.serving.exchange import Answer, BadAnswer, Exchange, Prompt


def exchange(*chunks: bytes, prompt: Prompt | None = None) -> Exchange:
    made = Exchange(prompt or Prompt(text="q", output_tokens=8), 0.0, 0.0)
    made.chunks = [(float(number), chunk) for number, chunk in enumerate(chunks)]
    made.status, made.ended_s = 200, float(len(chunks))
    return made


def sse(*data: Any) -> list[bytes]:
    return [f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n".encode() for one in data]


def read(name: str, *chunks: bytes, prompt: Prompt | None = None) -> Answer:
    return api(name)("m", {}).read(exchange(*chunks, prompt=prompt))


def bad(name: str, *chunks: bytes, prompt: Prompt | None = None) -> str:
    with pytest.raises(BadAnswer) as caught:
        read(name, *chunks, prompt=prompt)
    return caught.value.kind


def piece(text: str) -> dict[str, Any]:
    return {"choices": [{"text": text}]}


USAGE = {"choices": [], "usage": {"completion_tokens": 2, "prompt_tokens": 5}}


def test_every_protocol_has_a_file_and_a_path() -> None:
    assert api_names() == ["http", "kserve", "openai", "openai_chat", "openai_embeddings"]
    assert all(api(name).path.startswith("/") for name in api_names())


def test_an_event_counts_from_the_piece_that_completes_it() -> None:
    whole = b'data: {"a": 1}\r\n\r\n: comment\n\ndata: x\ndata: y\n\ndata: unfinished'
    for size in (1, 3, 7, len(whole)):
        pieces = [(float(at), whole[at : at + size]) for at in range(0, len(whole), size)]
        found = list(events(pieces))
        assert [data for _, data in found] == [b'{"a": 1}', b"x\ny"]
        end = whole.index(b"\r\n\r\n") + 3
        assert found[0][0] == end // size * size


def test_a_stream_is_read_with_the_time_of_each_piece() -> None:
    answer = read("openai", *sse(piece("a"), piece("b"), USAGE, "[DONE]"))
    assert (answer.text, answer.tokens, answer.prompt_tokens) == ("ab", 2, 5)
    assert list(answer.arrivals_s) == [0.0, 1.0]
    assert answer.tokens_by == "the server's usage"


def test_without_a_count_every_piece_is_a_token() -> None:
    answer = read("openai", *sse(piece("a"), piece(""), piece("b"), "[DONE]"))
    assert (answer.tokens, answer.tokens_by) == (2, "pieces of the stream")


def test_chat_reads_content_and_reasoning() -> None:
    deltas = [{"role": "assistant"}, {"reasoning_content": "hm "}, {"content": "a"}, {}]
    answer = read("openai_chat", *sse(*({"choices": [{"delta": one}]} for one in deltas), "[DONE]"))
    assert (answer.text, answer.tokens) == ("hm a", 2)


def test_what_is_no_stream_is_no_answer() -> None:
    assert bad("openai", *sse(piece("a"))) == "cut_stream"
    assert bad("openai", b"<html>") == "cut_stream"
    assert bad("openai", *sse("{", "[DONE]")) == "bad_answer"
    assert bad("openai", *sse({"error": {"message": "out of memory"}})) == "server_error"
    assert bad("openai", *sse({"choices": [{"text": 3}]}, "[DONE]")) == "bad_answer"
    assert bad("openai_chat", *sse(piece("a"), "[DONE]")) == "bad_answer"
    assert bad("openai", *sse("[DONE]")) == "bad_answer"


@pytest.mark.parametrize("counted", [1, 9, 0, -1, "2", True])
def test_a_count_that_cannot_be_true_is_no_answer(counted: Any) -> None:
    usage = {"choices": [], "usage": {"completion_tokens": counted}}
    kind = bad("openai", *sse(piece("a"), piece("b"), usage, "[DONE]"))
    assert kind == ("token_count" if counted in (1, 9) and counted is not True else "bad_answer")


def test_several_tokens_may_come_in_one_piece() -> None:
    usage = {"choices": [], "usage": {"completion_tokens": 6}}
    assert read("openai", *sse(piece("abc"), piece("def"), usage, "[DONE]")).tokens == 6


def body(name: str, prompt: Prompt, **extra: Any) -> Any:
    return json.loads(api(name)("m", extra).body(prompt))


def test_bodies_carry_model_limit_and_extra_fields() -> None:
    text = body("openai", Prompt(text="q", output_tokens=8), ignore_eos=True)
    assert (text["prompt"], text["max_tokens"], text["ignore_eos"], text["stream"]) == ("q", 8, True, True)
    assert body("openai", Prompt(text="q"), temperature=0.5)["temperature"] == 0.5
    assert body("openai_chat", Prompt(text="q"))["messages"] == [{"role": "user", "content": "q"}]
    assert body("openai_embeddings", Prompt(text="q")) == {"model": "m", "input": "q"}
    assert body("kserve", Prompt(body={"inputs": []})) == {"inputs": []}
    assert body("kserve", Prompt(text="q"))["inputs"][0]["data"] == ["q"]
    assert body("http", Prompt(body=[1, 2])) == [1, 2]
    assert body("http", Prompt(text="q"), k=3) == {"k": 3, "text": "q"}


def test_whole_answers_are_read_as_values() -> None:
    outputs = json.dumps({"outputs": [{"name": "y", "data": [1, 2]}]}).encode()
    assert read("kserve", outputs[:9], outputs[9:]).value == {"y": [1, 2]}
    assert read("http", b"[3]").value == [3]
    assert read("http", b"plain").text == "plain"
    assert read("openai_embeddings", b'{"data": [{"embedding": [1, 0]}]}').value == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("kserve", b"{}"), ("kserve", b'{"outputs": [{"name": "y"}]}'), ("kserve", b"nonsense"),
        ("openai_embeddings", b'{"data": []}'), ("openai_embeddings", b'{"data": [{"embedding": []}]}'),
    ],
)  # fmt: skip
def test_nonsense_is_no_answer(name: str, data: bytes) -> None:
    assert bad(name, data) == "bad_answer"
