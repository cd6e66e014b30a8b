"""The window of a recording: which requests count, read and sorted into served, failed and unfinished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trials.serving.apis import Api
from trials.serving.apis.base import quoted
from trials.serving.exchange import Answer, BadAnswer, Exchange
from trials.serving.generator import Recording


@dataclass(frozen=True)
class Served:
    """A request with a whole, readable answer."""

    exchange: Exchange
    answer: Answer
    ended_s: float

    @property
    def latency_ms(self) -> float:
        """From the scheduled time to the end of the answer."""
        return 1000 * (self.ended_s - self.exchange.scheduled_s)

    @property
    def ttft_ms(self) -> float | None:
        """From the scheduled time to the first text; None where the answer did not come in pieces."""
        arrivals = self.answer.arrivals_s
        return 1000 * (arrivals[0] - self.exchange.scheduled_s) if arrivals else None

    @property
    def tpot_ms(self) -> float | None:
        """(latency - TTFT) / (tokens - 1), for two tokens and more."""
        first, tokens = self.ttft_ms, self.answer.tokens or 0
        return None if first is None or tokens < 2 else (self.latency_ms - first) / (tokens - 1)

    def itl_ms(self) -> list[float]:
        """The gap before every token but the first. A piece of several tokens shares its gap out among them; which
        piece has how many is not said, so all have the average.
        """
        arrivals, tokens = self.answer.arrivals_s, self.answer.tokens or 0
        gaps = [1000 * (b - a) for a, b in pairwise(arrivals)]
        if len(gaps) == tokens - 1 or not gaps:
            return gaps
        per_piece = (tokens - 1) / len(gaps)
        return [gap / per_piece for gap in gaps for _ in range(max(1, round(per_piece)))]


@dataclass
class Window:
    """The counted requests of one stretch of load, and the state of the generator while it lasted.

    ``in_time`` are the answers that ended inside, whenever they were asked for: work per second is theirs.
    """

    begin_s: float
    end_s: float
    served: list[Served] = field(default_factory=list)
    in_time: list[Served] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    unfinished_ms: list[float] = field(default_factory=list)
    lags_ms: list[float] = field(default_factory=list)
    cpu_share: float = 0.0
    is_open: bool = False
    cut: str = ""

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.begin_s

    @property
    def counted(self) -> int:
        """Requests of every fate."""
        return len(self.served) + len(self.failed) + len(self.unfinished_ms)

    def failures(self, most: int = 3) -> str:
        """The fates of failed requests in words: how many of which kind, with an example each."""
        kinds = Counter(kind for kind, _ in self.failed)
        examples = dict(reversed(self.failed))
        return "; ".join(f"{count} x {kind} ({examples[kind]})" for kind, count in kinds.most_common(most))


def read_window(recordings: Sequence[Recording], api: Api, *, is_open: bool) -> Window | None:
    """The common window of the processes that made the load; None where one of them never filled its own."""
    edges = [(one.begin_s, one.end_s) for one in recordings]
    begins = [begin for begin, _ in edges if begin is not None]
    ends = [end for _, end in edges if end is not None]
    cut = next((one.cut for one in recordings if one.cut), "")
    if len(begins) < len(edges) or len(ends) < len(edges):
        return None
    window = Window(max(begins), min(ends), is_open=is_open, cut=cut)
    for recording in recordings:
        for exchange in recording.exchanges:
            _sort(window, exchange, api)
        window.lags_ms += [1000 * lag for lag in recording.lags_s]
    window.cpu_share = max(one.cpu_share for one in recordings)
    return window


def read_all(exchanges: Iterable[Exchange], api: Api) -> Window:
    """Every exchange sorted, whenever it was."""
    window = Window(float("-inf"), float("inf"))
    for exchange in exchanges:
        _sort(window, exchange, api)
    return window


def read_answer(exchange: Exchange, api: Api) -> Answer:
    """The answer of an exchange; BadAnswer where it failed on the way, or is none."""
    if exchange.error:
        raise BadAnswer(exchange.error, exchange.message)
    if exchange.status != 200:
        raise BadAnswer(f"http_{exchange.status}", quoted(exchange.body))
    return api.read(exchange)


def _sort(window: Window, exchange: Exchange, api: Api) -> None:
    ended_s = exchange.ended_s
    is_inside = ended_s is not None and window.begin_s < ended_s <= window.end_s
    is_counted = exchange.is_counted if window.is_open else is_inside
    if ended_s is None:
        if is_counted:
            window.unfinished_ms.append(1000 * max(0.0, window.end_s - exchange.scheduled_s))
        return
    if not is_counted and not is_inside:
        return
    try:
        served = Served(exchange, read_answer(exchange, api), ended_s)
    except BadAnswer as bad:
        if is_counted:
            window.failed.append((bad.kind, bad.message))
        return
    if is_counted:
        window.served.append(served)
    if is_inside:
        window.in_time.append(served)
