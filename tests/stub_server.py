"""A server of known behaviour, for tests of serving trials: delays, capacity, quality and faults on its command line.

Standard library only. Speaks OpenAI completions, chat and embeddings, KServe v2 and plain HTTP on one port. Every
request waits for one of ``--slots`` places, then for ``--delay-ms`` and, where it streams, ``--token-ms`` a token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

FAULTS = (
    "none", "http_500", "nonsense", "half_stream", "drip", "wrong_counts", "die_under_load", "kill_itself",
    "hang_in_health", "never_well", "die_at_start", "no_logprobs",
)  # fmt: skip
TOKEN = "word "


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="stub")
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--token-ms", type=float, default=0)
    parser.add_argument("--slots", type=int, default=10_000)
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--after", type=int, default=0, help="the fault begins with this request")
    parser.add_argument("--stall-at", type=int, default=-1, help="at this request everything stops once")
    parser.add_argument("--stall-s", type=float, default=0)
    parser.add_argument("--loss", type=float, default=2.0, help="nats of every token of a prompt")
    parser.add_argument("--wrong", type=float, default=0.0, help="share of questions answered wrongly")
    parser.add_argument("--stubborn-child", action="store_true", help="leave a child that ignores SIGTERM")
    parser.add_argument("--pids", default="", help="file that the process numbers are written to")
    return parser.parse_args()


class Stub:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.slots = asyncio.Semaphore(given.slots)
        self.count = 0
        self.stalled_until = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                path, body = request
                if not await self.answer(path, body, writer):
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def answer(self, path: str, body: Any, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open."""
        if path == "/health":
            return await self.health(writer)
        number, self.count = self.count, self.count + 1
        fault = self.given.fault if number >= self.given.after else "none"
        if fault == "die_under_load":
            print("the stub dies under load", flush=True)
            os._exit(3)
        if fault == "kill_itself":
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.given.stall_at:
            self.stalled_until = time.monotonic() + self.given.stall_s
        async with self.slots:
            await asyncio.sleep(max(0.0, self.stalled_until - time.monotonic()) + self.given.delay_ms / 1000)
            if fault == "http_500":
                await whole(writer, b'{"error": "the stub broke"}', 500)
            elif fault == "nonsense":
                await whole(writer, b"<html>it works!</html>")
            elif path.endswith("completions") and body.get("stream"):
                return await self.stream(path, body, fault, writer)
            else:
                await whole(writer, json.dumps(self.value(path, body, fault)).encode())
        return True

    async def health(self, writer: asyncio.StreamWriter) -> bool:
        if self.given.fault == "hang_in_health":
            await asyncio.sleep(3600)
        await whole(writer, b"{}", 503 if self.given.fault == "never_well" else 200)
        return True

    async def stream(self, path: str, body: Any, fault: str, writer: asyncio.StreamWriter) -> bool:
        tokens = body.get("max_tokens") or 4
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        texts = [TOKEN] * tokens
        if "answer" in body:  # a question with a known answer: said whole, in one token
            texts = [str(body["answer"])]
        for number, text in enumerate(texts):
            if fault == "half_stream" and number == max(1, len(texts) // 2):
                return False
            if number:
                await asyncio.sleep(self.given.token_ms / 1000)
            part = {"delta": {"content": text}} if "chat" in path else {"text": text}
            await event(writer, json.dumps({"choices": [part]}).encode(), drip=fault == "drip")
        counted = len(texts) * (10 if fault == "wrong_counts" else 1)
        usage = {"completion_tokens": counted, "prompt_tokens": len(str(body.get("prompt", "")).split())}
        await event(writer, json.dumps({"choices": [], "usage": usage}).encode())
        await event(writer, b"[DONE]")
        await chunk(writer, b"")
        return True

    def value(self, path: str, body: Any, fault: str) -> Any:
        """The answer of requests that are not streamed."""
        if path.endswith("completions"):
            return self.echo(body, fault)
        if path.endswith("embeddings"):
            return {"data": [{"embedding": embedding(str(body["input"]))}]}
        if "/v2/models/" in path:
            return {
                "outputs": [{"name": "label", "datatype": "INT64", "shape": [1], "data": [self.label(body)]}]
            }
        return self.label(body)

    def echo(self, body: Any, fault: str) -> Any:
        words = str(body["prompt"]).split(" ")
        offsets = [sum(len(word) + 1 for word in words[:number]) for number in range(len(words))]
        values = [None, *[-self.given.loss] * (len(words) - 1)]
        if "right" in words[-1]:
            values[-1] = -0.01
        logprobs = {"token_logprobs": [*values, -9.9], "text_offset": [*offsets, len(body["prompt"])]}
        return {
            "choices": [{"text": "x", "logprobs": None if fault == "no_logprobs" else logprobs}],
            "usage": {"prompt_tokens": len(words), "completion_tokens": 1},
        }

    def label(self, body: Any) -> int:
        """The number in the body, one off for the share of questions that are answered wrongly."""
        number = int(body.get("number", 0))
        return number + (number % 100 < 100 * self.given.wrong)


def embedding(text: str) -> list[float]:
    vector = [0.0] * 26
    for letter in text.lower():
        if "a" <= letter <= "z":
            vector[ord(letter) - ord("a")] += 1
    return vector


async def read_request(reader: asyncio.StreamReader) -> tuple[str, Any] | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    line, *fields = head.decode().split("\r\n")
    length = next((int(f.split(":")[1]) for f in fields if f.lower().startswith("content-length")), 0)
    body = json.loads(await reader.readexactly(length)) if length else {}
    return line.split(" ")[1], body


async def whole(writer: asyncio.StreamWriter, body: bytes, status: int = 200) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def event(writer: asyncio.StreamWriter, data: bytes, *, drip: bool = False) -> None:
    text = b"data: " + data + b"\n\n"
    for part in [text[i : i + 1] for i in range(len(text))] if drip else [text]:
        await chunk(writer, part)
        if drip:
            await asyncio.sleep(0.05)


async def chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


def leave_child() -> int:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
        os._exit(0)
    return child


async def main(given: argparse.Namespace) -> None:
    server = await asyncio.start_server(quiet(Stub(given).serve), "127.0.0.1", given.port, backlog=4096)
    print("the stub listens", flush=True)
    await server.serve_forever()


def quiet(serve: Any) -> Any:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()

    return handle


if __name__ == "__main__":
    chosen = options()
    pids = [os.getpid()]
    if chosen.stubborn_child:
        pids.append(leave_child())
    if chosen.pids:
        with open(chosen.pids, "w") as stream:  # noqa: PTH123 - no pathlib: it starts sooner
            stream.write(" ".join(map(str, pids)))
    if chosen.fault == "die_at_start":
        sys.exit("the stub cannot start: no such model")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(main(chosen))
