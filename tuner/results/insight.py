"""What mattered, and where trials fail: simple counts over what was measured, each with its ``n``.

A search does not try values evenly, so these are hints for the next study, not effects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trials.contract import FailureKind, Outcome
from tuner.objectives import Objective
from tuner.results.model import TrialResult
from tuner.results.patterns import FailurePattern, FailureTable, Influence, LevelMean
from tuner.results.runs import level

_MOST_LEVELS = 8
"""With more values than this, numbers are judged by rank correlation, other things not at all."""
_FEWEST_TRIALS = 4
_MOST_PATTERNS = 10


@dataclass(frozen=True)
class _Column:
    """A parameter over all trials: ``codes[i]`` is the position in ``labels`` of trial i's value."""

    name: str
    labels: list[str]
    values: list[Any]
    codes: NDArray[np.intp]


def influences(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> tuple[Influence, ...]:
    """For every objective and parameter that varied among complete trials, strongest first."""
    complete = [trial for trial in trials if trial.losses is not None]
    if len(complete) < _FEWEST_TRIALS:
        return ()
    found = []
    for column in _columns([trial.config for trial in complete]):
        for objective in objectives:
            values = np.array([trial.estimates[objective.metric].value for trial in complete])
            influence = _influence(column, objective.metric, values)
            if influence is not None:
                found.append(influence)
    return tuple(sorted(found, key=lambda item: (-item.share, item.parameter, item.metric)))


def failure_patterns(trials: Sequence[TrialResult]) -> tuple[FailurePattern, ...]:
    """Single values and pairs of values that fail in half their trials or more, beyond chance; worst first.

    A pair is listed only where neither of its values is listed by itself.
    """
    columns, failed = _failures(trials)
    if not failed.any() or failed.all():
        return ()
    overall = float(failed.mean())
    singles = [
        FailurePattern({column.name: label}, bad, n)
        for column in columns
        for label, bad, n in zip(
            column.labels, *_tally(column.codes, len(column.labels), failed), strict=True
        )
        if _is_notable(bad, n, overall)
    ]
    known = {(name, label) for pattern in singles for name, label in pattern.values.items()}
    pairs = [p for one, other in combinations(columns, 2) for p in _pairs(one, other, failed, overall, known)]
    patterns = sorted((*singles, *pairs), key=lambda p: (-p.rate, -p.n, sorted(p.values.items())))
    return tuple(patterns[:_MOST_PATTERNS])


def failure_table(trials: Sequence[TrialResult]) -> FailureTable | None:
    """The two parameters whose values together tell failed trials best from the others, with their rates.

    None where nothing or everything failed, or fewer than two parameters varied over a few values.
    """
    columns, failed = _failures(trials)
    if not failed.any() or failed.all() or len(columns) < 2:
        return None
    one, other = min(combinations(columns, 2), key=lambda pair: _unexplained(_crossed(*pair), failed))
    width = len(other.labels)
    bad, total = _tally(_crossed(one, other), len(one.labels) * width, failed)
    cells = list(zip(bad, total, strict=True))
    rows = tuple(tuple(cells[begin : begin + width]) for begin in range(0, len(cells), width))
    return FailureTable(one.name, other.name, tuple(one.labels), tuple(other.labels), rows)


def _failures(trials: Sequence[TrialResult]) -> tuple[list[_Column], NDArray[np.bool_]]:
    """The parameters with few values over the trials that ended, and which of these failed."""
    ended = [
        trial
        for trial in trials
        if trial.outcome is not None and trial.failure_kind is not FailureKind.INTERRUPTED
    ]
    columns = [c for c in _columns([trial.config for trial in ended]) if len(c.labels) <= _MOST_LEVELS]
    return columns, np.array([trial.outcome is Outcome.FAILED for trial in ended], dtype=bool)


def _crossed(one: _Column, other: _Column) -> NDArray[np.intp]:
    """A code for each pair of values."""
    return one.codes * len(other.labels) + other.codes


def _unexplained(codes: NDArray[np.intp], failed: NDArray[np.bool_]) -> float:
    """Mean square of what the rates by code leave open, larger where it took many codes."""
    rates = np.bincount(codes, weights=failed) / np.maximum(1, np.bincount(codes))
    left = float(((failed - rates[codes]) ** 2).sum())
    return (left + 1) / max(1, len(failed) - len(np.unique(codes)))


def _pairs(
    one: _Column, other: _Column, failed: NDArray[np.bool_], overall: float, known: set[tuple[str, str]]
) -> list[FailurePattern]:
    width = len(other.labels)
    bad, total = _tally(_crossed(one, other), len(one.labels) * width, failed)
    return [
        FailurePattern(
            {one.name: one.labels[code // width], other.name: other.labels[code % width]}, bad[code], n
        )
        for code, n in enumerate(total)
        if _is_notable(bad[code], n, overall)
        and (one.name, one.labels[code // width]) not in known
        and (other.name, other.labels[code % width]) not in known
    ]


def _tally(codes: NDArray[np.intp], size: int, failed: NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """Failed and all trials by code."""
    bad: list[int] = np.bincount(codes[failed], minlength=size).tolist()
    total: list[int] = np.bincount(codes, minlength=size).tolist()
    return bad, total


def _is_notable(failed: int, n: int, overall: float) -> bool:
    """At least three failures, at least half of the trials, and rarer than 1 in 100 by chance."""
    if failed < 3 or failed < n / 2 or failed / n <= overall:
        return False
    # Chernoff's bound on the binomial tail: exact enough for a hint, and safe for any n
    rate = failed / n
    divergence = rate * math.log(rate / overall)
    if rate < 1:
        divergence += (1 - rate) * math.log((1 - rate) / (1 - overall))
    return math.exp(-n * divergence) < 0.01


def _columns(configs: Sequence[Mapping[str, Any]]) -> list[_Column]:
    """The parameters that took more than one value, with their values in order of size or appearance."""
    columns = []
    for name in dict.fromkeys(name for config in configs for name in config):
        keys = [level(config, name) for config in configs]
        order = {key: position for position, key in enumerate(dict.fromkeys(keys))}
        if len(order) > 1:
            codes = np.array([order[key] for key in keys], dtype=np.intp)
            columns.append(_Column(name, [_label(key) for key in order], [key[1] for key in order], codes))
    return columns


def _label(key: tuple[str, Any]) -> str:
    kind, value = key
    if kind == "inactive":
        return "not active"
    return str(value) if kind in ("json", "str") else json.dumps(value, default=str)


def _influence(column: _Column, metric: str, values: NDArray[np.float64]) -> Influence | None:
    is_log = bool((values > 0).all())
    y = np.log(values) if is_log else values
    if y.max() == y.min():
        return None
    n = len(y)
    if len(column.labels) > _MOST_LEVELS:
        numbers = [v for v in column.values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) < len(column.values):
            return None
        rho = _rank_correlation(np.array(numbers, dtype=float)[column.codes], y)
        return Influence(column.name, metric, max(0.0, 1 - (1 - rho**2) * (n - 1) / (n - 2)), n, (), rho)
    counts = np.bincount(column.codes)
    means = np.bincount(column.codes, weights=y) / counts
    if n <= len(means):
        return None
    unexplained = float(((y - means[column.codes]) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    share = max(0.0, 1 - unexplained * (n - 1) / (n - len(means)))
    shown = np.exp(means) if is_log else means
    levels = [
        LevelMean(*item) for item in zip(column.labels, map(float, shown), map(int, counts), strict=True)
    ]
    return Influence(column.name, metric, share, n, tuple(sorted(levels, key=lambda item: -item.mean)))


def _rank_correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 0; equal values share their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts + 1) / 2)[which]
    return ranks
