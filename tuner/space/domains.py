"""What a parameter can be: a choice, a range, one fixed value, or a value computed from others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from tuner.space.expressions import Expression

MAX_GRID = 100_000
"""A range of more whole numbers than this is not listed; samplers treat it like a continuous one."""


def canonical(value: Any) -> str:
    """One text per value: equal exactly when the values are, with 1, 1.0 and true apart."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class Choice:
    """One of a parameter's choices: what is shown and recorded, and what the trial gets."""

    label: Any
    value: Any


@dataclass(frozen=True)
class Choices:
    """A choice among values in the order of the file."""

    choices: tuple[Choice, ...]

    @cached_property
    def _by_label(self) -> dict[str, Choice]:
        return {canonical(choice.label): choice for choice in self.choices}

    @cached_property
    def is_labelled(self) -> bool:
        """True where a label stands for another value."""
        return any(canonical(choice.label) != canonical(choice.value) for choice in self.choices)

    def find(self, label: Any) -> Choice | None:
        """The choice of that label, or None."""
        return self._by_label.get(canonical(label))

    def contains(self, label: Any) -> bool:
        """Whether it is one of the labels."""
        return self.find(label) is not None

    def count(self) -> int:
        """How many there are."""
        return len(self.choices)

    def values(self) -> Iterator[Any]:
        """Every label, in the order of the file."""
        return (choice.label for choice in self.choices)

    def describe(self) -> dict[str, Any]:
        """Plain data for records and comparison."""
        if not self.is_labelled:
            return {"choices": [choice.value for choice in self.choices]}
        return {"choices": [{"label": choice.label, "value": choice.value} for choice in self.choices]}


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``. scale: linear, log, log2 (powers of two from low). Ints where
    is_integer.
    """

    low: float
    high: float
    step: float | None
    scale: str
    is_integer: bool

    @property
    def is_continuous(self) -> bool:
        """True where the values cannot be counted."""
        return not self.is_integer and self.step is None and self.scale != "log2" and self.low < self.high

    def count(self) -> int | None:
        """How many values; None where continuous."""
        if self.is_continuous:
            return None
        if self.low == self.high:
            return 1
        if self.scale == "log2":
            return len(self._powers)
        return int((_decimal(self.high) - _decimal(self.low)) // _decimal(self.step or 1)) + 1

    @property
    def last(self) -> float:
        """The highest value that is tried: below ``high`` where the step does not reach it."""
        count = self.count()
        if count is None or (self.step is None and self.scale != "log2"):
            return self.high
        if self.scale == "log2":
            return self._powers[-1]
        return self._at(count - 1)

    def _at(self, index: int) -> float:
        # decimal arithmetic, or the third value of 0.1, 0.2, ... is 0.30000000000000004
        value = _decimal(self.low) + _decimal(self.step or 1) * index
        return int(value) if self.is_integer else float(value)

    @cached_property
    def _powers(self) -> tuple[float, ...]:
        powers = [self.low]
        while powers[-1] * 2 <= self.high:
            powers.append(powers[-1] * 2)
        return tuple(powers)

    def values(self) -> Iterator[Any]:
        """Every value, ascending and one at a time. ValueError where continuous."""
        count = self.count()
        if count is None:
            raise ValueError("a continuous range cannot be listed")
        if self.scale == "log2":
            return iter(self._powers)
        if self.is_integer:
            step = int(self.step or 1)
            return iter(range(int(self.low), int(self.low) + step * count, step))
        return (self._at(index) for index in range(count))

    def grid(self) -> tuple[Any, ...] | None:
        """Every value, ascending; None where the range is continuous (or has more than MAX_GRID values)."""
        return self._grid

    @cached_property
    def _grid(self) -> tuple[Any, ...] | None:
        count = self.count()
        return None if count is None or count > MAX_GRID else tuple(self.values())

    def contains(self, value: Any) -> bool:
        """Whether it is one of the range's values, and of their type."""
        if type(value) is not (int if self.is_integer else float) or not self.low <= value <= self.high:
            return False
        if self.scale == "log2":
            return value in self._powers
        return self.is_continuous or self._at(self._nearest(value)) == value

    def _nearest(self, value: float) -> int:
        """The index of the grid's value that lies nearest."""
        return round((_decimal(value) - _decimal(self.low)) / _decimal(self.step or 1))

    def describe(self) -> dict[str, Any]:
        """Plain data for records and comparison."""
        described: dict[str, Any] = {"min": self.low, "max": self.high, "scale": self.scale}
        return described if self.step is None else {**described, "step": self.step}


@dataclass(frozen=True)
class Fixed:
    """One value."""

    value: Any

    def contains(self, value: Any) -> bool:
        """Whether it is this value."""
        return canonical(value) == canonical(self.value)

    def count(self) -> int:
        """One."""
        return 1

    def values(self) -> Iterator[Any]:
        """The value."""
        return iter((self.value,))

    def describe(self) -> dict[str, Any]:
        """Plain data for records and comparison."""
        return {"value": self.value}


@dataclass(frozen=True)
class Derived:
    """Computed from other parameters and facts by an expression."""

    expression: Expression

    def count(self) -> int:
        """One: the others decide."""
        return 1

    def describe(self) -> dict[str, Any]:
        """Plain data for records and comparison."""
        return {"expr": self.expression.text}


def first_of(domain: Choices | Range | Fixed) -> Any:
    """The first choice, the lowest number, or the fixed value."""
    return domain.low if isinstance(domain, Range) else next(domain.values())


def _decimal(number: float) -> Decimal:
    return Decimal(repr(number))
