"""The load generator against a server of known delay: what it adds, whether a stall shows, where it ends.

``python -m tests.benchmarks.load_generator``: about a minute; on a quiet machine with two cores. Three parts:

added     an open loop at 500 requests/s against 10 ms: latency beyond the delay (p99 around 1 ms is a good mark)
stall     the same, with one stall of 1 s: the share of requests that it delayed, against the share that must be
ceiling   closed loops of 32 and 64 clients against no delay, in one process and in two: requests/s (2,000 is a
          good mark); then an open loop beyond the ceiling, where the flag must raise
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trials.measurement.statistics import quantile
from trials.serving import report
from trials.serving.client import Target
from trials.serving.event_loop import run
from trials.serving.load_settings import Load, PromptSettings
from trials.serving.loading import Loader
from trials.serving.process import ask_health, free_port
from trials.serving.window import Window

PROMPTS = PromptSettings(("hello",))
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"ok":true}'


class _Answering(asyncio.Protocol):
    """Answers every request after a delay; the stub of the tests would cost more than the client does."""

    delay_s = 0.0
    stall: tuple[float, float] | None = None  # from when to when (monotonic clock) nothing is answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        wait_s, now = self.delay_s, time.monotonic()
        if self.stall and self.stall[0] <= now < self.stall[1] and b"POST" in data:
            wait_s += self.stall[1] - now
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self._transport.write, ANSWER)  # type: ignore[attr-defined]
        else:
            self._transport.write(ANSWER)  # type: ignore[attr-defined]


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


@contextmanager
def answering(delay_s: float, stall: tuple[float, float] | None = None) -> Iterator[str]:
    """The URL of a server in a process of its own."""
    port = free_port()
    edges = [] if stall is None else [str(edge) for edge in stall]
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.load_generator",
        "--serve",
        str(port),
        str(delay_s),
        *edges,
    ]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root) as process:
        try:
            while ask_health(f"http://127.0.0.1:{port}/", 1.0):
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.kill()


def loaded(url: str, load: Load) -> Window | None:
    """One window of load."""
    loader = Loader(Target(url), "http", "", 0, load.client_processes)
    try:
        return loader.window(load, 30.0)[0]
    finally:
        loader.close()


def added(delay_s: float = 0.01) -> str:
    """Latency beyond the server's delay."""
    with answering(delay_s) as url:
        window = loaded(url, Load(PROMPTS, rate=500.0, duration_s=10.0, warmup_requests=200))
    assert window is not None
    beyond = [one.latency_ms - 1000 * delay_s for one in window.served]
    shares = ", ".join(f"p{percent} {quantile(beyond, percent / 100):.2f} ms" for percent in (50, 90, 99))
    return f"added at 500 requests/s: {shares} ({len(beyond)} requests)"


def stall(stall_s: float = 1.0) -> str:
    """A stall of 1 s in 10 s at 200/s delays the 200 requests that come in it: by 0.5 s and more the first half."""
    begin = time.monotonic() + 6.0
    with answering(0.01, (begin, begin + stall_s)) as url:
        time.sleep(max(0.0, begin - 3.0 - time.monotonic()))
        window = loaded(url, Load(PROMPTS, rate=200.0, duration_s=10.0, warmup_requests=20))
    assert window is not None
    late = sum(one.latency_ms >= 10 + 500 * stall_s for one in window.served)
    longest = max(one.latency_ms for one in window.served)
    return (
        f"stall of {stall_s:g} s: {late} requests were late by half of it or more "
        f"({200 * stall_s / 2:.0f} came in its first half), the longest took {longest:.0f} ms"
    )


def ceiling() -> Iterator[str]:
    """Requests per second that the generator can make, and whether it says when it cannot."""
    with answering(0.0) as url:
        for processes, clients in ((1, 32), (1, 64), (2, 64)):
            load = Load(PROMPTS, concurrency=clients, duration_s=5.0, client_processes=processes)
            window = loaded(url, load)
            assert window is not None
            rate = len(window.in_time) / window.seconds
            yield f"ceiling, {processes} process(es), {clients} clients: {rate:,.0f} requests/s"
        window = loaded(url, Load(PROMPTS, rate=30_000.0, requests=60_000, warmup_requests=0))
        said = "gave the load up" if window is None else report.saturation(window) or "MISSED IT"
        yield f"open loop at 30,000/s: {said}"


def main() -> None:
    """Every part, one line each."""
    print(added(), flush=True)
    print(stall(), flush=True)
    for line in ceiling():
        print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        port, delay, *edges = sys.argv[2:]
        _Answering.delay_s = float(delay)
        _Answering.stall = (float(edges[0]), float(edges[1])) if edges else None
        run(_serve(int(port)))
    else:
        main()
