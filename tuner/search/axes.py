"""One searched parameter as samplers see it: an axis with values, neighbours and coordinates.

Values are told apart with their types, so that 1, 1.0 and true stay three values. A long or continuous range
is an axis without listed values: points are drawn on it and rounded to what a reader can type again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.space.space import Choices, Parameter, Range, Space, config_key

_DIGITS = 4  # of a drawn float: finer differences are below the noise of any trial


@dataclass(frozen=True)
class Axis:
    """A searched parameter. ``values`` None: drawn from ``range`` instead."""

    parameter: Parameter
    values: tuple[Any, ...] | None

    @property
    def name(self) -> str:
        """The parameter's dotted name."""
        return self.parameter.name

    @cached_property
    def is_ordered(self) -> bool:
        """True where neighbouring values are alike: ranges, and choices among numbers."""
        if not isinstance(self.parameter.domain, Choices):
            return True
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values or ())

    @cached_property
    def coordinates(self) -> NDArray[np.float64]:
        """Where each listed value of an ordered axis lies in 0..1; choices among numbers by rank."""
        values = self.values or ()
        if isinstance(self.parameter.domain, Range):
            return np.array([self._unit(v) for v in values])
        ranks = {v: i for i, v in enumerate(sorted(set(values)))}
        return np.array([ranks[v] / max(1, len(ranks) - 1) for v in values])

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {_identity(v): i for i, v in enumerate(self.values or ())}

    def index_of(self, value: Any) -> int:
        """The place of a listed value in the order of the file. KeyError where it is none of them."""
        return self._index[_identity(value)]

    def holds(self, value: Any) -> bool:
        """Whether the value can be placed on the axis."""
        return self.values is None or _identity(value) in self._index

    @cached_property
    def in_order(self) -> tuple[Any, ...]:
        """The listed values of an ordered axis, ascending."""
        listed = self.values or ()
        return tuple(listed[int(i)] for i in np.argsort(self.coordinates, kind="stable"))

    def place(self, value: Any) -> int:
        """The place of a listed value among the ascending ones."""
        return self._places[_identity(value)]

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {_identity(v): i for i, v in enumerate(self.in_order)}

    def coordinate(self, value: Any) -> float:
        """Where a value of an ordered axis lies in 0..1."""
        return self._unit(value) if self.values is None else float(self.coordinates[self.index_of(value)])

    def value_at(self, coordinate: float) -> Any:
        """The value of an ordered axis nearest to a coordinate in 0..1."""
        if self.values is not None:
            return self.values[int(np.argmin(np.abs(self.coordinates - coordinate)))]
        return self._rounded(min(1.0, max(0.0, coordinate)))

    def draw(self, rng: np.random.Generator) -> Any:
        """A value by chance, all equally likely (on the range's own scale)."""
        if self.values is not None:
            return self.values[int(rng.integers(len(self.values)))]
        return self._rounded(float(rng.random()))

    def neighbours(self, value: Any, rng: np.random.Generator) -> list[Any]:
        """Values one step away: the adjacent ones of an ordered axis, all others of an unordered one."""
        if self.values is None:
            steps = rng.normal(0.0, 0.1, size=2)
            return [self.value_at(self._unit(value) + float(step)) for step in steps]
        here = self.index_of(value)
        if not self.is_ordered:
            return [v for i, v in enumerate(self.values) if i != here]
        place = self.place(value)
        return [self.in_order[p] for p in (place - 1, place + 1) if 0 <= p < len(self.in_order)]

    @property
    def _range(self) -> Range:
        domain = self.parameter.domain
        assert isinstance(domain, Range)
        return domain

    def _unit(self, value: float) -> float:
        low, high = self._scaled(self._range.low), self._scaled(self._range.high)
        return (self._scaled(value) - low) / (high - low) if high > low else 0.0

    def _scaled(self, value: float) -> float:
        return float(value) if self._range.scale == "linear" else math.log(value)

    def _rounded(self, unit: float) -> Any:
        low, high = self._scaled(self._range.low), self._scaled(self._range.high)
        scaled = low + unit * (high - low)
        value = scaled if self._range.scale == "linear" else math.exp(scaled)
        step = self._range.step or (1 if self._range.is_integer else None)
        if step is not None:
            return self._on_step(value, step)
        return float(min(self._range.high, max(self._range.low, float(f"{value:.{_DIGITS}g}"))))

    def _on_step(self, value: float, step: float) -> Any:
        """In decimals, or the third step of 0.1 would be 0.30000000000000004."""
        low, width, high = (Decimal(repr(number)) for number in (self._range.low, step, self._range.high))
        steps = min((high - low) // width, max(Decimal(0), Decimal(round((value - float(low)) / step))))
        return int(low + width * steps) if self._range.is_integer else float(low + width * steps)


def axes_of(space: Space) -> tuple[Axis, ...]:
    """An axis for every searched parameter, in the space's (dependency) order."""
    return tuple(Axis(p, _listed(p.domain)) for p in space.parameters if p.is_searched)


def _listed(domain: Any) -> tuple[Any, ...] | None:
    if isinstance(domain, Choices):
        return tuple(choice.label for choice in domain.choices)
    assert isinstance(domain, Range)
    return domain.grid()


def _identity(value: Any) -> Any:
    """A hashable that is equal exactly where the values are the same: 1, 1.0 and true are three."""
    return config_key({"": value}) if isinstance(value, list | dict) else (type(value), value)
