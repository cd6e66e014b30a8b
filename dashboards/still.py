"""The same plots as a picture, for places without a browser."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dashboards.chart import Axis, Chart, Mark
from dashboards.figures import AMBER, BLUE, GREEN, GREY, RED, best_so_far
from dashboards.framing import axis_range, labels

_STYLES: dict[Mark, dict[str, Any]] = {
    Mark.INFEASIBLE: {"marker": "x", "color": RED, "markersize": 6},
    Mark.OTHER: {"marker": "o", "color": GREY, "markersize": 5},
    Mark.UNCONFIRMED: {"marker": "o", "color": BLUE, "markersize": 8, "markerfacecolor": "none", "markeredgewidth": 1.8},
    Mark.CONFIRMED: {"marker": "o", "color": BLUE, "markersize": 8},
    Mark.BASELINE: {"marker": "D", "color": AMBER, "markersize": 8},
}
_MOST_PANELS = 6


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
    figure.suptitle(f"{chart.study}\n{chart.caption}", fontsize=11, x=0.01, ha="left")
    for axes in panels[max(1, len(pairs)) :]:
        axes.set_axis_off()
    if not chart.dots:
        panels[0].set_axis_off()
        panels[0].text(0.5, 0.5, "nothing to draw yet", ha="center", va="center", fontsize=14, color=GREY)
    elif not pairs:
        _history(panels[0], chart)
    for axes, (x, y) in zip(panels, pairs, strict=False):
        _pair(axes, chart, x, y)
    return figure


def _pair(axes: Any, chart: Chart, x: int, y: int) -> None:
    axes.plot(*chart.staircase(x, y), color=BLUE, linewidth=1.2, linestyle=":", zorder=1)
    _marks(axes, chart, x, y)
    for label in labels(chart, x, y):
        axes.annotate(
            label.text,
            (label.dot.numbers[x].value, label.dot.numbers[y].value),
            xytext=(7 if label.right else -7, 6 if label.up else -6),
            textcoords="offset points",
            ha="left" if label.right else "right",
            va="bottom" if label.up else "top",
            fontsize=9,
        )
    _dress(axes, chart, y)
    _limits(axes, chart.axes[x], is_x=True)
    axes.set_xlabel(chart.axes[x].title)
    axes.set_xlim(axis_range(chart, x))


def _history(axes: Any, chart: Chart) -> None:
    numbers, best = best_so_far(chart)
    axes.step(numbers, best, where="post", color=BLUE, linewidth=1.2, label="best so far")
    _marks(axes, chart, None, 0)
    _dress(axes, chart, 0)
    axes.set_xlabel("trial")


def _marks(axes: Any, chart: Chart, x: int | None, y: int) -> None:
    for mark in Mark:
        dots = [dot for dot in chart.dots if dot.mark is mark]
        if not dots:
            continue
        across = [dot.trial if x is None else dot.numbers[x].value for dot in dots]
        reach = [[dot.numbers[i].reach if dot.shows_interval else (0.0, 0.0) for dot in dots] for i in (x or 0, y)]
        axes.errorbar(
            across,
            [dot.numbers[y].value for dot in dots],
            xerr=None if x is None else list(zip(*reach[0], strict=True)),
            yerr=list(zip(*reach[1], strict=True)),
            linestyle="none",
            label=mark.value,
            elinewidth=1,
            capsize=3,
            zorder=2 + list(Mark).index(mark),
            **_STYLES[mark],
        )
    for dot in chart.dots:
        if dot.is_recommended:
            spot = dot.trial if x is None else dot.numbers[x].value
            axes.plot([spot], [dot.numbers[y].value], "o", markersize=16, markerfacecolor="none", color=GREEN,
                      markeredgewidth=1.8, label="recommended", zorder=9)  # fmt: skip


def _dress(axes: Any, chart: Chart, y: int) -> None:
    axes.set_ylabel(chart.axes[y].title)
    axes.set_ylim(axis_range(chart, y))
    _limits(axes, chart.axes[y], is_x=False)
    axes.grid(color="#e8ebf0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.ticklabel_format(useOffset=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=6, frameon=False, fontsize=9, columnspacing=1.2)


def _limits(axes: Any, axis: Axis, *, is_x: bool) -> None:
    for limit in axis.limits:
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
