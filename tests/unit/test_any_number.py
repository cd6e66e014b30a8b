"""Whatever finite numbers a program reports, nothing that compares or shows them raises, and no column bursts."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboards.chart import chart_of
from dashboards.figures import pair_figure
from dashboards.report import report_html
from tests import builders
from tests.contracts.sampler_suite import training_space
from trials.contract import LARGEST_NUMBER, FailureKind, MetricValue, Outcome, is_comparable
from trials.metrics import Direction
from tuner.cli.all_trials import all_trials_table
from tuner.cli.front import shown_gain
from tuner.cli.summary import summary_of
from tuner.cli.text import shown_measure
from tuner.comparison import (
    Difference,
    Spread,
    gain_over_baseline,
    paired_difference,
    pool_values,
    prediction_interval,
)
from tuner.export.table import render_csv
from tuner.loop.cutting import Finished, Guess, Partial, should_cut
from tuner.objectives import Bound, Objective
from tuner.results import as_json, judge
from tuner.results.wording import gain_text, number_text, share_text
from tuner.rounds import name_winner
from tuner.search.protocol import Expected, Observation, SearchProblem
from tuner.search.registry import build_sampler

EXTREMES = (0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.0, 1.0 + 2**-52, LARGEST_NUMBER, -LARGEST_NUMBER)
ANY = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from((*EXTREMES, 1e308, -1e300, 1e154))
)
COMPARABLE = st.one_of(st.floats(-LARGEST_NUMBER, LARGEST_NUMBER), st.sampled_from(EXTREMES))
SOME = st.lists(COMPARABLE, min_size=1, max_size=5)
EITHER = st.sampled_from([Objective("a", Direction.MAXIMIZE), Objective("a", Direction.MINIMIZE)])
quick = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(ANY, ANY, ANY)
def test_a_number_is_compared_up_to_a_size_whose_powers_are_still_numbers(
    value: float, low: float, high: float
) -> None:
    assert MetricValue(value, "").is_finite is (abs(value) <= 1e60)
    estimate = pool_values([MetricValue(min(value, 1e60), "", low=low, high=high)])
    assert estimate.low is None or estimate.low == estimate.low


@quick
@given(SOME, SOME, EITHER, st.booleans(), st.integers(1, 9))
def test_estimates_gains_and_predictions_never_raise(
    ours: list[float], theirs: list[float], goal: Objective, has_prior: bool, among: int
) -> None:
    base = pool_values([MetricValue(value, "") for value in theirs])
    spread = Spread(base.between or abs(theirs[0]), theirs[0], 2)
    trial = pool_values([MetricValue(value, "") for value in ours], spread if has_prior else None)
    for one, other in ((trial, base), (base, trial)):
        gain = gain_over_baseline(one, other)
        assert not math.isnan(gain.value)
        gain.is_improvement(goal, among)
        assert len(gain_text(gain)) < 60
        assert len(shown_gain(gain)) < 60
    low, high = prediction_interval([*ours, *ours], prior=spread)
    assert low <= high
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=False)]
    paired_difference([a for a, _ in pairs], [b for _, b in pairs])


@quick
@given(st.lists(st.tuples(COMPARABLE, COMPARABLE, COMPARABLE), min_size=2, max_size=4), EITHER)
def test_a_winner_is_looked_for_among_any_numbers(rows: list[tuple[float, ...]], goal: Objective) -> None:
    found = name_winner({number: dict(enumerate(row)) for number, row in enumerate(rows)}, goal)
    assert found.best in range(len(rows))


@quick
@given(st.lists(st.tuples(COMPARABLE, COMPARABLE), min_size=8, max_size=10), ANY, COMPARABLE, EITHER)
def test_cutting_judges_any_numbers(
    pairs: list[tuple[float, float]], early: float, bound: float, goal: Objective
) -> None:
    seen = [
        Finished(number, {"a": Guess(late, abs(late), 2.0)}, True, {0.1: {"a": value}})
        for number, (value, late) in enumerate(pairs)
    ]
    limits = (Bound("a", is_upper=True, value=bound, formula=""),)
    low, middle, high = sorted((pairs[0][0], pairs[1][0], pairs[2][0]))
    for partial in (Partial(0.1, {}, {"a": early}), Partial(0.2, {}, {})):
        said = should_cut(seen, partial, (goal,), limits, {"a": Expected(middle, low, high)})
        assert said is None or len(said) < 200


@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(ANY, ANY), min_size=8, max_size=8), ANY)
@pytest.mark.filterwarnings("error")
def test_a_study_of_any_numbers_is_judged_shown_and_exported(
    values: list[tuple[float, float]], other: float
) -> None:
    rows = [{"a": a, "b": b, "other": other} for a, b in values]
    base = {key: [row[key] for row in rows[:3]] for key in rows[0]}
    is_frozen = all(is_comparable(row[key]) for row in rows[:3] for key in ("a", "b"))
    study = builders.study(
        builders.baseline(base),
        *(
            builders.trial(
                number,
                builders.measurement(row),
                *builders.repeats({key: [row[key], rows[number][key]] for key in row}),
            )
            for number, row in enumerate(rows[3:], 1)
        ),
        objectives=(builders.objective("a"), builders.objective("b", "minimize")),
        constraints=(builders.limit("other", "max", 1.0),),
        is_frozen=is_frozen,
    )
    result = judge(study)
    for trial, row in zip(result.trials[1:], rows[3:], strict=True):
        if not (is_comparable(row["a"]) and is_comparable(row["b"])):
            assert trial.losses is not None or trial.failure_kind is FailureKind.NON_FINITE
    json.dumps(as_json(result), allow_nan=False)
    text = f"{summary_of(result)}\n{all_trials_table(result)}"
    assert max(map(len, text.splitlines())) < 300
    render_csv(result)
    report_html(study, result)
    chart = chart_of(result)
    json.dumps([pair_figure(chart, x, y) for x, y in chart.pairs()])


@quick
@given(ANY, ANY, ANY)
def test_every_number_fits_its_column(value: float, low: float, high: float) -> None:
    low, value, high = sorted((low, value, high))
    assert len(shown_measure(value, low, high)) <= 60
    assert len(shown_gain(Difference(abs(value), abs(low), abs(high), True, ""))) <= 60
    assert len(number_text(value)) <= 20
    assert len(share_text(value)) <= 20


def test_ratios_beyond_what_a_column_holds_have_an_exponent() -> None:
    assert shown_gain(Difference(9.6e23, None, None, True, "")) == "x9.6e+23"
    assert shown_gain(Difference(9.6e23, 9e23, 1e24, True, "")) == "x9.6e+23 (9e+23 to 1e+24)"
    assert shown_gain(Difference(1.2e-5, None, None, True, "")) == "x1.2e-05"
    assert gain_text(Difference(9.6e23, 9e23, 1e24, True, "")) == "x9.6e+23 (9e+23 to 1e+24)"
    assert shown_measure(1e25, 0.9e25, 1.1e25) == "1e+25 ± 1e+24"
    assert shown_measure(1e-320, 0.0, 2e-320) == "1e-320 ± 1e-320"
    assert share_text(1e298) == "1e+300%"
    assert share_text(0.1234) == "12.3%"


@settings(deadline=None, max_examples=2)
@given(st.lists(st.tuples(COMPARABLE, COMPARABLE), min_size=10, max_size=10))
def test_the_default_sampler_learns_from_any_numbers(values: list[tuple[float, float]]) -> None:
    problem = SearchProblem(training_space(), builders.OBJECTIVES, 0, 40)
    sampler = build_sampler("auto", problem)
    for number, row in enumerate(values):
        proposal = sampler.ask(number, [])
        assert proposal is not None
        sampler.tell(
            Observation(number, proposal.config, Outcome.COMPLETE, None, row, (), 1.0, (abs(row[0]), None))
        )
    assert sampler.ask(len(values), []) is not None
