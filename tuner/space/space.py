"""The space: parameters, their conditions, and the rules between them. INTERFACE (bodies by the space builder)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]
"""A configuration: active parameter name -> value; a labelled choice holds its label, ``Space.resolve`` replaces
it by its value. Values are what YAML and JSON know; 1, 1.0 and True are three different values."""


def config_key(config: Mapping[str, Any]) -> str:
    """One text per configuration (canonical JSON, keys sorted): equal exactly when the configurations are."""
    raise NotImplementedError


@dataclass(frozen=True)
class Choice:
    """One of a parameter's choices: what is shown and recorded, and what the trial gets."""

    label: Any
    value: Any


@dataclass(frozen=True)
class Choices:
    """A choice among values in the order of the file."""

    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``. scale: linear, log, log2 (powers of two from low). Ints where is_integer."""

    low: float
    high: float
    step: float | None
    scale: str
    is_integer: bool

    def grid(self) -> tuple[Any, ...] | None:
        """Every value, ascending; None where the range is continuous."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed:
    """One value."""

    value: Any


@dataclass(frozen=True)
class Derived:
    """Computed from other parameters and facts by an expression."""

    expression: Any


@dataclass(frozen=True)
class Parameter:
    """A tunable value. ``when`` (an Expression or None) says when it is active; ``default`` is what it holds in
    rules while inactive; ``line`` is where the file names it."""

    name: str
    domain: Choices | Range | Fixed | Derived
    when: Any
    default: Any
    line: int

    @property
    def is_searched(self) -> bool:
        """True where there is more than one value to choose from."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rejection:
    """Why a configuration is not run: ``rule`` is the text to count by, ``reason`` the line for the reader."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Space:
    """Parameters in dependency order (a condition names earlier ones only), rules, facts."""

    parameters: tuple[Parameter, ...]

    def is_active(self, parameter: Parameter, values: Mapping[str, Any]) -> bool:
        """Whether the parameter takes part, given the (label) values of the parameters before it."""
        raise NotImplementedError

    def configure(self, values: Mapping[str, Any]) -> Config:
        """The configuration for these values of searched parameters: drops inactive ones, adds fixed and derived."""
        raise NotImplementedError

    def rejection(self, config: Mapping[str, Any]) -> Rejection | None:
        """The first rule (file's, then the workload's own) that the configuration breaks, or None."""
        raise NotImplementedError

    def contains(self, config: Mapping[str, Any]) -> bool:
        """Whether every value lies in its domain and exactly the active parameters are there (rules aside)."""
        raise NotImplementedError

    def resolve(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the trial gets: labels replaced; ``None`` ("leave the default") dropped."""
        raise NotImplementedError

    def size(self) -> int | None:
        """How many configurations before rules (conditions respected); None where a parameter is continuous."""
        raise NotImplementedError

    def configs(self) -> Iterator[Config]:
        """Every configuration before rules, lazily, in a fixed order. ValueError where a range is continuous."""
        raise NotImplementedError

    def enumerate_valid(self, at_most: int) -> list[Config] | None:
        """Every configuration that no rule rejects; None where continuous, or more than ``at_most`` must be looked at."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """A plain, stable description (for records, comparison on resume, and the export)."""
        raise NotImplementedError
