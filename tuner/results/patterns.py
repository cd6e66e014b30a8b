"""What goes along with what in a study: plain values, counted by `tuner.results.insight`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LevelMean:
    """Mean of a metric where a parameter had one value (the geometric mean for positive metrics)."""

    label: str
    mean: float
    n: int


@dataclass(frozen=True)
class Influence:
    """How much of a metric's variation goes along with one parameter.

    ``share`` (0-1) is the explained variance, adjusted for the number of values (0 for a parameter that does
    nothing, on average); all shares of a metric together are at most 1. ``levels`` holds the mean by value, of
    values that were tried at least twice; numbers tried once are taken in three parts, and have a
    ``rank_correlation`` (-1..1) besides.
    """

    parameter: str
    metric: str
    share: float
    n: int
    levels: tuple[LevelMean, ...] = ()
    rank_correlation: float | None = None


@dataclass(frozen=True)
class FailurePattern:
    """Values under which trials fail notably often: ``failed`` of ``n``."""

    values: Mapping[str, str]
    failed: int
    n: int

    @property
    def rate(self) -> float:
        """Share of trials that failed, 0-1."""
        return self.failed / self.n


@dataclass(frozen=True)
class FailureTable:
    """How often trials failed, by the values of two parameters: ``cells[i][j]`` is (failed, all) where ``row``
    has value ``rows[i]`` and ``column`` has ``columns[j]``; (0, 0) was never tried.
    """

    row: str
    column: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[tuple[int, int], ...], ...]
