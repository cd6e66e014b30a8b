"""Plotly figures as plain JSON values (plotly itself draws them in the browser, and is not imported here)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from dashboards.chart import Axis, Chart, Dot, Mark
from dashboards.framing import Label, axis_range, key_labels, labels, trial_range
from trials.metrics import Direction
from tuner.results.wording import number_text

BLUE, GREY, RED, AMBER, GREEN = "#2f7de1", "#8b95a3", "#d9582b", "#d99a00", "#1a9c5b"
PALE = "#8fb8ee"
STYLES: dict[Mark, dict[str, Any]] = {
    Mark.INFEASIBLE: {"symbol": "x-thin", "size": 8, "color": RED, "line": {"width": 2, "color": RED}},
    Mark.OTHER: {"symbol": "circle", "size": 8, "color": GREY},
    Mark.UNCONFIRMED: {
        "symbol": "circle-open",
        "size": 12,
        "color": BLUE,
        "line": {"width": 2, "color": BLUE},
    },
    Mark.UNDECIDED: {
        "symbol": "circle-dot",
        "size": 12,
        "color": PALE,
        "line": {"width": 2, "color": RED},
    },
    Mark.CONFIRMED: {"symbol": "circle", "size": 12, "color": BLUE},
    Mark.BASELINE: {"symbol": "diamond", "size": 14, "color": AMBER},
}
RECOMMENDED = {"symbol": "circle-open", "size": 24, "color": GREEN, "line": {"width": 2.5, "color": GREEN}}


def pair_figure(chart: Chart, x: int, y: int) -> dict[str, Any]:
    """Two objectives against each other."""
    xs, ys = chart.staircase(x, y)
    edge = {
        "type": "scatter", "mode": "lines", "x": xs, "y": ys, "name": "front", "showlegend": False,
        "line": {"color": BLUE, "width": 1.5, "dash": "dot"}, "hoverinfo": "skip",
    }  # fmt: skip
    traces = [edge, *_marks(chart, lambda dot: dot.numbers[x].value, x, y)]
    layout = {
        "xaxis": {"title": {"text": _safe(chart.axes[x].title)}, "range": list(axis_range(chart, x))},
        "yaxis": {"title": {"text": _safe(chart.axes[y].title)}, "range": list(axis_range(chart, y))},
        "shapes": [*_limit_lines(chart.axes[x], "x"), *_limit_lines(chart.axes[y], "y")],
        "annotations": [_annotation(label, label.dot.numbers[x].value, y) for label in labels(chart, x, y)],
    }
    return {"name": f"{chart.axes[x].metric} and {chart.axes[y].metric}", "data": traces, "layout": layout}


def history_figure(chart: Chart) -> dict[str, Any]:
    """One objective over the trials, with the best so far among those that meet every limit."""
    axis = chart.axes[0]
    numbers, best = best_so_far(chart)
    line = {
        "type": "scatter", "mode": "lines", "x": numbers, "y": best, "name": "best so far",
        "line": {"color": BLUE, "width": 1.5, "shape": "hv"}, "hoverinfo": "skip",
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "trial"}, "range": list(trial_range(chart))},
        "yaxis": {"title": {"text": _safe(axis.title)}, "range": list(axis_range(chart, 0))},
        "shapes": _limit_lines(axis, "y"),
        "annotations": [
            {**_annotation(label, label.dot.trial, 0), "xshift": 0, "yshift": 12}
            for label in key_labels(chart)
        ],
    }
    return {
        "name": axis.metric,
        "data": [line, *_marks(chart, lambda dot: dot.trial, None, 0)],
        "layout": layout,
    }


def parallel_figure(chart: Chart) -> dict[str, Any]:
    """Every objective as an upright axis, one line a trial: for three objectives and more."""
    dimensions = []
    for index, axis in enumerate(chart.axes):
        values = [dot.numbers[index].value for dot in chart.dots]
        low, high = min(values), max(values)
        ends = [high, low] if axis.direction is Direction.MINIMIZE else [low, high]  # better is always up
        dimensions.append({"label": _safe(axis.metric), "values": values, "range": ends})
    shades = [list(Mark).index(dot.mark) for dot in chart.dots]
    colors = [RED, GREY, PALE, PALE, BLUE, AMBER]  # in the order of the marks
    scale = [[index / (len(colors) - 1), color] for index, color in enumerate(colors)]
    line = {"color": shades, "colorscale": scale, "cmin": 0, "cmax": len(colors) - 1}
    layout = {"margin": {"l": 90, "r": 60, "t": 60, "b": 30}, "height": 360}
    return {"data": [{"type": "parcoords", "line": line, "dimensions": dimensions}], "layout": layout}


def best_so_far(chart: Chart) -> tuple[list[int], list[float]]:
    """Trial numbers and the best value up to each, for the first objective."""
    numbers: list[int] = []
    best: list[float] = []
    sign = chart.axes[0].direction.sign
    for dot in sorted(chart.dots, key=lambda dot: dot.trial):
        value = dot.numbers[0].value
        if dot.mark is Mark.INFEASIBLE or (best and sign * value >= sign * best[-1]):
            continue
        numbers.append(dot.trial)
        best.append(value)
    last = max((dot.trial for dot in chart.dots), default=0)
    return ([*numbers, last], [*best, best[-1]]) if best else ([], [])


def _marks(chart: Chart, place: Any, x: int | None, y: int) -> list[dict[str, Any]]:
    traces = []
    for mark in Mark:
        dots = [dot for dot in chart.dots if dot.mark is mark]
        if dots:
            trace = _scatter(dots, mark.value, STYLES[mark], place, y, chart)
            trace["error_y"] = _errors(dots, y)
            if x is not None:
                trace["error_x"] = _errors(dots, x)
            traces.append(trace)
    ring = [dot for dot in chart.dots if dot.is_recommended]
    if ring:
        traces.append({**_scatter(ring, "recommended", RECOMMENDED, place, y, chart), "hoverinfo": "skip"})
        del traces[-1]["hovertemplate"]
    return traces


def _scatter(
    dots: Sequence[Dot], name: str, marker: dict[str, Any], place: Any, y: int, chart: Chart
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [place(dot) for dot in dots],
        "y": [dot.numbers[y].value for dot in dots],
        "marker": marker,
        "text": [_hover(chart, dot) for dot in dots],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _errors(dots: Sequence[Dot], index: int) -> dict[str, Any]:
    reach = [dot.numbers[index].reach if dot.shows_interval else (0.0, 0.0) for dot in dots]
    return {
        "type": "data", "symmetric": False, "array": [above for _, above in reach],
        "arrayminus": [below for below, _ in reach], "thickness": 1.2, "width": 4,
        "visible": any(below or above for below, above in reach),
    }  # fmt: skip


def _hover(chart: Chart, dot: Dot) -> str:
    """Plotly reads a little HTML here, so everything of the user's is escaped."""
    lines = [f"<b>trial {dot.trial}</b>, {dot.mark.value}{', recommended' if dot.is_recommended else ''}"]
    for axis, number in zip(chart.axes, dot.numbers, strict=True):
        unit = f" {axis.unit}" if axis.unit not in ("", "1") else ""
        known = number.low is not None and number.high is not None
        span = f" [{number_text(number.low or 0.0)} to {number_text(number.high or 0.0)}]" if known else ""
        lines.append(_safe(f"{axis.metric}: {number_text(number.value)}{unit}{span}"))
    return "<br>".join([*lines, "", *map(_safe, dot.details)])


def _annotation(label: Label, across: float, y: int) -> dict[str, Any]:
    return {
        "x": across, "y": label.dot.numbers[y].value, "text": _safe(label.text),
        "showarrow": False, "font": {"size": 12},
        "xanchor": "left" if label.right else "right", "yanchor": "bottom" if label.up else "top",
        "xshift": 8 if label.right else -8, "yshift": 6 if label.up else -6,
    }  # fmt: skip


def _limit_lines(axis: Axis, letter: str) -> list[dict[str, Any]]:
    """A dashed line across the whole plot for each limit on the axis."""
    other = "y" if letter == "x" else "x"
    whole = {"type": "line", f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
    line = {"color": RED, "width": 1.2, "dash": "dash"}
    return [
        {
            **whole,
            f"{letter}0": limit.value,
            f"{letter}1": limit.value,
            "line": line,
            "label": {
                "text": _safe(f"limit: {limit}"),
                "textposition": "start",
                "font": {"color": RED, "size": 11},
            },
        }
        for limit in axis.limits
    ]


def _safe(text: str) -> str:
    return html.escape(text, quote=False)
