"""Sends requests and keeps what comes back, raw and with its times. Nothing is read while the load runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

import aiohttp

from trials.serving.exchange import Exchange, Prompt

LARGEST_BODY_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Target:
    """Where requests go: the whole URL, and headers beyond the usual."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Client:
    """As many connections as there are requests at once, kept open between them; an async context."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        self._url = target.url
        # identity: a compressed answer would come in other pieces, and cost time to unpack
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **target.headers}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            headers=headers,
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def send(self, exchange: Exchange, body: bytes) -> Exchange:
        """Post the body and fill the exchange; whatever goes wrong is noted in it."""
        exchange.sent_s = time.monotonic()
        try:
            async with self._session.post(self._url, data=body, allow_redirects=False) as response:
                exchange.status = response.status
                await _receive(response, exchange)
        except (TimeoutError, aiohttp.ServerTimeoutError):
            exchange.error, exchange.message = "timeout", "no whole answer in time"
        except (aiohttp.ClientConnectorError, ConnectionRefusedError) as problem:
            exchange.error, exchange.message = "refused", str(problem)
        except (aiohttp.ClientError, OSError) as problem:
            # http.client's words for half an answer, a torn header or a closed connection differ; the effect is one
            exchange.error, exchange.message = "disconnected", f"{type(problem).__name__}: {problem}"
        exchange.ended_s = time.monotonic()
        return exchange


async def _receive(response: aiohttp.ClientResponse, exchange: Exchange) -> None:
    size = 0
    async for data in response.content.iter_any():
        exchange.chunks.append((time.monotonic(), data))
        size += len(data)
        if size > LARGEST_BODY_BYTES:
            exchange.error = "too_long"
            exchange.message = f"an answer of more than {LARGEST_BODY_BYTES} bytes"
            response.close()
            return


def fresh_exchange(prompt: Prompt, scheduled_s: float, *, is_counted: bool = True) -> Exchange:
    """An exchange that is about to be sent."""
    return Exchange(prompt, scheduled_s, scheduled_s, is_counted)


async def ask_all(
    target: Target, bodies: list[tuple[Prompt, bytes]], at_once: int, timeout_s: float
) -> list[Exchange]:
    """Send every body, so many at once, and wait for all answers, in the order of the bodies."""
    gate = asyncio.Semaphore(at_once)
    async with Client(target, timeout_s) as client:

        async def one(prompt: Prompt, body: bytes) -> Exchange:
            async with gate:
                return await client.send(fresh_exchange(prompt, time.monotonic()), body)

        return list(await asyncio.gather(*(one(prompt, body) for prompt, body in bodies)))
