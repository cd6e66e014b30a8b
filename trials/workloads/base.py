"""What a kind of workload says about itself without importing anything heavy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Knob:
    """A parameter that a workload kind understands.

    ``choices`` lists the legal values (None: any of ``type``); ``low`` bounds numbers from below.
    ``is_equivalent`` is True where the knob must not change the numbers (checkpointing, compile), False where it
    does (precision, batch size).
    """

    name: str
    type: type | tuple[type, ...]
    default: Any
    help: str
    choices: tuple[Any, ...] | None = None
    low: float | None = None
    is_equivalent: bool = True

    def problem(self, value: Any) -> str | None:
        """Why ``value`` is not legal (with the way out), or None."""
        if self.choices is not None:
            if any(value == choice and type(value) is type(choice) for choice in self.choices):
                return None
            return f"is not one of {', '.join(map(_shown, self.choices))}"
        types = self.type if isinstance(self.type, tuple) else (self.type,)
        is_bool_for_number = isinstance(value, bool) and bool not in types
        if is_bool_for_number or not isinstance(value, (*types, int) if float in types else types):
            return f"must be {_type_words(types)}{_whole_numbers_beside(value, types, self.low)}"
        if self.low is not None and isinstance(value, int | float) and value < self.low:
            return f"must be at least {self.low:g}"
        return None


@dataclass(frozen=True)
class WorkloadProblem:
    """Something wrong in the workload section or in a configuration.

    ``key`` is the dotted key inside the section or the parameter that is wrong; ``way_out`` says what to write.
    ``is_not_installed``: nothing is wrong but that a package is missing, which ``way_out`` installs; a check says
    so instead of leaving such configurations out.
    """

    key: str
    message: str
    way_out: str = ""
    is_not_installed: bool = False


class Workload(Protocol):
    """One kind of workload (``training``, ``command``): light description; the heavy part is reached by name."""

    kind: str
    help: str
    runner: str
    """``package.module:function`` taking a TrialContext and returning a Measurement; imported in the trial only."""
    families: tuple[str, ...]
    """Open families of parameter names: ``("task", "env")``."""

    def section_keys(self) -> Sequence[str]:
        """The keys legal in the workload section besides ``kind``."""
        ...

    def resolve(
        self, section: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, Any], list[WorkloadProblem]]:
        """The section with absolute paths (relative ones are beside the space file), and what is wrong with it."""
        ...

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """The knobs that a resolved section has, ``task.*`` and its kind included where they can be read off."""
        ...

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """True where any parameter name is legal (a command template names its own)."""
        ...

    def metrics(self, section: Mapping[str, Any]) -> Sequence[str] | None:
        """The metric keys it can report for this section; None where only running it tells."""
        ...

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """Facts for rules: ``model.num_attention_heads`` and the like, where they are known."""
        ...

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """Why this configuration cannot run (batch sizes that do not divide, ...), or None.

        ``config`` has label-free values of the active parameters; ``world`` holds ``cpus``, ``gpus``.
        """
        ...

    def samples(self, section: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
        """How many steps or requests a trial can time at most (for percentiles), or None where unknown."""
        ...


_TYPE_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    dict: "a map",
}


def _type_words(types: Sequence[type]) -> str:
    """``a number or true or false``: a number may be whole, so that is not said besides."""
    said = [t for t in types if not (t is int and float in types)]
    return " or ".join(_TYPE_WORDS.get(t, t.__name__) for t in said)


def _whole_numbers_beside(value: Any, types: Sequence[type], low: float | None) -> str:
    """``; write 33 or 34`` for 33.5 where a whole number is wanted, ``; write 10`` for 10.0."""
    if int not in types or not isinstance(value, float) or not math.isfinite(value):
        return ""
    near = dict.fromkeys((math.floor(value), math.ceil(value)))
    legal = [str(number) for number in near if low is None or number >= low]
    return f"; write {' or '.join(legal)}" if legal else ""


def _shown(value: Any) -> str:
    return (
        {True: "true", False: "false", None: "null"}.get(value, str(value))
        if isinstance(value, bool | None)
        else str(value)
    )
