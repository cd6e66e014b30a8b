"""Amounts with units: durations of the budget, memory of a slot, limits in the unit of their metric."""

from __future__ import annotations

import re

from trials.metrics import unit_of
from trials.workloads import durations

_AMOUNT = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(\S.*?)?\s*")
_BYTES = {
    "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}  # fmt: skip
_SHARES = {"%": 0.01, "fraction": 1.0}
_KINDS = {"a time": durations.SECONDS, "a memory size": _BYTES, "a share": _SHARES}
_GIB = 2.0**30


class UnitError(Exception):
    """An amount cannot be read, or its unit is of another kind; the message holds the way out."""


def seconds(value: object) -> float:
    """A duration such as ``30 min``, ``20 s`` or ``1 h 30 min`` in seconds. UnitError where it is none."""
    try:
        return durations.seconds(value)
    except ValueError as problem:
        raise UnitError(str(problem)) from None


def gibibytes(value: object) -> float:
    """A memory size such as ``6 GiB`` in GiB. UnitError where it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise UnitError(f"has no unit; write {value:g} GiB")
    number, unit = _split(value)
    if unit not in _BYTES or number <= 0:
        raise UnitError("is not a memory size; write 6 GiB or 512 MiB")
    return number * _BYTES[unit] / _GIB


def in_unit_of(metric: str, value: object) -> float:
    """An amount in the metric's own unit (``0.9 s`` of ``latency_p90_ms`` is 900). A plain number is in it
    already.
    """
    wanted = unit_of(metric)
    number, unit = _split(value)
    if unit in ("", wanted):
        if wanted == "fraction" and abs(number) > 1:
            raise UnitError(f"is above 1, and {metric} is a fraction; write {number / 100:g} or {number:g}%")
        return number
    kind = _kind(unit)
    if kind is None:
        raise UnitError(f"has an unknown unit; {_write(metric, wanted, number)}")
    if kind != _kind(wanted):
        of_metric = f"is in {wanted}" if wanted not in ("", "1") else "has no unit"
        hint = "; for a share of the baseline write min_relative or max_relative" if kind == "a share" else ""
        raise UnitError(f"is {kind}, and {metric} {of_metric}; {_write(metric, wanted, number)}{hint}")
    return _rounded(number * _KINDS[kind][unit] / _KINDS[kind][wanted])


def ratio(value: object) -> float:
    """A ratio to the baseline: ``0.95`` or ``95%``. UnitError for other units."""
    number, unit = _split(value)
    if unit and unit not in _SHARES:
        raise UnitError(
            "is not a ratio to the baseline; write 1.0 for as much as the baseline, 95% for 0.95 of it"
        )
    return _rounded(number * _SHARES.get(unit, 1.0))


def _split(value: object) -> tuple[float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        number, unit = float(value), ""
    else:
        found = _AMOUNT.fullmatch(value) if isinstance(value, str) and len(value) < 100 else None
        if found is None:
            raise UnitError("is not a number; write a number, with a unit if you like: 900 ms, 6 GiB, 1%")
        number, unit = float(found.group(1)), found.group(2) or ""
    if number in (float("inf"), float("-inf")) or number != number:
        raise UnitError("is not finite; write a number")
    return number, unit


def _kind(unit: str) -> str | None:
    return next((kind for kind, units in _KINDS.items() if unit in units), None)


def _write(metric: str, unit: str, number: float) -> str:
    return f"write a number in {unit}" if unit not in ("", "1") else f"write {number:g} without a unit"


def _rounded(number: float) -> float:
    """12 digits: 0.29 of the product 29 x 0.01 is 0.29, not 0.29000000000000004."""
    return float(f"{number:.12g}")
