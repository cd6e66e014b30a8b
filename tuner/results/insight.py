"""What mattered, and where trials fail: simple counts over what was measured, each with its ``n``.

A search does not try values evenly, so these are hints for the next study, not effects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
"""With more values than this, what fails is not counted by value."""
_FEWEST_TRIALS = 4
_FEWEST_A_VALUE = 2
"""A value tried once says nothing about the parameter: the trial may differ in everything else."""
_BINS = 3
"""Numbers that were nearly all tried once are taken in so many parts, from small to large."""
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
    return tuple(sorted(_within_one(found), key=lambda item: (-item.share, item.parameter, item.metric)))


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
    """None where too few values of the parameter were tried more than once to say anything."""
    is_log = bool((values > 0).all())
    size = 1.0 if is_log else float(np.abs(values).max()) or 1.0
    y = np.log(values) if is_log else values / size  # squares of what is tiny would be 0
    if y.max() == y.min():
        return None
    counts = np.bincount(column.codes)
    numbers = _numbers(column)
    rho = None
    if numbers is not None and (counts < _FEWEST_A_VALUE).any() and len(counts) > _BINS:
        rho = _rank_correlation(numbers[column.codes], y)
        column = _binned(column, numbers)
    column, y = _repeated(column, y)
    n, levels = len(y), len(column.labels)
    if levels < 2 or n <= levels or y.max() == y.min():
        return None
    counts = np.bincount(column.codes)
    means = np.bincount(column.codes, weights=y) / counts
    unexplained = float(((y - means[column.codes]) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    share = max(0.0, 1 - unexplained * (n - 1) / (n - levels))
    shown = np.exp(means) if is_log else means * size
    rows = zip(column.labels, map(float, shown), map(int, counts), strict=True)
    ranked = tuple(sorted((LevelMean(*row) for row in rows), key=lambda item: -item.mean))
    return Influence(column.name, metric, share, n, ranked, rho)


def _numbers(column: _Column) -> NDArray[np.float64] | None:
    """The values where all are numbers."""
    values = [v for v in column.values if isinstance(v, int | float) and not isinstance(v, bool)]
    return np.array(values, dtype=float) if len(values) == len(column.values) else None


def _binned(column: _Column, numbers: NDArray[np.float64]) -> _Column:
    """The trials in three parts of about the same size by the parameter's value; equal values stay together."""
    values = numbers[column.codes]
    ordered = np.sort(values)
    edges = [ordered[len(ordered) * part // _BINS] for part in range(1, _BINS)]
    bins = np.searchsorted(edges, values, side="right")
    _, codes = np.unique(bins, return_inverse=True)
    parts = [values[codes == code] for code in range(int(codes.max()) + 1)]
    labels = [
        f"{part.min():g} to {part.max():g}" if part.min() < part.max() else f"{part.min():g}"
        for part in parts
    ]
    return _Column(column.name, labels, labels, codes.astype(np.intp))


def _repeated(column: _Column, y: NDArray[np.float64]) -> tuple[_Column, NDArray[np.float64]]:
    """Column and values without the trials whose value of the parameter was tried once."""
    counts = np.bincount(column.codes, minlength=len(column.labels))
    kept = np.flatnonzero(counts >= _FEWEST_A_VALUE)
    inside = np.isin(column.codes, kept)
    codes = np.searchsorted(kept, column.codes[inside])
    labels, values = [column.labels[k] for k in kept], [column.values[k] for k in kept]
    return _Column(column.name, labels, values, codes.astype(np.intp)), y[inside]


def _within_one(found: Sequence[Influence]) -> list[Influence]:
    """Shares that together are at most all of a metric's variation: what goes along with several parameters
    was counted for each of them.
    """
    totals: dict[str, float] = {}
    for item in found:
        totals[item.metric] = totals.get(item.metric, 0.0) + item.share
    return [replace(item, share=item.share / max(1.0, totals[item.metric])) for item in found]


def _rank_correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 0; equal values share their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts + 1) / 2)[which]
    return ranks
