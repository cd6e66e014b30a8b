"""The ``load`` section: how many requests come when, and what they ask. Light: read by ``tuner check`` too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trials.serving.lengths import Length, read_length
from trials.serving.reading import Reader, absolute, shown

CONCURRENCY, RATE = "concurrency", "request_rate_per_s"
PROMPT_KEYS = (
    "prompts", "prompt_words", "output_tokens", "shared_prefix_words", "shared_prefixes", "turns", "think_time",
    "request",
)  # fmt: skip
LOAD_KEYS = (
    *PROMPT_KEYS, CONCURRENCY, RATE, "burstiness", "trace", "requests", "duration", "warmup_requests",
    "request_timeout", "client_processes", "client_cpus", "max_failed_pct", "find", "find_from", "find_up_to",
    "probes",
)  # fmt: skip
MEASURED_PER_CLIENT, WARMUP_PER_CLIENT = 10, 2
"""InferenceX: at least 10 x concurrency requests are measured after 2 x concurrency that are not."""
DEFAULT_REQUESTS = 100
_MIN_WARMUP = 3


@dataclass(frozen=True)
class PromptSettings:
    """What is asked. ``source``: a .jsonl file (one request a line), a text file that prompts are cut from, or a
    list of texts.
    """

    source: str | tuple[str, ...] = ()
    words: Length | None = None
    output_tokens: Length | None = None
    shared_prefix_words: int = 0
    shared_prefixes: int = 1
    turns: int = 1
    think_time_s: float = 0.0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """True where prompts are cut out of a running text."""
        return isinstance(self.source, str) and not self.source.endswith(".jsonl")


@dataclass(frozen=True)
class Find:
    """Look for the largest load that meets the service level: which kind, between which levels (None: found from
    the first answers), in how many probes.
    """

    what: str
    low: float | None = None
    high: float | None = None
    probes: int = 8


@dataclass(frozen=True)
class Load:
    """Closed loop with ``concurrency`` clients, open loop at ``rate`` requests/s, or the arrivals of a ``trace``.

    A window holds at least ``requests`` and lasts at least ``duration_s``.
    """

    prompts: PromptSettings
    concurrency: int | None = None
    rate: float | None = None
    trace: str | None = None
    burstiness: float = 1.0
    requests: int | None = None
    duration_s: float | None = None
    warmup_requests: int | None = None
    request_timeout_s: float = 120.0
    client_processes: int = 1
    client_cpus: int = 0
    max_failed_pct: float = 1.0
    find: Find | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests come by a clock of their own, however slow the server is."""
        return self.concurrency is None

    @property
    def measured_requests(self) -> int:
        """The least number of requests of a window."""
        if self.requests is None and self.duration_s is None:
            wanted = DEFAULT_REQUESTS
        elif self.requests is None and self.is_open and self.rate:
            wanted = max(1, int(self.rate * (self.duration_s or 0)))
        else:
            wanted = self.requests or 1
        return max(wanted, MEASURED_PER_CLIENT * (self.concurrency or 0))

    @property
    def warmup(self) -> int:
        """Requests before the window."""
        if self.warmup_requests is not None:
            return self.warmup_requests
        return max(_MIN_WARMUP, WARMUP_PER_CLIENT * (self.concurrency or 0))

    def at(self, what: str, level: float) -> Load:
        """The same load at another level of concurrency or rate, without a search."""
        if what == CONCURRENCY:
            return replace(self, concurrency=int(level), rate=None, find=None)
        return replace(self, concurrency=None, rate=level, find=None)

    def with_config(self, config: Mapping[str, Any]) -> Load:
        """A level that is a parameter takes the place of the section's."""
        concurrency, rate = config.get(CONCURRENCY), config.get(RATE)
        if concurrency is None and rate is None:
            return self
        return replace(self, concurrency=concurrency, rate=rate)


def read_load(reader: Reader, folder: Path = Path()) -> tuple[Load, dict[str, Any]]:
    """The load of a section, and the section with absolute paths."""
    reader.only(LOAD_KEYS)
    resolved = dict(reader.raw)
    load = Load(
        prompts=_prompts(reader, resolved, folder),
        concurrency=reader.whole(CONCURRENCY, low=1),
        rate=reader.number(RATE, above=True),
        trace=reader.file("trace", folder),
        burstiness=reader.number("burstiness", 1.0, above=True) or 1.0,
        requests=reader.whole("requests", low=1),
        duration_s=reader.seconds("duration"),
        warmup_requests=reader.whole("warmup_requests"),
        request_timeout_s=reader.seconds("request_timeout", 120.0) or 120.0,
        client_processes=reader.whole("client_processes", 1, low=1) or 1,
        client_cpus=reader.whole("client_cpus", 0) or 0,
        max_failed_pct=reader.number("max_failed_pct", 1.0) or 0.0,
        find=_find(reader),
    )
    if load.trace:
        resolved["trace"] = load.trace
    _check_modes(reader, load)
    return load, resolved


def _prompts(reader: Reader, resolved: dict[str, Any], folder: Path) -> PromptSettings:
    source = reader.raw.get("prompts")
    kept: str | tuple[str, ...] = ()
    if isinstance(source, list) and source and all(isinstance(text, str) and text for text in source):
        kept = tuple(source)
    elif isinstance(source, str) and source and "\0" not in source:
        kept = resolved["prompts"] = absolute(source, folder)
        if not os.path.isfile(kept):  # noqa: PTH113 - may hold anything that YAML can
            reader.problem("prompts", f"{kept} is not a file", "paths are relative to the space file")
    else:
        way_out = "write prompts: prompts.jsonl, or a text file, or a list of texts"
        reader.problem(
            "prompts",
            "is missing" if source is None else f"is {shown(source)}, no source of prompts",
            way_out,
        )
    settings = PromptSettings(
        kept,
        read_length(reader, "prompt_words"),
        read_length(reader, "output_tokens"),
        reader.whole("shared_prefix_words", 0) or 0,
        reader.whole("shared_prefixes", 1, low=1) or 1,
        reader.whole("turns", 1, low=1) or 1,
        reader.seconds("think_time", 0.0) or 0.0,
        reader.mapping("request"),
    )
    cut = [key for key in ("prompt_words", "shared_prefix_words") if reader.raw.get(key)]
    if kept and cut and not settings.is_text:
        reader.problem(cut[0], "cuts prompts out of a text, and prompts is none", "give prompts a text file")
    if kept and settings.is_text and settings.words is None:
        reader.problem("prompts", "is a text, and how long a prompt is was not said", "add prompt_words: 64")
    return settings


def _find(reader: Reader) -> Find | None:
    what = reader.choice("find", (RATE, CONCURRENCY))
    low, high = reader.number("find_from", above=True), reader.number("find_up_to", above=True)
    probes = reader.whole("probes", 8, low=2) or 8
    for key in ("find_from", "find_up_to", "probes"):
        if key in reader.raw and what is None:
            reader.problem(key, "belongs to find", f"add find: {RATE}")
    if low is not None and high is not None and low > high:
        reader.problem("find_from", f"{low:g} is above find_up_to {high:g}", "exchange them")
    return None if what is None else Find(what, low, high, probes)


def _check_modes(reader: Reader, load: Load) -> None:
    given = [key for key in (CONCURRENCY, RATE, "trace", "find") if reader.raw.get(key) is not None]
    if len(given) > 1:
        reader.problem(given[1], f"and {given[0]} say the load twice", "keep one of them")
    if "burstiness" in reader.raw and not (load.rate or (load.find and load.find.what == RATE)):
        reader.problem("burstiness", "shapes the arrivals of an open loop", f"add {RATE}, or delete it")
    if load.trace and load.client_processes > 1 and load.prompts.turns > 1:
        reader.problem("client_processes", "above 1 does not go with a trace of conversations", "write 1")
