"""Any server: the line that starts it, a path that tells whether it is well, the protocol that it speaks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trials.command.template import Template, known_values, variables
from trials.contract import FailureKind, TrialFailure, TrialSpec
from trials.serving.apis import api_names
from trials.serving.reading import Reader, absolute, shown
from trials.serving.servers.base import ENGINE_ARGS, Launch, flags
from trials.workloads.base import Knob, WorkloadProblem

LOOPBACK = "127.0.0.1"
_FLAGS = f"{{{ENGINE_ARGS}}}"


class CustomServer:
    """``launch`` starts it (or ``url`` says where it runs already); names in braces are those of a command's
    template, and ``{port}``, ``{host}``, ``{model}``, ``{engine_args}``.
    """

    name = "custom"
    help = "any server, by the line that starts it"
    apis = tuple(api_names())

    def section_keys(self) -> Sequence[str]:
        """``launch`` or ``url`` is required."""
        return ("launch", "url", "health", "stop", "env", "working_directory", "python", "model")

    def resolve(self, reader: Reader, folder: Path) -> dict[str, Any]:
        """The section's keys with absolute paths."""
        found: dict[str, Any] = {}
        url, launch = reader.text("url", "write url: http://host:8000"), reader.raw.get("launch")
        if (url is None) == (launch is None):
            reader.problem(
                "launch",
                "is missing" if launch is None else "and url exclude one another",
                'write launch: [my-server, --port, "{port}"], or url: http://host:8000 of one that runs',
            )
        if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
            reader.problem("url", f"{url} is no address of a server", "write http://host:8000")
        for key in ("launch", "stop"):
            if reader.raw.get(key) is not None:
                found[key] = _words(reader, key, folder)
        if found.get("launch") and not _names_port(found["launch"]):
            reader.problem("launch", "does not say {port}", "each trial has a free port of its own")
        health = reader.text("health", "write health: /health")
        if health is None and reader.raw.get("health") is None:
            reader.problem(
                "health", "is missing", "write the path that answers 200 once it is ready: /health"
            )
        elif health is not None and not health.startswith("/"):
            reader.problem("health", f"{health} is no path", "write health: /health")
        if (python := reader.text("python")) is not None:
            found["python"] = program(reader, "python", python, folder)
        if reader.raw.get("working_directory") is not None or launch is not None:
            given = reader.text("working_directory") or "."
            found["working_directory"] = given if "{" in given else absolute(given, folder)
        reader.text("model")
        environment(reader)
        return found

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """None of its own: the launch line names what it wants."""
        return {}

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """Where it is launched, every parameter reaches it, in its line or as ``TUNER_<NAME>``."""
        return "launch" in section

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """Nothing is known of it before it runs."""
        return {}

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """Flags that have no place in the launch line."""
        used = [name for name in config if name.startswith(f"{ENGINE_ARGS}.")]
        if used and not any(_FLAGS in str(word) for word in section.get("launch") or ()):
            return WorkloadProblem(
                used[0], f"does not reach the server: launch has no {_FLAGS}", f'add "{_FLAGS}" to launch'
            )
        return None

    def launch(self, spec: TrialSpec, port: int) -> Launch:
        """The template filled in."""
        section = spec.workload
        if "url" in section:
            return Launch(str(section["url"]).rstrip("/"), str(section["health"]))
        known = {
            **known_values(spec),
            "port": port,
            "host": LOOPBACK,
            "model": section.get("model"),
            **({"python": section["python"]} if "python" in section else {}),
        }
        template = Template(known)
        arguments: list[str] = []
        for part in section["launch"]:
            arguments += flags(spec.config) if part == _FLAGS else template.arguments([part])
        if not arguments:
            raise TrialFailure(FailureKind.ENGINE_START, "launch names no program")
        return Launch(
            f"http://{LOOPBACK}:{port}",
            str(section["health"]),
            tuple(arguments),
            variables(spec.config, section.get("env") or {}, template),
            template.text(str(section["working_directory"])),
            tuple(template.arguments(section.get("stop") or ())),
        )

    def model(self, section: Mapping[str, Any]) -> str:
        """As the section says it; empty where the server has one model and no name for it."""
        return str(section.get("model") or "")

    def counters(self, base_url: str) -> Mapping[str, float]:
        """None."""
        return {}


def program(reader: Reader, key: str, name: str, folder: Path) -> str:
    """A program as an absolute path, or as it is where it is looked up on PATH; a problem where it is not there."""
    if "/" not in name:
        import shutil

        if shutil.which(name) is None:
            reader.problem(key, f"there is no program {name} on PATH", "install it, or write its path")
        return name
    path = absolute(name, folder)
    if not os.access(path, os.X_OK):
        reader.problem(
            key, f"{path} is not a program", "check the path; paths are relative to the space file"
        )
    return path


def environment(reader: Reader) -> None:
    """Note what is wrong with ``env``: names of variables, and texts, numbers or booleans as their values."""
    for name, value in reader.mapping("env").items():
        if not str(name).isidentifier() or not isinstance(value, str):
            reader.problem("env", f"{name}: {shown(value)} is no variable", 'write a text: {NAME: "1"}')


def _words(reader: Reader, key: str, folder: Path) -> list[str | list[str]]:
    """The arguments as text; a program beside the space file becomes an absolute path."""
    raw = reader.raw[key]
    if not isinstance(raw, list) or not raw:
        reader.problem(key, f"is {shown(raw)}, and should be a list", f'write {key}: [program, "{{port}}"]')
        return []
    words: list[str | list[str]] = []
    for part in raw:
        inner = part if isinstance(part, list) else [part]
        if (
            not all(isinstance(word, str | int | float) and "\0" not in str(word) for word in inner)
            or not inner
        ):
            reader.problem(key, f"holds {shown(part)}, no argument", "write texts and numbers")
        texts = [str(word).lower() if isinstance(word, bool) else str(word) for word in inner]
        words.append(texts if isinstance(part, list) else texts[0] if texts else "")
    first = words[0]
    if isinstance(first, str) and first and "{" not in first and "$" not in first:
        words[0] = program(reader, key, first, folder)
    return words


def _names_port(words: Sequence[str | list[str]]) -> bool:
    return any("{port}" in word for part in words for word in (part if isinstance(part, list) else [part]))
