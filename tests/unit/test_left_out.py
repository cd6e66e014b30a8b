"""Who was a candidate for the recommendation, who was not and why, and what stands beside a limit."""

from __future__ import annotations

from dashboards.chart import Mark, chart_of
from tests.builders import LOSS, THROUGHPUT, baseline, limit, measurement, repeats, study, trial
from tuner.cli.summary import summary_of
from tuner.comparison import LimitStatus
from tuner.records.rows import TrialRecord
from tuner.results import StudyResult, as_json, judge
from tuner.results.wording import advice, nearest_lines

ACCURACY = "accuracy"
SCATTER = ((0.0, 1.0, -1.0), (1.0, 0.0, -1.0), (1.0, -1.0, 0.0))


def runs_around(number: int, speed: float, loss: float, accuracy: float) -> dict[str, list[float]]:
    scatter = SCATTER[number % 3]
    return {
        THROUGHPUT: [speed * (1 + 0.01 * s) for s in scatter],
        LOSS: [loss + 0.01 * s for s in reversed(scatter)],
        ACCURACY: [accuracy + 0.01 * s for s in scatter],
    }


def confirmed(number: int, speed: float, loss: float, accuracy: float) -> TrialRecord:
    column = runs_around(number, speed, loss, accuracy)
    if number == 0:
        return baseline(column, *repeats(column))
    return trial(number, measurement({THROUGHPUT: speed, LOSS: loss, ACCURACY: accuracy}), *repeats(column))


def limited_study() -> StudyResult:
    """Accuracy may fall to 0.608: surely met by 1, by its mean by 2, missed by the mean of 3; 4 ran once."""
    single = trial(4, measurement({THROUGHPUT: 1700, LOSS: 2.4, ACCURACY: 0.63}))
    base = confirmed(0, 1000, 2.3, 0.61)
    trials = (confirmed(1, 1500, 2.3, 0.64), confirmed(2, 1300, 2.2, 0.6085), confirmed(3, 2000, 2.1, 0.602))
    return judge(study(base, *trials, single, constraints=[limit(ACCURACY, "max_decrease", 0.002)]))


def test_a_confirmed_mean_that_breaks_a_limit_is_not_on_the_front_even_within_noise() -> None:
    result = limited_study()
    assert result.trial(3).limits[0].status is LimitStatus.UNDECIDED
    assert result.trial(3).is_feasible is False
    assert result.front == (1, 2, 4)


def test_the_noise_of_the_baseline_does_not_make_it_break_the_limit_drawn_from_it() -> None:
    frozen = {THROUGHPUT: [1000.0, 1010.0, 990.0], LOSS: [2.3, 2.31, 2.29]}
    later = {THROUGHPUT: [995.0, 1005.0, 985.0], LOSS: [2.3, 2.31, 2.29]}
    worse = trial(1, measurement({THROUGHPUT: 995.0, LOSS: 2.2}))
    record = study(
        baseline(frozen, *repeats(later)), worse, constraints=[limit(THROUGHPUT, "min_relative", 1.0)]
    )
    result = judge(record)
    assert result.baseline.is_feasible and result.baseline.has_undecided_limit
    assert result.trial(1).is_feasible is False


def test_the_recommendation_names_its_candidates_and_says_why_others_are_none() -> None:
    found = limited_study().recommended
    assert found is not None and found.trial == 1
    assert found.left_out == (
        "trial 2 left out: limit undecided (accuracy 0.6085 against >= 0.608)",
        "trial 3 left out: breaks the limit when confirmed (accuracy 0.602 against >= 0.608)",
        "trial 4 left out: not confirmed",
    )
    assert as_json(limited_study())["recommended"]["left_out"] == list(found.left_out)


def test_several_candidates_are_named_by_number() -> None:
    result = judge(
        study(confirmed(0, 1000, 2.3, 0.6), confirmed(1, 1500, 2.2, 0.6), confirmed(2, 1300, 2.1, 0.6))
    )
    assert result.recommended is not None
    assert "among trials 1, 2" in result.recommended.reason
    assert result.recommended.left_out == ()


def test_the_table_has_a_column_for_a_limited_metric_that_is_no_objective() -> None:
    lines = summary_of(limited_study()).splitlines()
    assert "accuracy >= 0.608" in lines[2]
    rows = {line.split()[0]: line for line in lines[3:7]}
    assert "0.640 ± 0.013 met" in rows["1"]
    assert "0.609 ± 0.013 limit undecided" in rows["2"]


def test_an_objective_within_noise_of_its_limit_is_marked_in_its_own_column() -> None:
    record = study(
        confirmed(0, 1000, 2.3, 0.6),
        confirmed(1, 1200, 2.318, 0.6),
        constraints=[limit(LOSS, "max_increase", 0.02)],
    )
    rows = {line.split()[0]: line for line in summary_of(judge(record)).splitlines()[3:] if line.strip()}
    assert "2.318 ± 0.013 limit undecided" in rows["1"]


def test_the_plot_tells_an_undecided_limit_from_a_met_one() -> None:
    marks = {dot.trial: dot.mark for dot in chart_of(limited_study()).dots}
    assert (marks[1], marks[2], marks[3]) == (Mark.CONFIRMED, Mark.UNDECIDED, Mark.INFEASIBLE)


def test_where_nothing_is_surely_better_the_advice_is_to_keep_the_baseline_and_names_the_nearest() -> None:
    result = judge(study(confirmed(0, 1000, 2.3, 0.6), confirmed(1, 1003, 2.3, 0.6)))
    assert result.recommended is not None and result.recommended.trial == 0
    assert advice(result) == "keep what you run: nothing better is certain"
    assert nearest_lines(result) == ["trial 1 (x 1): tokens_per_s within noise, val_loss_nats within noise"]
    assert "  nearest: trial 1 (x 1): tokens_per_s within noise" in summary_of(result)


def test_the_advice_is_the_trial_where_one_is_surely_better() -> None:
    assert advice(limited_study()) == "use trial 1: x 1"
    assert nearest_lines(limited_study()) == []
