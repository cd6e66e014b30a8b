from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations

import pytest

from dashboards.chart import Mark, chart_of
from dashboards.figures import best_so_far, pair_figure
from dashboards.framing import _bars, _box, _overlap, axis_range, labels, outside
from dashboards.plots import front_html, front_png
from tests.unit.tracking import example
from trials.contract import FailureKind
from tuner.results import StudyResult, judge

SCRIPT = "<script>alert('x')</script>"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def result() -> StudyResult:
    return judge(example.study())


def one_objective() -> StudyResult:
    return judge(example.study(objectives=(example.SPEED,), reference_point={"tokens_per_s": 0.0}))


def three_objectives() -> StudyResult:
    reference = {"tokens_per_s": 0.0, "val_loss_nats": 4.62, "peak_memory_gib": 6.0}
    objectives = (example.SPEED, example.LOSS, example.MEMORY)
    return judge(example.study(objectives=objectives, reference_point=reference))


def no_trials() -> StudyResult:
    return judge(example.study([], bounds=None, reference_point=None, stopped_because=None))


def without_plotly(page: str) -> str:
    """The page less Plotly's own script, which is the longest one."""
    return page.replace(max(re.findall(r"<script>.*?</script>", page, re.DOTALL), key=len), "")


def test_every_complete_trial_is_a_dot_with_its_own_mark(result: StudyResult) -> None:
    marks = {dot.trial: dot.mark for dot in chart_of(result).dots}
    assert marks == {
        0: Mark.BASELINE, 1: Mark.CONFIRMED, 5: Mark.CONFIRMED, 6: Mark.CONFIRMED, 9: Mark.UNCONFIRMED,
        2: Mark.OTHER, 7: Mark.OTHER, 4: Mark.INFEASIBLE, 13: Mark.INFEASIBLE,
    }  # fmt: skip


def test_trials_without_values_are_counted_by_kind(result: StudyResult) -> None:
    caption = chart_of(result).caption
    assert caption.startswith("9 of 14 trials have values")
    assert "2 out_of_memory" in caption and "1 pruned" in caption


def test_only_what_was_measured_again_has_error_bars(result: StudyResult) -> None:
    traces = {trace["name"]: trace for trace in pair_figure(chart_of(result), 0, 1)["data"]}
    assert all(length > 0 for length in traces["front, confirmed"]["error_y"]["array"])
    assert not traces["front, not confirmed"]["error_y"]["visible"]


def test_the_staircase_bounds_what_the_front_dominates(result: StudyResult) -> None:
    chart = chart_of(result)
    xs, ys = chart.staircase(0, 1)
    assert list(zip(xs, ys, strict=True))[::2] == sorted(
        (chart.dots[i].numbers[0].value, chart.dots[i].numbers[1].value) for i in chart.front
    )
    for before, after in zip(zip(xs, ys, strict=True), list(zip(xs, ys, strict=True))[1:], strict=False):
        assert before[0] == after[0] or before[1] == after[1], "only upright and level steps"


def test_every_member_of_the_front_is_named_even_where_many_crowd() -> None:
    trials = [
        example.trial(n, [example.run(n, example.numbers(1e4 + 10 * n, 2.3 + 1e-4 * n))], micro_batch_size=n)
        for n in range(30)
    ]
    chart = chart_of(judge(example.study(trials)))
    named = {label.dot.trial: label.text for label in labels(chart, 0, 1)}
    assert named.keys() == {chart.dots[i].trial for i in chart.front} | {0}
    assert any(text == str(number) for number, text in named.items()), "no room for words: the number alone"


def test_a_label_stands_clear_of_the_bars_where_there_is_room(result: StudyResult) -> None:
    chart = chart_of(result)
    bars = [bar for dot in chart.dots if dot.mark is not Mark.OTHER for bar in _bars(chart, dot, 0, 1)]
    placed = labels(chart, 0, 1)
    boxes = [_box(chart, one.dot, 0, 1, (one.right, one.up), 0.0078 * len(one.text)) for one in placed]
    assert not any(_overlap(box, bar) for box in boxes for bar in bars)
    assert not any(_overlap(a, b) for a, b in combinations(boxes, 2))


def test_the_plot_fits_the_pane_that_it_is_shown_in(result: StudyResult) -> None:
    assert "window.innerHeight" in without_plotly(front_html(result))


def test_one_trial_that_diverged_does_not_squeeze_the_front() -> None:
    trials = example.usual_trials()
    trials[4] = example.trial(4, [example.run(4, example.numbers(26_100, 55.0))], precision="bf16")
    chart = chart_of(judge(example.study(trials)))
    low, high = axis_range(chart, 1)
    assert low < 2.26 and 2.36 < high < 3
    assert outside(chart, 0, 1) == 1


def test_the_axes_name_metric_unit_and_direction(result: StudyResult) -> None:
    titles = [axis.title for axis in chart_of(result).axes]
    assert titles == ["tokens_per_s [tokens/s], more is better", "val_loss_nats [nats], less is better"]


def test_the_page_works_without_a_network(result: StudyResult) -> None:
    own = without_plotly(front_html(result))
    assert "http://" not in own and "https://" not in own
    assert not re.search(r"<(link|img|iframe)\b|<script[^>]*\bsrc", own)


def test_the_page_holds_the_front_its_limit_and_its_baseline(result: StudyResult) -> None:
    own = without_plotly(front_html(result))
    for words in ("front, confirmed", "recommended", "baseline", "limit: val_loss_nats \\u003c= 2.36"):
        assert words in own or words.replace("\\u003c", "\\u0026lt;") in own
    assert "prefers-color-scheme: dark" in own


def test_nothing_of_the_users_becomes_markup() -> None:
    trials = example.usual_trials()
    trials[1] = replace(trials[1], config={**trials[1].config, "precision": SCRIPT})
    page = front_html(judge(example.study(trials, name=f"lm{SCRIPT}")))
    assert SCRIPT not in page
    assert "&lt;script&gt;" in page


def test_three_objectives_offer_every_pair_of_axes_and_all_at_once() -> None:
    own = without_plotly(front_html(three_objectives()))
    assert own.count("<option") == 3 and 'id="parallel"' in own


def test_one_objective_is_a_history_with_the_best_so_far() -> None:
    chart = chart_of(one_objective())
    numbers, best = best_so_far(chart)
    assert numbers[-1] == 13 and best == sorted(best)
    assert 4 not in numbers, "a trial that breaks a limit is never the best"
    assert "best so far" in without_plotly(front_html(one_objective()))


def test_a_study_without_trials_says_so() -> None:
    page = front_html(no_trials())
    assert "No trial has been run yet" in page and len(page) < 10_000


def test_a_study_where_everything_failed_can_be_drawn() -> None:
    runs = [example.run(n, {}, failure=(FailureKind.CRASH, "boom")) for n in range(3)]
    result = judge(example.study([example.trial(n, [run]) for n, run in enumerate(runs)], bounds=None))
    assert "3 crash" in front_html(result)
    assert front_png(result).startswith(PNG)


@pytest.mark.parametrize("make", [one_objective, three_objectives, no_trials])
def test_the_picture_can_always_be_drawn(make: object) -> None:
    assert front_png(make()).startswith(PNG)  # type: ignore[operator]


def test_a_single_trial_can_be_drawn() -> None:
    result = judge(example.study([example.trial(0, [example.run(0, example.numbers(1e4, 2.3))])]))
    assert front_png(result).startswith(PNG)
    low, high = axis_range(chart_of(result), 0)
    assert low < 1e4 < high


def test_figures_are_plain_json(result: StudyResult) -> None:
    json.dumps(pair_figure(chart_of(result), 0, 1), allow_nan=False)
