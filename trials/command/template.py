"""From the template in the space file to the arguments and the environment of one run.

A known name in braces is replaced (``{batch_size}``, ``{trial_dir}``); all other braces are left alone, so
that ``awk '{print}'`` needs no escapes. A parameter that has no value here (null, inactive, or an empty text)
takes the argument that names it away; a nested list is a group that comes or goes whole: ``[-l, "{level}"]``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trials.contract import TrialSpec

BRACES = re.compile(r"(?<!\$)\{([A-Za-z_][\w.-]*)\}")
FROM_ENVIRONMENT = re.compile(r"\$\{([A-Za-z_]\w*)\}")
BUILT_IN = ("trial_dir", "seed", "cpus", "cache_dir", "python")
ENVIRONMENT_FAMILY = "env."


class MissingVariableError(Exception):
    """A ``${NAME}`` names a variable that is not set where the trial starts."""


def text_of(value: Any) -> str:
    """A value as an argument: true/false, floats so that they read back equal, lists and maps as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value)
    return repr(value) if isinstance(value, float) else str(value)


def known_values(spec: TrialSpec) -> dict[str, Any]:
    """What the names in braces stand for; None where a parameter has no value in this configuration.

    A parameter wins over a built-in name. A map's own keys are reached with a dot (``{batching.size}``).
    ``cpus`` is the number of cores this trial may use, as in the rules of a space file.
    """
    known: dict[str, Any] = {
        "trial_dir": os.path.abspath(spec.trial_dir),  # noqa: PTH100 - a path as text, no Path wanted
        "cache_dir": os.path.abspath(spec.cache_dir),  # noqa: PTH100
        "seed": spec.seed,
        "cpus": len(spec.cpus or os.sched_getaffinity(0)),
        "python": sys.executable,
    }
    known.update(dict.fromkeys(spec.parameters))
    for name, value in spec.config.items():
        known.update(_flat(name, value))
    return known


def _flat(name: str, value: Any) -> dict[str, Any]:
    flat = {name: value}
    if isinstance(value, Mapping):
        for key, item in value.items():
            flat.update(_flat(f"{name}.{key}", item))
    return flat


class Template:
    """Replaces known names; ``unknown`` collects the brace names that were left alone."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.known = known
        self.unknown: set[str] = set()

    def text(self, template: str, write: Callable[[str], str] = str) -> str:
        """The template with its names replaced; a parameter without a value is replaced by nothing."""
        return BRACES.sub(lambda found: self._replacement(found, write), template)

    def arguments(self, template: Iterable[str | Sequence[str]]) -> list[str]:
        """The argument list: what names a parameter without a value is left out, nested lists as a whole."""
        arguments: list[str] = []
        for part in template:
            group = (part,) if isinstance(part, str) else part
            if not any(self._names_nothing(argument) for argument in group):
                arguments += [self.text(argument) for argument in group]
        return arguments

    def _replacement(self, found: re.Match[str], write: Callable[[str], str]) -> str:
        if not self._is_known(found[1]):
            self.unknown.add(found[1])
            return found[0]
        value = self.known.get(found[1])
        return "" if value is None or value == "" else write(text_of(value))

    def _names_nothing(self, argument: str) -> bool:
        return any(
            self._is_known(name) and self.known.get(name) in (None, "") for name in BRACES.findall(argument)
        )

    def _is_known(self, name: str) -> bool:
        """A key of a parameter that is a map in other configurations is known too, without a value here."""
        return name in self.known or any(
            name.startswith(f"{parameter}.") and (value is None or isinstance(value, Mapping))
            for parameter, value in self.known.items()
        )


def shell_word(text: str) -> str:
    """The text as one word of a POSIX shell."""
    return (
        text if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII) else "'" + text.replace("'", "'\"'\"'") + "'"
    )


def variable_name(parameter: str) -> str:
    """The environment variable of a parameter: ``task.lr`` -> ``TUNER_TASK__LR``."""
    return "TUNER_" + re.sub(r"\W", "_", parameter.replace(".", "__"), flags=re.ASCII).upper()


def variables(
    config: Mapping[str, Any], section_env: Mapping[str, str], template: Template
) -> dict[str, str]:
    """The environment variables that this configuration sets, ``env.*`` parameters last (they win).

    A boolean among those is 1 or 0, which is what programs look for in a variable.
    """
    given = {name: value for name, value in config.items() if value is not None}
    own = {name for name in given if name.startswith(ENVIRONMENT_FAMILY)}
    return {
        **{variable_name(name): text_of(value) for name, value in given.items()},
        **{name: template.text(text) for name, text in section_env.items()},
        **{name.removeprefix(ENVIRONMENT_FAMILY): _switch(given[name]) for name in own},
    }


_SHORTEST_SECRET = 4  # hiding "1" or "on" would spoil every message


def _switch(value: Any) -> str:
    return text_of(int(value) if isinstance(value, bool) else value)


class Secrets:
    """Puts the environment's values in at the last moment, and takes them out of what is recorded."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._used: dict[str, str] = {}

    def reveal(self, text: str) -> str:
        """The text with every ``${NAME}`` replaced; MissingVariableError where one is not set."""
        return FROM_ENVIRONMENT.sub(self._value, text)

    def note(self, text: str) -> None:
        """Remember the values of the ``${NAME}`` in a text that a shell will put in by itself."""
        for found in FROM_ENVIRONMENT.finditer(text):
            if found[1] in self._environment:
                self._value(found)

    def hide(self, text: str) -> str:
        """The text with every value that was put in written as ``${NAME}`` again."""
        for value, name in sorted(self._used.items(), key=lambda used: -len(used[0])):
            text = text.replace(value, f"${{{name}}}")
        return text

    def _value(self, found: re.Match[str]) -> str:
        value = self._environment.get(found[1])
        if value is None:
            raise MissingVariableError(
                f"the environment variable {found[1]} is not set; export it before the run"
            )
        if len(value) >= _SHORTEST_SECRET:
            self._used[value] = found[1]
        return value
