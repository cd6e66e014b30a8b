"""Public cases about metric values and reports that judging decides; each test is named after its case."""

from __future__ import annotations

import math

import pytest

from tests.builders import (
    LOSS,
    THROUGHPUT,
    baseline,
    failed,
    limit,
    measurement,
    objective,
    repeats,
    study,
    trial,
)
from trials.contract import FailureKind, Outcome
from tuner.objectives import Bound, Constraint, is_feasible, why_invalid
from tuner.results import StudyResult, as_json, finalists, judge, recommend
from tuner.space.model import Selection

GOALS = [objective("throughput"), objective("accuracy")]
TODAY = baseline({"throughput": [100.0, 101.0, 99.0], "accuracy": [0.90, 0.90, 0.91]})


def judged(*runs_of_trial_1: object, **changed: object) -> StudyResult:
    return judge(study(TODAY, trial(1, *runs_of_trial_1), objectives=GOALS, **changed))  # type: ignore[arg-type]  # test shorthand


def test_optuna_3132_nan_is_a_failure_with_a_reason_and_nothing_stays_running() -> None:
    result = judged(measurement({"throughput": math.nan, "accuracy": 0.9}))
    found = result.trial(1)
    assert (found.outcome, found.failure_kind) == (Outcome.FAILED, FailureKind.NON_FINITE)
    assert found.message.startswith("throughput is not finite")
    assert result.counts == {"complete": 1, "failed": 1}


def test_ray_missing_metric_fails_with_what_came_and_the_nearest_name() -> None:
    found = judged(measurement({"throughput": 10.0, "acuracy": 0.9})).trial(1)
    assert (found.outcome, found.failure_kind) == (Outcome.FAILED, FailureKind.MISSING_METRIC)
    assert "acuracy, throughput" in found.message
    assert "did you mean acuracy?" in found.message
    assert why_invalid(GOALS, {"throughput": 10.0}) == (
        FailureKind.MISSING_METRIC,
        "accuracy was not reported; what came: throughput",
    )


def test_ray_error_after_a_report_never_reaches_the_front() -> None:
    result = judged(failed("out_of_memory", values={"throughput": 1e6, "accuracy": 1.0}))
    assert result.trial(1).outcome is Outcome.FAILED
    assert result.front == (0,)
    run = as_json(result)["trials"][1]["measurements"][0]
    assert run["metrics"]["throughput"]["value"] == 1e6


def test_optuna_5374_infinity_is_no_value() -> None:
    result = judged(measurement({"throughput": math.inf, "accuracy": 0.9}))
    assert result.trial(1).failure_kind is FailureKind.NON_FINITE
    assert result.front == (0,)
    assert result.hypervolume is not None and math.isfinite(result.hypervolume)


def test_optuna_3746_a_nan_limit_is_not_met() -> None:
    bound = Bound("p99_ms", True, 50.0, "p99_ms <= 50")
    assert bound.violation(math.nan) == math.inf
    assert not is_feasible((bound,), {"p99_ms": math.nan})
    run = measurement({"throughput": 200.0, "accuracy": 0.95, "p99_ms": math.nan})
    found = judged(run, constraints=[limit("p99_ms", "max", 50)]).trial(1)
    assert found.is_feasible is False and not found.on_front


def test_optuna_6242_nothing_feasible_shows_the_nearest_with_its_gap() -> None:
    run = measurement({"throughput": 90.0, "accuracy": 0.97})
    result = judged(run, constraints=[limit("accuracy", "min", 0.99)])
    assert result.front == () and result.recommended is None and finalists(result, 4) == []
    assert result.nearest_miss is not None
    assert result.nearest_miss.trial == 1
    assert result.nearest_miss.limit.gap == pytest.approx(0.02)
    assert as_json(result)["nearest_miss"]["gap"] == pytest.approx(0.02)


def test_neural_compressor_2261_the_nearest_miss_reads_as_a_sentence() -> None:
    run = measurement({"throughput": 90.0, "accuracy": 0.9652})
    result = judged(run, constraints=[limit("accuracy", "min", 0.99)])
    assert str(result.nearest_miss) == "trial 1, accuracy 0.9652 < 0.99"
    assert len(as_json(result)["trials"]) == 2


def test_vllm_55561_a_tie_on_one_axis_keeps_no_dominated_point_and_copies_share_a_mark() -> None:
    goals = [objective("tokens_per_s"), objective("tokens_per_s_per_user")]
    points = [(50, 1), (100, 10), (100, 5), (100, 10)]
    trials = [
        trial(n, measurement({"tokens_per_s": a, "tokens_per_s_per_user": b}, "search" if n else "baseline"))
        for n, (a, b) in enumerate(points)
    ]
    result = judge(study(*trials, objectives=goals))
    assert result.front == (1, 3)
    assert result.copies == ((1, 3),)


def test_neural_compressor_1617_a_relative_limit_on_a_baseline_of_zero_asks_for_an_absolute_one() -> None:
    with pytest.raises(ValueError, match="write an absolute max or min"):
        limit("error_rate", "max_relative", 1.01).freeze(0.0)


def test_neural_compressor_498_the_resulting_bound_can_be_shown() -> None:
    absolute, relative = limit("accuracy", "max_decrease", 0.008), limit("accuracy", "min_relative", 0.98)
    assert str(absolute.freeze(0.89)) == "accuracy >= 0.882"
    assert str(relative.freeze(0.9)) == "accuracy >= 0.882"
    assert {Constraint.formula.fget(c) for c in (absolute, relative)} == {  # type: ignore[attr-defined]  # a property
        "accuracy >= baseline - 0.008",
        "accuracy >= 0.98 x baseline",
    }


def test_auto_tuning_vllm_111_the_baseline_is_trial_0_counted_and_the_measure_of_every_gain() -> None:
    result = judged(measurement({"throughput": 150.0, "accuracy": 0.90}))
    plain = as_json(result)
    assert plain["baseline"] == 0 and plain["counts"] == {"complete": 2}
    assert plain["trials"][1]["gain"]["throughput"]["value"] == pytest.approx(1.5)
    assert judged(measurement({"throughput": 50.0, "accuracy": 0.5})).front == (0,)


def test_olive_1439_one_stated_rule_picks_one_and_says_what_it_gave_up() -> None:
    trials = [TODAY]
    for n in range(1, 8):
        at = {"throughput": 100.0 + 20 * n, "accuracy": 0.97 - 0.01 * n}
        trials.append(trial(n, measurement(at), *repeats({key: [value] * 3 for key, value in at.items()})))
    result = judge(study(*trials, objectives=GOALS))
    picks = {rule: recommend(result, Selection(rule)) for rule in ("knee", "first_objective")}
    assert all(pick is not None and pick.reason for pick in picks.values())
    assert picks["first_objective"].trial == 7  # type: ignore[union-attr]  # checked on the line before
    assert "accuracy" in picks["first_objective"].gives_up[0]  # type: ignore[union-attr]  # the same
    assert recommend(result) == recommend(judge(study(*trials, objectives=GOALS)))


def test_olive_472_every_trial_is_in_the_report_and_the_front_is_a_view() -> None:
    record = study(
        baseline({THROUGHPUT: [100.0, 101.0], LOSS: [2.0, 2.0]}),
        trial(1, measurement({THROUGHPUT: 50.0, LOSS: 3.0})),
        trial(2, failed("timeout")),
        trial(3, measurement(outcome="pruned", message="cannot reach the front")),
    )
    plain = as_json(judge(record))
    assert [entry["outcome"] for entry in plain["trials"]] == ["complete", "complete", "failed", "pruned"]
    assert plain["front"] == [0]
