"""Reading the cells of a row: what is not what was written there is said with its place, never guessed at.

A database can be edited by hand, restored by halves, or damaged by its disk.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Row

T = TypeVar("T")

_SIGNS_OF_DAMAGE = (
    ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, zlib.error, struct.error,
)  # fmt: skip


class DamagedCellError(Exception):
    """A cell that no run has written so; the message names study, trial and column.

    ``way_out`` is what to do about it, where there is something better than to go back to a copy.
    """

    def __init__(self, message: str, way_out: str = "") -> None:
        super().__init__(message)
        self.way_out = way_out


class Cells:
    """A row of a table; ``place`` says whose: ``study 'lm', trial 3``."""

    def __init__(self, row: Row[*tuple[Any, ...]], place: str) -> None:
        self._row = row
        self._place = place

    def get(self, column: str, read: Callable[[Any], T]) -> T:
        """The column's value as ``read`` gives it. DamagedCellError where it cannot."""
        return read_cell(getattr(self._row, column), column, read, self._place)

    def maybe(self, column: str, read: Callable[[Any], T]) -> T | None:
        """The same; None for NULL."""
        return None if getattr(self._row, column) is None else self.get(column, read)


def read_cell(value: Any, column: str, read: Callable[[Any], T], place: str, way_out: str = "") -> T:
    """A single cell. DamagedCellError where ``read`` cannot make anything of it."""
    try:
        return read(value)
    except _SIGNS_OF_DAMAGE as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise DamagedCellError(f"{place}: its {column} is damaged ({why:.120})", way_out) from error


def text(value: Any) -> str:
    """Text that was written as such: bytes that are none come as half characters."""
    as_text(value).encode()
    return str(value)


def path_text(value: Any) -> str:
    """Text that can be the path of a file."""
    if "\0" in text(value):
        raise ValueError("no path holds NUL")
    return str(value)


def whole(value: Any) -> int:
    """A whole number from 0."""
    if not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} instead of a whole number from 0")
    return int(value)


def truth(value: Any) -> bool:
    """True or false, as databases keep them: some as 1 and 0."""
    if value not in (0, 1) or not isinstance(value, int):
        raise TypeError(f"{value!r} instead of true or false")
    return bool(value)


def moment(value: Any) -> datetime:
    """A time with its zone."""
    found = datetime.fromisoformat(text(value))
    if found.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return found


def mapping(value: Any) -> dict[str, Any]:
    """JSON text of an object."""
    return as_mapping(json.loads(text(value), parse_constant=_refuse_constant, parse_float=_finite))


def as_mapping(value: Any) -> dict[str, Any]:
    """A part of a document that must be an object."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} instead of an object")
    return dict(value)


def as_text(value: Any) -> str:
    """A part of a document that must be text; JSON can spell half characters."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of text")
    return value


def as_list(value: Any) -> list[Any]:
    """A part of a document that must be a list."""
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} instead of a list")
    return value


def _finite(word: str) -> float:
    """``1e999`` is JSON, but a number that no float holds is never written."""
    if math.isinf(number := float(word)):
        raise ValueError(f"{word} is too large")
    return number


def _refuse_constant(word: str) -> Any:
    """``NaN`` and the like are no JSON, and are never written."""
    raise ValueError(f"{word} is not JSON")


def counts(value: Any) -> dict[str, int]:
    """JSON text of an object of whole numbers."""
    return {key: whole(count) for key, count in mapping(value).items()}
