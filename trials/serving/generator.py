"""The load of one process: closed loop (each client waits for its answer) or open loop (requests come by the clock).

Latency in an open loop counts from the scheduled time: a server that stalls delays what is behind it, and that
shows (no coordinated omission). Ramp and drain lie outside the window; in an open loop the load goes on until
every counted request has ended, because a server without new requests would finish the last ones faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from trials.serving import event_loop
from trials.serving.apis import Api, api
from trials.serving.client import Client, Target, fresh_exchange
from trials.serving.exchange import BadAnswer, Exchange, Prompt
from trials.serving.load_settings import MEASURED_PER_CLIENT, Load
from trials.serving.prompts import Prompts
from trials.serving.schedule import Arrival, poisson, read_trace

SETTLE_S = 10.0
"""How long requests outside the window are waited for; a server busy with them would disturb what comes next."""
REFUSALS = 3
"""After so many refused connections in a row nobody is there any more."""
HOPELESS_S = 2.0
"""A generator so far behind its schedule will not catch up, and what waits to be sent would fill the memory."""
SATURATED = "the load generator was saturated"
_HEARTBEAT_S = 0.05
_LONGEST_WINDOW = 3.0
"""A closed window that lacks requests grows up to so many times its duration."""


@dataclass(frozen=True)
class Phase:
    """One stretch of load, the same for every process that makes it. ``first`` is the number of its first prompt,
    ``start_s`` the common start (monotonic clock), ``drain_s`` how long counted requests are waited for.
    """

    target: Target
    api: str
    model: str
    load: Load
    seed: int
    first: int
    start_s: float
    drain_s: float


@dataclass
class Recording:
    """What one process saw. ``end_s`` is None where the window was not filled, and ``cut`` says why."""

    exchanges: list[Exchange] = field(default_factory=list)
    begin_s: float | None = None
    end_s: float | None = None
    cut: str = ""
    lags_s: list[float] = field(default_factory=list)
    cpu_share: float = 0.0


def make_load(phase: Phase, share: int = 0, shares: int = 1) -> Recording:
    """Make this process's share of the load, from start to drain."""
    gc.collect()
    gc.disable()  # a collection would show as a stall of the server
    begin, cpu = time.monotonic(), time.process_time()
    try:
        recording = event_loop.run(_Generator(phase, share, shares).run())
    finally:
        gc.enable()
    recording.cpu_share = (time.process_time() - cpu) / max(1e-9, time.monotonic() - begin)
    return recording


class _Generator:
    """Makes one process's share of a phase."""

    def __init__(self, phase: Phase, share: int, shares: int) -> None:
        self._phase, self._share, self._shares = phase, share, shares
        self._load = phase.load
        self._api: Api = api(phase.api)(phase.model, phase.load.prompts.extra)
        self._prompts = Prompts(phase.load.prompts, phase.seed)
        self._recording = Recording()
        self._done = asyncio.Event()
        self._refused = self._unanswered = self._ended = self._counted = 0

    async def run(self) -> Recording:
        async with Client(self._phase.target, self._load.request_timeout_s) as self._client:
            heart = asyncio.create_task(self._beat())
            await _sleep_until(self._phase.start_s)
            await (self._open() if self._load.is_open else self._closed())
            heart.cancel()
        return self._recording

    async def _beat(self) -> None:
        """Notes how late this process wakes up: its own delay, which is none of the server's."""
        while True:
            due = time.monotonic() + _HEARTBEAT_S
            await asyncio.sleep(_HEARTBEAT_S)
            self._recording.lags_s.append(max(0.0, time.monotonic() - due))

    async def _ask(self, prompt: Prompt, body: bytes, scheduled_s: float, *, is_counted: bool = True) -> None:
        """One request, and the later turns of its conversation."""
        exchange = fresh_exchange(prompt, scheduled_s, is_counted=is_counted)
        await self._send(exchange, body)
        for user in prompt.follow_ups:
            following = None if self._done.is_set() else self._next_turn(exchange, user)
            if following is None:
                return
            self._counted += is_counted  # before the pause, so that the load goes on until it has ended
            await asyncio.sleep(self._load.prompts.think_time_s)
            exchange = fresh_exchange(following, time.monotonic(), is_counted=is_counted)
            await self._send(exchange, self._api.body(following))

    async def _send(self, exchange: Exchange, body: bytes) -> None:
        self._recording.exchanges.append(exchange)
        await self._client.send(exchange, body)
        self._give_up_on_silence(exchange)
        self._after(exchange)

    def _give_up_on_silence(self, exchange: Exchange) -> None:
        """Nobody listens any more, or nobody has answered anything: waiting for the rest would tell no more."""
        self._refused = self._refused + 1 if exchange.error == "refused" else 0
        if self._unanswered >= 0:
            self._unanswered = self._unanswered + 1 if exchange.error == "timeout" else -1
        why = ""
        if self._refused >= REFUSALS:
            why = exchange.message
        elif self._unanswered >= max(REFUSALS, self._load.concurrency or 0):
            limit_s = self._load.request_timeout_s
            why = f"none of the first {self._unanswered} requests was answered within {limit_s:g} s"
        if why and not self._done.is_set():
            self._recording.cut = why
            self._done.set()

    def _next_turn(self, exchange: Exchange, user: str) -> Prompt | None:
        """The prompt with the answer and the user's next words; None where there was no answer."""
        if exchange.error or exchange.status != 200:
            return None
        try:
            answer = self._api.read(exchange).text
        except BadAnswer:
            return None
        prompt = exchange.prompt
        if prompt.messages or self._phase.api == "openai_chat":
            before = prompt.messages or ({"role": "user", "content": prompt.text},)
            turns = ({"role": "assistant", "content": answer}, {"role": "user", "content": user})
            return replace(prompt, messages=(*before, *turns), answer=None)
        return replace(prompt, text=f"{prompt.text}{answer}\n{user}", answer=None)

    # --- closed loop ----------------------------------------------------------------------------------------

    async def _closed(self) -> None:
        clients = self._load.concurrency or 1
        mine = clients // self._shares + (self._share < clients % self._shares)
        numbers = itertools.count(self._phase.first + self._share, self._shares)
        tasks = [asyncio.create_task(self._client_loop(numbers)) for _ in range(mine)]
        await self._done.wait()
        await _settle(tasks)

    async def _client_loop(self, numbers: Iterator[int]) -> None:
        while not self._done.is_set():
            prompt = self._prompts.prompt(next(numbers))
            body = self._api.body(prompt)
            await self._ask(prompt, body, time.monotonic())

    def _after(self, exchange: Exchange) -> None:
        """Draw the edges of the window as answers come; an open loop's are drawn by its schedule."""
        self._ended += 1
        if self._load.is_open:
            self._counted -= exchange.is_counted
            return
        recording, ended_s = self._recording, exchange.ended_s or time.monotonic()
        if recording.begin_s is None:
            if self._ended >= max(1, self._load.warmup // self._shares):
                recording.begin_s, self._ended = ended_s, 0
        elif recording.end_s is None and self._is_full(ended_s - recording.begin_s):
            recording.end_s = ended_s
            self._done.set()

    def _is_full(self, window_s: float) -> bool:
        """Whether the closed window has its requests and its time, or has grown as far as it may."""
        wanted = -(-self._load.measured_requests // self._shares)
        duration_s = self._load.duration_s or 0.0
        is_capped = duration_s > 0 and window_s >= duration_s * _LONGEST_WINDOW
        return is_capped or (self._ended >= wanted and window_s >= duration_s)

    # --- open loop ------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        load, phase, recording = self._load, self._phase, self._recording
        first, last = load.warmup, load.warmup + load.measured_requests
        arrivals, last = self._arrivals(last)
        tasks: set[asyncio.Task[None]] = set()
        for number, arrival in enumerate(arrivals):
            due_s = phase.start_s + arrival.at_s
            if number == first:
                recording.begin_s = due_s
            if number == last:
                recording.end_s = due_s
            if number % self._shares != self._share:
                continue
            prompt = self._prompts.prompt(phase.first + number, arrival.words, arrival.output_tokens)
            body, is_counted = self._api.body(prompt), first <= number < last
            await self._until(due_s)
            late_s = time.monotonic() - due_s
            if late_s > HOPELESS_S:
                recording.cut = f"{SATURATED}: it is {late_s:.1f} s behind its own schedule"
                self._done.set()
            if self._is_over():
                break
            recording.lags_s.append(late_s)
            self._counted += is_counted
            task = asyncio.create_task(self._ask(prompt, body, due_s, is_counted=is_counted))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await self._drain(tasks)

    def _arrivals(self, last: int) -> tuple[Iterator[Arrival], int]:
        """The arrivals, and the number of the first that is behind the window. A trace is played once."""
        load = self._load
        if load.trace is None:
            return poisson(load.rate or 1.0, load.burstiness, self._phase.seed + self._phase.first), last
        trace = read_trace(Path(load.trace))
        gap_s = trace[-1].at_s / max(1, len(trace) - 1)
        end = Arrival(trace[-1].at_s + gap_s)  # the window lasts as long after the last as before others
        last = len(trace)
        if load.duration_s is not None:
            last = sum(arrival.at_s < load.duration_s for arrival in trace)
        return iter([*trace, end]), last

    async def _until(self, due_s: float) -> None:
        """Wait for the time of a request, or for the end of the load; answers are taken in also when it is late."""
        await asyncio.sleep(0)
        while (left_s := due_s - time.monotonic()) > 0 and not self._done.is_set():
            if left_s <= 1.0:
                await asyncio.sleep(left_s)
            elif self._is_over():
                return
            else:
                await asyncio.sleep(1.0)

    def _is_over(self) -> bool:
        """Whether the window is behind and nothing counted is under way, or was waited for long enough."""
        end_s = self._recording.end_s
        if self._done.is_set():
            return True
        if end_s is None:
            return False
        return self._counted <= 0 or time.monotonic() > end_s + self._phase.drain_s

    async def _drain(self, tasks: set[asyncio.Task[None]]) -> None:
        """After a trace, or where this process's share ended first: what is counted is still waited for."""
        end_s = self._recording.end_s or time.monotonic()
        while (
            self._counted > 0 and not self._done.is_set() and time.monotonic() < end_s + self._phase.drain_s
        ):
            await asyncio.wait(list(tasks), timeout=0.1)
        self._done.set()
        await _settle(list(tasks))


async def _settle(tasks: list[asyncio.Task[None]]) -> None:
    """Wait for the requests under way, for a while; what is left then is broken off."""
    if not tasks:
        return
    _, pending = await asyncio.wait(tasks, timeout=SETTLE_S)
    for task in pending:
        task.cancel()
    for task in pending:
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _sleep_until(at_s: float) -> None:
    await asyncio.sleep(max(0.0, at_s - time.monotonic()))


__all__ = ["MEASURED_PER_CLIENT", "Phase", "Recording", "make_load"]
