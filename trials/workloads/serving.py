"""The ``serving`` kind: a real server under load. Light description; ``trials.serving.run`` runs it.

The section: ``server`` (custom, vllm, ...) with that server's own keys, ``api``, ``path``, ``headers``,
``start_timeout``, ``load`` (``trials.serving.load_settings``), ``slo`` (``trials.serving.slo``) and ``quality``
(``trials.serving.quality.settings``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.metrics import Key
from trials.serving.apis import Api, api
from trials.serving.apis.base import MODEL
from trials.serving.load_settings import CONCURRENCY, RATE, Load, read_load
from trials.serving.quality.settings import QualitySettings, read_quality
from trials.serving.reading import Reader, shown
from trials.serving.servers import Server, server, server_names
from trials.serving.servers.base import ENGINE_ARGS
from trials.serving.slo import Slo, read_slo
from trials.workloads.base import Knob, WorkloadProblem

COMMON_KEYS = ("server", "api", "path", "headers", "start_timeout", "load", "slo", "quality")
DEFAULT_START_TIMEOUT_S = 120.0
_KNOBS = (
    Knob(CONCURRENCY, int, None, "clients that each wait for their answer (closed loop)", low=1),
    Knob(
        RATE, float, None, "requests that come per second, however slow the server is (open loop)", low=1e-3
    ),
)
_ALWAYS = (
    Key.REQUESTS_PER_S, Key.LATENCY_P50_MS, Key.LATENCY_P90_MS, Key.LATENCY_P99_MS, Key.FAILED_REQUESTS,
    Key.UNFINISHED_REQUESTS, Key.CLIENT_LAG_P99_MS, Key.STARTUP_S,
)  # fmt: skip
_OF_TOKENS = (
    Key.OUTPUT_TOKENS_PER_S, Key.TTFT_P50_MS, Key.TTFT_P90_MS, Key.TTFT_P99_MS, Key.TPOT_P50_MS, Key.TPOT_P90_MS,
    Key.TPOT_P99_MS, Key.ITL_P50_MS, Key.ITL_P90_MS, Key.ITL_P99_MS,
)  # fmt: skip
_OF_PROCESSES = (Key.SERVER_CPU_PCT, Key.PEAK_MEMORY_GIB, Key.PEAK_RSS_GIB)


@dataclass(frozen=True)
class ServingSettings:
    """A section as read: everything typed, defaults filled in."""

    server: Server
    api: type[Api]
    path: str
    headers: Mapping[str, str]
    start_timeout_s: float
    load: Load
    slo: Slo
    quality: QualitySettings


class ServingWorkload:
    """A server is started, loaded as clients would, and asked whether its answers are good."""

    kind = "serving"
    help = "start a server, load it, and measure throughput, tail latency and the quality of its answers"
    runner = "trials.serving.run:run"
    families: tuple[str, ...] = (ENGINE_ARGS, "env")

    def section_keys(self) -> Sequence[str]:
        """The keys of every server, and those that only some have (``resolve`` says which go with which)."""
        own = [key for name in server_names() for key in server(name).section_keys()]
        return tuple(dict.fromkeys([*COMMON_KEYS, *own]))

    def resolve(
        self, section: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, Any], list[WorkloadProblem]]:
        """The section with absolute paths, and everything wrong with it."""
        problems: list[WorkloadProblem] = []
        return read_section(section, problems, folder)[1], problems

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """The load's level, and the server's own."""
        found = _server(section)
        return {knob.name: knob for knob in _KNOBS} | dict(found.knobs(section) if found else {})

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """As the server says."""
        found = _server(section)
        return found is not None and found.accepts_unknown_parameters(section)

    def metrics(self, section: Mapping[str, Any]) -> Sequence[str] | None:
        """What this load, this protocol and this judge of quality give; None where only a function knows."""
        settings, _ = read_section(section, [], Path())
        judged = settings.quality.metric_keys
        if judged is None:
            return None
        found = [
            *_ALWAYS,
            *(_OF_TOKENS if settings.api.is_streaming else ()),
            *(() if "url" in section else _OF_PROCESSES),
            *((Key.GOODPUT_REQUESTS_PER_S,) if settings.slo else ()),
            *((Key.CAPACITY_REQUESTS_PER_S,) if settings.load.find else ()),
            Key.LOAD_ACCURACY,
            *judged,
        ]
        return tuple(dict.fromkeys(map(str, found)))

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the server knows of its model."""
        found = _server(section)
        return found.facts(section) if found else {}

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """A load that is not said, or said twice; a client that leaves the server no core; the server's own."""
        settings, _ = read_section(section, [], Path())
        load = settings.load.with_config(config)
        if config.get(CONCURRENCY) is not None and config.get(RATE) is not None:
            return WorkloadProblem(RATE, f"and {CONCURRENCY} say the load twice", 'give each its "when"')
        if load.find is None and load.trace is None and load.concurrency is None and load.rate is None:
            return WorkloadProblem(
                CONCURRENCY, "no load is said", f"give load.{CONCURRENCY}, load.{RATE} or load.trace"
            )
        cpus = world.get("cpus")
        if cpus and load.client_cpus >= cpus:
            return WorkloadProblem(
                "load.client_cpus",
                f"{load.client_cpus} of {cpus} cores leave the server none",
                "reserve fewer",
            )
        return settings.server.rejection(section, config, world)

    def samples(self, section: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
        """Requests of a window; None where only the server's speed tells how many there are."""
        load = read_section(section, [], Path())[0].load.with_config(config)
        is_by_time = load.duration_s is not None and not load.rate and load.requests is None
        if load.trace or is_by_time or load.find:
            return None
        return load.measured_requests


def read_section(
    section: Mapping[str, Any], problems: list[WorkloadProblem], folder: Path
) -> tuple[ServingSettings, dict[str, Any]]:
    """The settings of a section, and the section with absolute paths; what is wrong is added to the problems."""
    reader = Reader({key: value for key, value in section.items() if key != "kind"}, "", problems)
    name = reader.choice("server", server_names(), "custom") or "custom"
    if section.get("server") is None:
        reader.problem("server", "is missing", f"write server: {' | '.join(server_names())}")
    found = server(name)
    reader.only((*COMMON_KEYS, *found.section_keys()))
    resolved = dict(section) | found.resolve(reader, folder)
    load, resolved_load = read_load(
        _part(reader, "load", "write load: {prompts: prompts.jsonl, concurrency: 8}"), folder
    )
    slo = read_slo(Reader(section.get("slo"), "slo", problems))
    quality, resolved_quality = read_quality(section.get("quality"), problems, folder)
    if isinstance(section.get("load"), Mapping):
        resolved["load"] = resolved_load
    if isinstance(section.get("quality"), Mapping):
        resolved["quality"] = resolved_quality
    if load.find and not slo:
        reader.problem("load.find", "looks for the largest load that meets slo, and there is none", "add slo")
    kind = api(_api_name(reader, found))
    path = reader.text("path") or kind.path
    if MODEL in path and not section.get("model"):
        reader.problem("model", f"is missing: {path} names it", "write the model's name")
    _check_goals(reader, kind, slo, quality)
    settings = ServingSettings(
        found,
        kind,
        path,
        _headers(reader),
        reader.seconds("start_timeout", DEFAULT_START_TIMEOUT_S) or DEFAULT_START_TIMEOUT_S,
        load,
        slo,
        quality,
    )
    return settings, resolved


def _server(section: Mapping[str, Any]) -> Server | None:
    name = section.get("server")
    return server(name) if isinstance(name, str) and name in server_names() else None


def _part(reader: Reader, key: str, way_out: str) -> Reader:
    if reader.raw.get(key) is None:
        reader.problem(key, "is missing", way_out)
        return Reader({"prompts": ["-"]}, key, [])
    return Reader(reader.raw[key], key, reader.problems)


def _api_name(reader: Reader, found: Server) -> str:
    """The protocol; where a server speaks several and none is the usual one, it must be said."""
    if reader.raw.get("api") is None and found.name == "custom":
        reader.problem("api", "is missing", f"write api: {' | '.join(found.apis)}")
    return reader.choice("api", found.apis, found.apis[0]) or found.apis[0]


def _check_goals(reader: Reader, kind: type[Api], slo: Slo, quality: QualitySettings) -> None:
    """What needs an answer in pieces, or log-probabilities, of a protocol that has none."""
    for bound in slo.bounds:
        if bound.quantity != "latency" and not kind.is_streaming:
            reader.problem(
                f"slo.{bound.key}", f"api {kind.name} answers whole", "bound latency_p90_ms instead"
            )
    for key in ("perplexity_on", "multiple_choice", "retrieval"):
        if getattr(quality, key) and not kind.name.startswith("openai"):
            reader.problem(
                f"quality.{key}",
                f"asks an OpenAI-compatible server, and api is {kind.name}",
                "use a function",
            )


def _headers(reader: Reader) -> Mapping[str, str]:
    found = reader.mapping("headers")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, str):
            reader.problem(
                "headers", f"{name}: {shown(value)} is no header", 'write {Authorization: "Bearer ${KEY}"}'
            )
    return {str(name): str(value) for name, value in found.items()}
