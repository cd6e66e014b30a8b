"""What a plot of a study shows, before any plot library is asked: dots, axes, limits, captions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from trials.contract import Outcome
from trials.metrics import Direction, unit_of
from tuner.objectives import Bound, Objective
from tuner.results import StudyResult, TrialResult
from tuner.results.wording import changes_text, value_text


class Mark(StrEnum):
    """How a trial is drawn, and its words in the legend. Order: drawn later lies on top."""

    INFEASIBLE = "breaks a limit"
    OTHER = "not on the front"
    UNCONFIRMED = "front, not confirmed"
    UNDECIDED = "front, limit undecided"
    CONFIRMED = "front, confirmed"
    BASELINE = "baseline"


@dataclass(frozen=True)
class Number:
    """A value with its 95% interval, where known."""

    value: float
    low: float | None
    high: float | None

    @property
    def reach(self) -> tuple[float, float]:
        """How far the interval goes below and above the value; 0 where unknown."""
        if self.low is None or self.high is None:
            return 0.0, 0.0
        return max(0.0, self.value - self.low), max(0.0, self.high - self.value)


@dataclass(frozen=True)
class Dot:
    """A complete trial: one number per axis, in the chart's order."""

    trial: int
    mark: Mark
    numbers: tuple[Number, ...]
    label: str
    details: tuple[str, ...]
    is_recommended: bool
    shows_interval: bool


@dataclass(frozen=True)
class Axis:
    """An objective as an axis; ``limits`` are the bounds on the same metric."""

    metric: str
    unit: str
    direction: Direction
    limits: tuple[Bound, ...]

    @property
    def title(self) -> str:
        """``tokens_per_s [tokens/s], more is better``."""
        unit = f" [{self.unit}]" if self.unit and self.unit != "1" else ""
        return f"{self.metric}{unit}, {'more' if self.direction is Direction.MAXIMIZE else 'less'} is better"


@dataclass(frozen=True)
class Chart:
    """A study as dots in the space of its objectives; ``front`` are positions in ``dots``."""

    study: str
    axes: tuple[Axis, ...]
    dots: tuple[Dot, ...]
    front: tuple[int, ...]
    caption: str
    history: tuple[tuple[int, float], ...]

    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of axes worth looking at: each two objectives, the main one first."""
        count = len(self.axes)
        return [(x, y) for x in range(count) for y in range(x + 1, count)]

    def staircase(self, x: int, y: int) -> tuple[list[float], list[float]]:
        """The edge of what the front dominates in two axes, as a line; empty with fewer than two corners."""
        spots = {(self.dots[i].numbers[x].value, self.dots[i].numbers[y].value) for i in self.front}
        kept = [spot for spot in spots if not any(self._beats(other, spot, x, y) for other in spots - {spot})]
        xs: list[float] = []
        ys: list[float] = []
        for left, right in zip(kept := sorted(kept), kept[1:], strict=False):
            corner_x = left[0] if self.axes[x].direction is Direction.MAXIMIZE else right[0]
            corner_y = right[1] if corner_x == left[0] else left[1]
            xs += [left[0], corner_x]
            ys += [left[1], corner_y]
        return ([*xs, kept[-1][0]], [*ys, kept[-1][1]]) if len(kept) > 1 else ([], [])

    def _beats(self, one: tuple[float, float], other: tuple[float, float], x: int, y: int) -> bool:
        signs = self.axes[x].direction.sign, self.axes[y].direction.sign
        return all(sign * a <= sign * b for sign, a, b in zip(signs, one, other, strict=True))


def chart_of(result: StudyResult) -> Chart:
    """The chart of a study; trials without finite objective values are in the caption only."""
    axes = tuple(_axis(objective, result) for objective in result.objectives)
    shown = [trial for trial in result.trials if _is_complete(trial, result)]
    dots = sorted((_dot(trial, result) for trial in shown), key=lambda dot: list(Mark).index(dot.mark))
    front = tuple(i for i, dot in enumerate(dots) if dot.trial in result.front)
    return Chart(result.name, axes, tuple(dots), front, _caption(result, len(shown)), result.history)


def config_text(trial: TrialResult) -> list[str]:
    """``name = value`` for each parameter, as the space file would write it."""
    return [f"{name} = {value_text(value)}" for name, value in trial.config.items()]


def _axis(objective: Objective, result: StudyResult) -> Axis:
    units = [t.estimates[objective.metric].unit for t in result.trials if objective.metric in t.estimates]
    limits = tuple(bound for bound in result.bounds if bound.metric == objective.metric)
    return Axis(
        objective.metric, units[0] if units else unit_of(objective.metric), objective.direction, limits
    )


def _is_complete(trial: TrialResult, result: StudyResult) -> bool:
    estimates = [trial.estimates.get(objective.metric) for objective in result.objectives]
    return trial.outcome is Outcome.COMPLETE and all(
        e is not None and math.isfinite(e.value) for e in estimates
    )


def _dot(trial: TrialResult, result: StudyResult) -> Dot:
    numbers = []
    for objective in result.objectives:
        estimate = trial.estimates[objective.metric]
        numbers.append(Number(estimate.value, estimate.low, estimate.high))
    return Dot(
        trial=trial.number,
        mark=_mark(trial),
        numbers=tuple(numbers),
        label=changes_text(trial),
        details=tuple(config_text(trial)),
        is_recommended=result.recommended is not None and result.recommended.trial == trial.number,
        shows_interval=trial.is_confirmed or trial.number == 0,
    )


def _mark(trial: TrialResult) -> Mark:
    if trial.number == 0:
        return Mark.BASELINE
    if trial.on_front:
        if not trial.is_confirmed:
            return Mark.UNCONFIRMED
        return Mark.UNDECIDED if trial.has_undecided_limit else Mark.CONFIRMED
    return Mark.INFEASIBLE if trial.is_feasible is False else Mark.OTHER


def _caption(result: StudyResult, shown: int) -> str:
    if not result.trials:
        return "No trial has been run yet."
    hidden = {str(kind): count for kind, count in result.failures.items()}
    hidden |= {str(o): n for o, n in result.counts.items() if o not in (Outcome.COMPLETE, Outcome.FAILED)}
    text = f"{shown} of {len(result.trials)} trials have values"
    return (
        f"{text}; not shown: {', '.join(f'{n} {kind}' for kind, n in hidden.items())}."
        if hidden
        else f"{text}."
    )
