"""Which part of the plane a plot shows, and where its labels stand. Pure geometry, shared by both plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.chart import Axis, Chart, Dot, Mark
from trials.metrics import Direction

_MAIN = (Mark.BASELINE, Mark.CONFIRMED, Mark.UNDECIDED, Mark.UNCONFIRMED)
_MOST_LABELS = 9
"""So many are told what they change; the others are named by number."""
Box = tuple[float, float, float, float]
"""Left, bottom, right, top in shares of the plot."""


@dataclass(frozen=True)
class Label:
    """A text beside a dot: ``right`` and ``up`` say on which side."""

    dot: Dot
    text: str
    right: bool
    up: bool


def axis_range(chart: Chart, index: int) -> tuple[float, float]:
    """From where to where an axis goes: around front and baseline, with what lies not too far from them.

    One trial that diverged must not squeeze the front into a corner. The better side gets more room: there
    stand the labels.
    """
    axis = chart.axes[index]
    main = [dot for dot in chart.dots if dot.mark in _MAIN] or list(chart.dots)
    low, high = _span(main, index)
    reach = 2.5 * (high - low)
    near = [dot for dot in chart.dots if low - reach <= dot.numbers[index].value <= high + reach]
    low, high = _span([*near, *main], index)
    bounds = [limit.value for limit in axis.limits if low - reach <= limit.value <= high + reach]
    low, high = min([low, *bounds]), max([high, *bounds])
    better, worse = 0.3 * (high - low), 0.08 * (high - low)
    return (low - worse, high + better) if _goes_up(axis) else (low - better / 2, high + worse)


def outside(chart: Chart, x: int, y: int) -> int:
    """How many dots the ranges leave out."""
    ranges = [(axis, *axis_range(chart, axis)) for axis in (x, y)]
    return sum(any(not low <= dot.numbers[i].value <= high for i, low, high in ranges) for dot in chart.dots)


def labels(chart: Chart, x: int, y: int, letter: float = 0.0078) -> list[Label]:
    """Labels of the front and the baseline on the side where no trial can be (nothing beats the front).

    A label that would cover another, or a bar of an interval, moves to another side of its dot; where no side
    is free it is cut to the trial's number, so that every member of the front is named. ``letter`` is the width
    of a letter as a share of the plot.
    """
    right, up = _goes_up(chart.axes[x]), _goes_up(chart.axes[y])
    named = [dot for dot in chart.dots if dot.mark in _MAIN]
    named.sort(key=lambda dot: (not dot.is_recommended, dot.mark is not Mark.BASELINE, dot.numbers[x].value))
    sides = ((right, up), (right, not up), (not right, up), (not right, not up))
    placed: list[Label] = []
    boxes: list[Box] = []
    bars = [bar for dot in named for bar in _bars(chart, dot, x, y)]
    for position, dot in enumerate(named):
        texts = [_text(dot), str(dot.trial)] if position < _MOST_LABELS else [str(dot.trial)]
        tries = [(text, side, blocked) for blocked in (bars, []) for text in texts for side in sides]
        for text, side, blocked in tries:
            box = _box(chart, dot, x, y, side, letter * len(text))
            if _is_inside(box) and not any(_overlap(box, other) for other in (*boxes, *blocked)):
                break
        else:  # no room at all: the number stands where it would stand alone
            text, side = str(dot.trial), sides[0]
            box = _box(chart, dot, x, y, side, letter * len(text))
        placed.append(Label(dot, text, *side))
        boxes.append(box)
    return placed


def key_labels(chart: Chart) -> list[Label]:
    """Labels of the baseline and the recommended trial, above their dots in a history."""
    named = [dot for dot in chart.dots if dot.is_recommended or dot.mark is Mark.BASELINE]
    return [Label(dot, _text(dot), right=True, up=True) for dot in named]


def trial_range(chart: Chart) -> tuple[float, float]:
    """From where to where the axis of trial numbers goes."""
    last = max((dot.trial for dot in chart.dots), default=0)
    return -0.04 * max(1, last), 1.08 * max(1, last)


def _text(dot: Dot) -> str:
    return dot.label if dot.mark is Mark.BASELINE else f"{dot.trial}: {dot.label}"


def _bars(chart: Chart, dot: Dot, x: int, y: int) -> list[Box]:
    """The bars of a dot's intervals, as thin boxes."""
    if not dot.shows_interval:
        return []
    ends = []
    for index in (x, y):
        low, high = axis_range(chart, index)
        below, above = dot.numbers[index].reach
        value = dot.numbers[index].value
        ends.append(((value - below - low) / (high - low), (value + above - low) / (high - low)))
    (left, right), (bottom, top) = ends
    across, along = _share(chart, x, dot), _share(chart, y, dot)
    half = 0.003
    return [(left, along - half, right, along + half), (across - half, bottom, across + half, top)]


def _is_inside(box: Box) -> bool:
    return box[0] >= -0.01 and box[2] <= 1.01


def _box(chart: Chart, dot: Dot, x: int, y: int, side: tuple[bool, bool], width: float) -> Box:
    """Left, bottom, right, top of a label in shares of the plot."""
    across, along = _share(chart, x, dot), _share(chart, y, dot)
    height, gap = 0.042, 0.012
    left = across + gap if side[0] else across - gap - width
    bottom = along + gap if side[1] else along - gap - height
    return left, bottom, left + width, bottom + height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _share(chart: Chart, index: int, dot: Dot) -> float:
    low, high = axis_range(chart, index)
    return (dot.numbers[index].value - low) / (high - low)


def _span(dots: Sequence[Dot], index: int) -> tuple[float, float]:
    ends = []
    for dot in dots:
        number = dot.numbers[index]
        below, above = number.reach if dot.shows_interval else (0.0, 0.0)
        ends += [number.value - below, number.value + above]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    if high > low:
        return low, high
    half = 0.05 * abs(low) or 0.5
    return low - half, high + half


def _goes_up(axis: Axis) -> bool:
    return axis.direction is Direction.MAXIMIZE
