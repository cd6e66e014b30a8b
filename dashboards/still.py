"""The same plots as a picture, for places without a browser."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dashboards.chart import Axis, Chart, Dot, Mark
from dashboards.figures import AMBER, BLUE, GREEN, GREY, PALE, RED, best_so_far
from dashboards.framing import axis_range, key_labels, labels, trial_range
from tuner.results.wording import number_text

_STYLES: dict[Mark, dict[str, Any]] = {
    Mark.INFEASIBLE: {"marker": "x", "color": RED, "markersize": 6},
    Mark.OTHER: {"marker": "o", "color": GREY, "markersize": 5},
    Mark.UNCONFIRMED: {
        "marker": "o",
        "color": BLUE,
        "markersize": 8,
        "markerfacecolor": "none",
        "markeredgewidth": 1.8,
    },
    Mark.UNDECIDED: {
        "marker": "o",
        "color": PALE,
        "markersize": 8,
        "markeredgecolor": RED,
        "markeredgewidth": 1.4,
    },
    Mark.CONFIRMED: {"marker": "o", "color": BLUE, "markersize": 8},
    Mark.BASELINE: {"marker": "D", "color": AMBER, "markersize": 8},
}
_MOST_PANELS = 6
_LETTER = 0.0085  # width of a letter as a share of a panel that fills the picture


def picture(chart: Chart) -> bytes:
    """The chart as a PNG: one panel for two objectives, one a pair for more, a history for one."""
    with matplotlib.rc_context({"text.parse_math": False, "font.size": 10}):  # a $ in a configuration is a $
        return _png(_figure(chart))


def _figure(chart: Chart) -> Figure:
    pairs = chart.pairs()[:_MOST_PANELS] if chart.dots else []
    columns = min(2, max(1, len(pairs)))
    rows = max(1, -(-len(pairs) // columns))
    figure = Figure(figsize=(9.6 if columns == 1 else 15, 5.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    figure.suptitle(f"{chart.study}: {chart.caption}", fontsize=11, x=0.01, ha="left")
    for axes in panels[max(1, len(pairs)) :]:
        axes.set_axis_off()
    if not chart.dots:
        panels[0].set_axis_off()
        panels[0].text(0.5, 0.5, "nothing to draw yet", ha="center", va="center", fontsize=14, color=GREY)
    elif not pairs:
        _history(panels[0], chart)
    for axes, (x, y) in zip(panels, pairs, strict=False):
        _pair(axes, chart, x, y, _LETTER * columns)
    if chart.dots:
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=7, frameon=False, fontsize=9)
    return figure


def _pair(axes: Any, chart: Chart, x: int, y: int, letter: float) -> None:
    axes.plot(*chart.staircase(x, y), color=BLUE, linewidth=1.2, linestyle=":", zorder=1)
    _marks(axes, chart, x, y)
    for label in labels(chart, x, y, letter):
        axes.annotate(
            label.text,
            (label.dot.numbers[x].value, label.dot.numbers[y].value),
            xytext=(7 if label.right else -7, 6 if label.up else -6),
            textcoords="offset points",
            ha="left" if label.right else "right",
            va="bottom" if label.up else "top",
            fontsize=9,
        )
    _dress(axes, chart, x, y)
    axes.set_xlabel(chart.axes[x].title)
    axes.set_xlim(axis_range(chart, x))
    _limits(axes, chart.axes[x], is_x=True)


def _history(axes: Any, chart: Chart) -> None:
    numbers, best = best_so_far(chart)
    axes.step(numbers, best, where="post", color=BLUE, linewidth=1.2, label="best so far")
    _marks(axes, chart, None, 0)
    _dress(axes, chart, None, 0)
    for label in key_labels(chart):
        axes.annotate(label.text, (label.dot.trial, label.dot.numbers[0].value), xytext=(0, 12),
                      textcoords="offset points", ha="left", fontsize=9)  # fmt: skip
    axes.set_xlabel("trial")
    axes.set_xlim(*trial_range(chart))


def _marks(axes: Any, chart: Chart, x: int | None, y: int) -> None:
    for mark in Mark:
        dots = [dot for dot in chart.dots if dot.mark is mark]
        if not dots:
            continue
        across = [dot.trial if x is None else dot.numbers[x].value for dot in dots]
        along = [dot.numbers[y].value for dot in dots]
        layer = 2 + list(Mark).index(mark)
        axes.plot(across, along, linestyle="none", label=mark.value, zorder=layer, **_STYLES[mark])
        bars = {"yerr": _reach(dots, y)} if x is None else {"xerr": _reach(dots, x), "yerr": _reach(dots, y)}
        if any(dot.shows_interval for dot in dots):
            style = {"fmt": "none", "ecolor": _STYLES[mark]["color"], "elinewidth": 1, "capsize": 3}
            axes.errorbar(across, along, zorder=layer, **bars, **style)
    for dot in chart.dots:
        if dot.is_recommended:
            spot = dot.trial if x is None else dot.numbers[x].value
            axes.plot([spot], [dot.numbers[y].value], "o", markersize=16, markerfacecolor="none", color=GREEN,
                      markeredgewidth=1.8, label="recommended", zorder=9)  # fmt: skip


def _reach(dots: Sequence[Dot], index: int) -> list[tuple[float, ...]]:
    """Below and above, as matplotlib wants them."""
    both = [dot.numbers[index].reach if dot.shows_interval else (0.0, 0.0) for dot in dots]
    return list(zip(*both, strict=True))


def _dress(axes: Any, chart: Chart, x: int | None, y: int) -> None:
    axes.set_ylabel(chart.axes[y].title)
    axes.set_ylim(axis_range(chart, y))
    _limits(axes, chart.axes[y], is_x=False)
    axes.grid(color="#e8ebf0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for side, index in ((axes.xaxis, x), (axes.yaxis, y)):
        if index is not None:
            side.set_major_formatter(lambda value, _: number_text(round(value, 12)))


def _limits(axes: Any, axis: Axis, *, is_x: bool) -> None:
    low, high = axes.get_xlim() if is_x else axes.get_ylim()
    for limit in axis.limits:
        if not low <= limit.value <= high:
            continue
        (axes.axvline if is_x else axes.axhline)(limit.value, color=RED, linewidth=1, linestyle="--")
        spot = (limit.value, 0.01) if is_x else (0.005, limit.value)
        axes.annotate(
            f"limit: {limit}",
            spot,
            xycoords=axes.get_xaxis_transform() if is_x else axes.get_yaxis_transform(),
            xytext=(3, 3),
            textcoords="offset points",
            rotation=90 if is_x else 0,
            color=RED,
            fontsize=8,
        )


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=120)
    return stream.getvalue()
