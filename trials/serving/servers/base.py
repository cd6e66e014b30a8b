"""What a kind of server says about itself: how it is launched, asked whether it is well, and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trials.contract import TrialSpec
from trials.serving.reading import Reader
from trials.workloads.base import Knob, WorkloadProblem

ENGINE_ARGS = "engine_args"
COUNTERS_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Launch:
    """How to start one server, and where it answers.

    ``arguments`` may hold ``${NAME}``, filled in from the environment when it starts; empty where the server runs
    already. ``stop`` is a command to end it with, before its processes are ended.
    """

    base_url: str
    health: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."
    stop: tuple[str, ...] = ()


class Server(Protocol):
    """One kind of server. The light half answers ``tuner check``, the rest is used inside a trial; nothing heavy is
    imported for either.
    """

    name: str
    help: str
    apis: tuple[str, ...]
    """The protocols it speaks, the usual one first."""

    def section_keys(self) -> Sequence[str]:
        """Keys of the workload section that only this server has."""
        ...

    def resolve(self, reader: Reader, folder: Path) -> dict[str, Any]:
        """Its keys with absolute paths; what is wrong goes to the reader."""
        ...

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """Its own knobs."""
        ...

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """Whether any parameter reaches it."""
        ...

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """``model.*`` facts for rules."""
        ...

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """Why it cannot serve this configuration, known before it starts."""
        ...

    def launch(self, spec: TrialSpec, port: int) -> Launch:
        """How this configuration is started on a free port of this machine."""
        ...

    def model(self, section: Mapping[str, Any]) -> str:
        """The name under which the model is asked for."""
        ...

    def counters(self, base_url: str) -> Mapping[str, float]:
        """Its own counters now (cache hits, preemptions, queue time); empty where it has none."""
        ...


def flags(config: Mapping[str, Any], prefix: str = f"{ENGINE_ARGS}.") -> list[str]:
    """``engine_args.max_num_seqs: 16`` as ``--max-num-seqs 16``.

    true gives the bare flag, false leaves it out, a list gives several words, a map is written as JSON.
    """
    from trials.command.template import text_of

    words: list[str] = []
    for name, value in config.items():
        if not name.startswith(prefix) or value is None or value is False:
            continue
        words.append("--" + name.removeprefix(prefix).replace("_", "-"))
        if isinstance(value, list):
            words += [text_of(one) for one in value]
        elif value is not True:
            words.append(text_of(value))
    return words
