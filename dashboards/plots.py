"""Plots of a study: an interactive page that needs no network, and a picture."""

from __future__ import annotations

from dashboards.chart import chart_of
from dashboards.figures import history_figure, pair_figure, parallel_figure
from dashboards.framing import outside
from dashboards.pages import page, plotly_script
from tuner.results import StudyResult


def front_html(result: StudyResult) -> str:
    """The front as a self-contained page (about 5 MB, nearly all of it Plotly's script).

    Two objectives: one plot. More: a choice of axes, and parallel coordinates. One: its history.
    """
    chart = chart_of(result)
    pairs = chart.pairs()
    figures = [pair_figure(chart, x, y) for x, y in pairs] or [history_figure(chart)]
    return page(
        "front.html",
        chart=chart,
        figures=figures if chart.dots else [],
        parallel=parallel_figure(chart) if len(chart.axes) > 2 and chart.dots else None,
        outside=outside(chart, *pairs[0]) if pairs and chart.dots else 0,
        plotlyjs=plotly_script() if chart.dots else "",
    )


def front_png(result: StudyResult) -> bytes:
    """The front as a PNG picture, 1150 pixels wide for two objectives."""
    from dashboards.still import picture  # matplotlib takes half a second to load

    return picture(chart_of(result))
