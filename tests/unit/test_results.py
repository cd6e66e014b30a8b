from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.builders import (
    LOSS,
    OBJECTIVES,
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
from tuner.comparison import LimitStatus
from tuner.objectives import direction_of
from tuner.records.rows import StudyRecord, TrialRecord
from tuner.results import as_json, finalists, judge, judge_trial, recommend
from tuner.space.model import Selection

BASE = {THROUGHPUT: [990.0, 1000.0, 1010.0], LOSS: [2.30, 2.31, 2.29]}


def point(throughput: float, loss: float) -> dict[str, float | tuple[float, float, float]]:
    return {THROUGHPUT: throughput, LOSS: loss}


def searched(number: int, throughput: float, loss: float, **config: object) -> TrialRecord:
    return trial(number, measurement(point(throughput, loss)), config=config or None)


def confirmed(number: int, throughput: float, loss: float, **config: object) -> TrialRecord:
    """A trial whose search run flattered it by 3%, confirmed in three rounds around the given values."""
    scatter = ((0.0, 1.0, -1.0), (1.0, 0.0, -1.0), (1.0, -1.0, 0.0))[number % 3]
    column = {
        THROUGHPUT: [throughput * (1 + 0.01 * s) for s in scatter],
        LOSS: [loss + 0.01 * s for s in reversed(scatter)],
    }
    return trial(number, measurement(point(throughput * 1.03, loss)), *repeats(column), config=config or None)


def confirmed_baseline(**config: object) -> TrialRecord:
    column = {THROUGHPUT: [990.0, 1000.0, 1010.0], LOSS: [2.31, 2.30, 2.29]}
    return baseline(BASE, *repeats(column), config=config or {"x": 0})


# --- one trial -------------------------------------------------------------------------------------------


def test_a_search_trial_is_judged_by_its_point_value_and_has_the_baselines_interval() -> None:
    found = judge(study(baseline(BASE), searched(1, 1200, 2.2))).trial(1)
    assert found.outcome is Outcome.COMPLETE
    assert found.estimates[THROUGHPUT].value == 1200
    low = found.estimates[THROUGHPUT].low
    assert low is not None and low < 1160
    assert not found.is_confirmed


def test_the_confirmed_value_leaves_the_flattering_search_run_out() -> None:
    found = judge(study(confirmed_baseline(), confirmed(1, 1200, 2.2))).trial(1)
    assert found.is_confirmed
    assert found.estimates[THROUGHPUT].value == pytest.approx(1200)
    assert found.estimates[THROUGHPUT].n_runs == 3


def test_one_confirmation_does_not_confirm() -> None:
    once = trial(1, measurement(point(1200, 2.2)), measurement(point(1100, 2.2), "confirm", round_number=0))
    assert not judge(study(baseline(BASE), once)).trial(1).is_confirmed


def test_a_trial_is_complete_when_a_second_attempt_was() -> None:
    retried = trial(1, failed("killed", is_discarded=True), measurement(point(1200, 2.2), "retry"))
    found = judge(study(baseline(BASE), retried)).trial(1)
    assert (found.outcome, found.failure_kind, found.is_feasible) == (Outcome.COMPLETE, None, True)


def test_a_failed_trial_shows_its_own_log_and_has_no_feasibility() -> None:
    found = judge(study(baseline(BASE), trial(1, failed("out_of_memory", "needs 9 GiB")))).trial(1)
    assert (found.outcome, found.failure_kind) == (Outcome.FAILED, FailureKind.OUT_OF_MEMORY)
    assert found.message == "needs 9 GiB"
    assert found.log_dir == found.measurements[0].log_dir
    assert found.is_feasible is None and not found.on_front


def test_a_trial_that_has_not_ended_is_counted_as_running() -> None:
    result = judge(study(baseline(BASE), trial(1, measurement(outcome=None)), trial(2)))
    assert result.trial(1).outcome is None
    assert result.counts == {"complete": 1, "running": 2}


def test_a_verify_run_changes_nothing() -> None:
    first = searched(1, 1200, 2.2)
    later = trial(1, *first.measurements, measurement(point(10, 9.9), "verify"), config=first.config)
    assert judge(study(baseline(BASE), later)).trial(1).estimates[THROUGHPUT].value == 1200


def test_the_baselines_cold_run_is_not_part_of_its_value() -> None:
    cold = baseline({THROUGHPUT: [100.0], LOSS: [9.0]}).measurements[0]
    warm = trial(0, cold, *repeats(BASE, "baseline"))
    assert judge(study(warm)).baseline.estimates[THROUGHPUT].value == pytest.approx(1000)


def test_changes_are_named_and_keep_1_and_true_apart() -> None:
    base = baseline(BASE, config={"precision": "fp32", "compile": 1, "workers": 2})
    other = trial(
        1, measurement(point(1, 1)), config={"precision": "fp32", "compile": True, "offload": "cpu"}
    )
    assert judge(study(base, other)).trial(1).changes == ("compile", "workers", "offload")


def test_one_trial_can_be_judged_without_the_others() -> None:
    record = study(baseline(BASE), searched(1, 1200, 2.2))
    assert judge_trial(record, 1).estimates == judge(record).trial(1).estimates
    with pytest.raises(KeyError, match="no trial 7"):
        judge_trial(record, 7)


def test_a_study_without_trials_is_judged_empty() -> None:
    result = judge(study())
    assert (result.front, result.recommended, result.nearest_miss, result.hypervolume) == (
        (),
        None,
        None,
        None,
    )
    assert not result.has_baseline
    assert as_json(result)["baseline"] is None


def test_an_unknown_trial_is_refused_with_the_numbers_there_are() -> None:
    with pytest.raises(KeyError, match="no trial 5; it has trials 0 to 1"):
        judge(study(baseline(BASE), searched(1, 1, 1))).trial(5)


# --- limits ----------------------------------------------------------------------------------------------


def test_a_relative_limit_is_held_against_the_frozen_baseline() -> None:
    record = study(
        baseline(BASE),
        searched(1, 1200, 2.31),
        searched(2, 1300, 2.33),
        constraints=[limit(LOSS, "max_increase", 0.02)],
    )
    result = judge(record)
    assert [result.trial(n).is_feasible for n in (0, 1, 2)] == [True, True, False]
    assert result.front == (0, 1)


def test_a_confirmed_limit_may_be_undecided_and_stays_on_the_front_marked() -> None:
    record = study(
        confirmed_baseline(),
        confirmed(1, 1200, 2.30),
        confirmed(2, 1300, 2.318),
        confirmed(3, 1400, 2.60),
        constraints=[limit(LOSS, "max_increase", 0.02)],
    )
    result = judge(record)
    assert result.trial(1).limits[0].status is LimitStatus.MET
    assert result.trial(2).limits[0].status is LimitStatus.UNDECIDED
    assert result.trial(2).has_undecided_limit and result.trial(2).is_feasible
    assert result.trial(3).limits[0].status is LimitStatus.NOT_MET
    assert set(result.front) == {1, 2}
    assert result.recommended is not None and result.recommended.trial == 1


def test_a_limit_on_a_metric_that_a_trial_lacks_is_not_met() -> None:
    result = judge(
        study(baseline(BASE), searched(1, 1200, 2.2), constraints=[limit("peak_memory_gib", "max", 6)])
    )
    assert result.trial(1).is_feasible is False
    assert result.trial(1).limits[0].gap == math.inf


def test_limits_that_so_few_examples_cannot_decide_stay_undecided() -> None:
    """Means of 0.80 in every run: the runs agree, twenty examples do not."""
    goal = objective("accuracy")
    column = {"accuracy": [0.80, 0.801, 0.799]}
    base = baseline(column, *repeats(column))
    ours = trial(1, measurement({"accuracy": 0.8}), *repeats(column))
    record = study(base, ours, objectives=[goal], constraints=[limit("accuracy", "max_decrease", 0.05)])
    assert judge(record).trial(1).limits[0].status is LimitStatus.MET
    rng = np.random.default_rng(0)
    examples = {
        run.measurement_id: {"accuracy": [float(x) for x in rng.random(20) < 0.8]}
        for t in (base, ours)
        for run in t.measurements
    }
    assert judge(record, examples).trial(1).limits[0].status is LimitStatus.UNDECIDED


def test_before_the_baseline_is_measured_only_absolute_limits_count() -> None:
    constraints = [limit(LOSS, "max_increase", 0.02), limit("peak_memory_gib", "max", 6)]
    result = judge(study(baseline(BASE), constraints=constraints, is_frozen=False))
    assert [bound.metric for bound in result.bounds] == ["peak_memory_gib"]


def test_where_nothing_is_feasible_the_nearest_miss_has_its_worst_gap() -> None:
    record = study(
        baseline({THROUGHPUT: [1000.0], LOSS: [3.0]}),
        searched(1, 1200, 2.2),
        searched(2, 900, 2.05),
        constraints=[limit(LOSS, "max", 2.0), limit(THROUGHPUT, "min", 880)],
    )
    result = judge(record)
    assert result.front == () and result.recommended is None
    assert result.nearest_miss is not None and result.nearest_miss.trial == 2
    assert result.nearest_miss.limit.gap == pytest.approx(0.05)
    assert str(result.nearest_miss) == "trial 2, val_loss_nats 2.05 > 2"


# --- the front -------------------------------------------------------------------------------------------


def test_a_finalist_that_falls_when_confirmed_makes_room_for_the_next_candidate() -> None:
    lucky = trial(
        1,
        measurement(point(2000, 2.2)),
        *repeats({THROUGHPUT: [1100.0, 1110.0, 1090.0], LOSS: [2.2, 2.2, 2.2]}),
    )
    result = judge(study(confirmed_baseline(), lucky, confirmed(2, 1500, 2.1), searched(3, 1600, 2.2)))
    assert 1 not in result.front
    assert result.front == (2, 3)
    assert finalists(result, 2) == [3]


def test_an_unconfirmed_trial_does_not_push_a_confirmed_one_off_the_front() -> None:
    result = judge(study(baseline(BASE), confirmed(1, 1500, 2.2), searched(2, 1600, 2.1)))
    assert result.front == (1, 2)
    assert result.recommended is not None and result.recommended.trial == 1


def test_a_trial_whose_confirmation_fails_leaves_the_front() -> None:
    fragile = trial(1, measurement(point(2000, 2.0)), failed("crash", purpose="confirm", round_number=0))
    result = judge(study(baseline(BASE), fragile, searched(2, 1500, 2.1)))
    assert result.front == (2,)
    assert not result.trial(1).is_reliable


def test_an_interrupted_confirmation_is_nobodys_fault() -> None:
    cut = trial(1, measurement(point(2000, 2.0)), failed("interrupted", purpose="confirm", round_number=0))
    result = judge(study(baseline(BASE), cut))
    assert result.front == (1,)
    assert finalists(result, 1) == [1]


def test_one_objective_gives_the_best_trial() -> None:
    record = study(
        baseline({"f1": [0.5, 0.51]}),
        trial(1, measurement({"f1": 0.9})),
        trial(2, measurement({"f1": 0.8})),
        objectives=[objective("f1")],
    )
    result = judge(record)
    assert result.front == (1,)
    assert result.recommended is not None and "best f1" in result.recommended.reason


def test_the_baseline_may_win() -> None:
    result = judge(study(baseline(BASE), searched(1, 900, 2.4)))
    assert result.front == (0,)
    assert result.recommended is not None and result.recommended.trial == 0


# --- noise -----------------------------------------------------------------------------------------------


def test_ties_within_noise_are_marked_and_the_simpler_configuration_is_recommended() -> None:
    record = study(
        confirmed_baseline(a=0, b=0, c=0),
        confirmed(1, 1500, 2.299, a=1, b=1, c=1),
        confirmed(2, 1498, 2.298, a=1, b=0, c=0),
    )
    result = judge(record)
    assert result.trial(1).is_tied_with == (2,)
    assert result.recommended is not None and result.recommended.trial == 2
    assert recommend(result, Selection("first_objective")).trial == 2  # type: ignore[union-attr]  # there is a front
    assert "noise cannot tell" in recommend(result, Selection("first_objective")).reason  # type: ignore[union-attr]


def test_among_configurations_that_all_equal_the_baseline_the_baseline_is_recommended() -> None:
    rng = np.random.default_rng(4)

    def column() -> dict[str, list[float]]:
        return {THROUGHPUT: list(1000 + 15 * rng.normal(size=3)), LOSS: list(2.3 + 0.01 * rng.normal(size=3))}

    changed = 0
    for _ in range(40):
        trials = [baseline(column(), *repeats(column()))]
        for number in range(1, 5):
            drawn = column()
            trials.append(trial(number, measurement(point(1030, 2.28)), *repeats(drawn)))
        recommended = judge(study(*trials)).recommended
        changed += recommended is None or recommended.trial != 0
    assert changed <= 4


def test_a_gain_is_taken_within_the_rounds_and_has_an_interval() -> None:
    gain = judge(study(confirmed_baseline(), confirmed(1, 1200, 2.30))).trial(1).gain
    assert gain[THROUGHPUT].is_ratio and gain[THROUGHPUT].value == pytest.approx(1.2)
    assert gain[THROUGHPUT].is_beyond_noise and gain[THROUGHPUT].method == "interleaved rounds"
    assert not gain[LOSS].is_beyond_noise


def test_the_noise_floor_comes_from_the_baselines_repeats() -> None:
    assert judge(study(baseline(BASE))).noise_floor[THROUGHPUT] == pytest.approx(0.01)


# --- hypervolume -----------------------------------------------------------------------------------------


def test_the_hypervolume_history_follows_the_feasible_search_values() -> None:
    record = study(
        baseline(BASE),
        searched(1, 2000, 2.3),
        trial(2, failed()),
        searched(3, 9000, 2.4),
        searched(4, 2000, 1.15),
        constraints=[limit(LOSS, "max", 2.35)],
    )
    result = judge(record)
    one = 1000 * 2.3
    assert [number for number, _ in result.history] == [0, 1, 2, 3, 4]
    assert [volume / one for _, volume in result.history] == pytest.approx([1, 2, 2, 2, 3])
    assert result.hypervolume == pytest.approx(3 * one)


def test_confirmation_does_not_rewrite_the_history() -> None:
    before = judge(study(confirmed_baseline(), searched(1, 1236, 2.2)))
    after = judge(study(confirmed_baseline(), confirmed(1, 1200, 2.2)))
    assert before.history == after.history


# --- choosing --------------------------------------------------------------------------------------------


def trade_off() -> StudyRecord:
    """A front of five with a bend at trial 3; 1 is fastest, 5 is best in loss."""
    points = {1: (3000, 3.0), 2: (2900, 2.5), 3: (2800, 2.05), 4: (1500, 2.02), 5: (1100, 2.00)}
    return study(baseline(BASE), *(searched(number, *at) for number, at in points.items()))


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), 3),
        (Selection("first_objective"), 1),
        (Selection("minimize", LOSS), 5),
        (Selection("maximize", THROUGHPUT, {LOSS: 0.03}), 4),
        (Selection("maximize", THROUGHPUT, {LOSS: 0.06}), 3),
    ],
)
def test_a_selection_rule_picks_its_point_of_the_front(selection: Selection, expected: int) -> None:
    found = recommend(judge(trade_off()), selection)
    assert found is not None and found.trial == expected


def test_a_recommendation_says_what_it_gives_up_and_that_it_is_not_confirmed() -> None:
    found = recommend(judge(trade_off()))
    assert found is not None
    assert "not confirmed" in found.reason
    assert found.gives_up == (
        "tokens_per_s 2,800 tokens/s instead of 3,000 (trial 1), 6.7% lower",
        "val_loss_nats 2.05 nats instead of 2 (trial 5), 2.5% higher",
    )


def worse_knee(*more: TrialRecord) -> StudyRecord:
    """The knee is trial 8: slower than the baseline for sure, and its loss is within noise."""
    return study(confirmed_baseline(), confirmed(8, 610, 2.295), *more)


def test_a_pick_that_is_surely_better_in_nothing_makes_room_for_the_rules_next_that_is() -> None:
    result = judge(worse_knee(confirmed(5, 3930, 2.299)))
    assert set(result.front) == {5, 8}
    found = recommend(result, Selection("minimize", LOSS))
    assert found is not None and found.trial == 5
    assert found.reason == (
        "smallest val_loss_nats of the front; trial 8, first by this rule, is not surely better than the "
        "baseline; against the baseline x3.93 tokens_per_s, val_loss_nats within noise"
    )


def test_the_next_by_the_rule_keeps_within_what_the_rule_allows() -> None:
    """Trial 8 is first within 0.02 of the best loss; trial 6 gains most in speed, but is not within."""
    trials = (confirmed(8, 1001, 2.293), confirmed(5, 940, 2.280), confirmed(6, 1400, 2.60))
    found = recommend(
        judge(study(confirmed_baseline(), *trials)), Selection("maximize", THROUGHPUT, {LOSS: 0.02})
    )
    assert found is not None and found.trial == 6
    assert "no member of the front has val_loss_nats within 0.02" in found.reason
    assert "trial 8, first by this rule, is not surely better" in found.reason


def test_where_no_member_of_the_front_is_surely_better_the_baseline_is_recommended() -> None:
    record = worse_knee(confirmed(5, 1004, 2.299))
    for selection in (Selection(), Selection("minimize", LOSS), Selection("first_objective")):
        found = recommend(judge(record), selection)
        assert found is not None
        assert (found.trial, found.reason) == (
            0,
            "no member of the front is surely better than the baseline",
        )


def test_a_baseline_that_breaks_a_limit_is_not_recommended_in_their_place() -> None:
    record = replace(worse_knee(), constraints=(limit(THROUGHPUT, "max", 900),))
    record = replace(record, bounds=(limit(THROUGHPUT, "max", 900).freeze(None),))
    found = judge(record).recommended
    assert found is not None and found.trial == 8
    assert "against the baseline x0.61 tokens_per_s (worse), val_loss_nats within noise" in found.reason


def test_a_front_without_intervals_is_chosen_from_as_it_is_and_says_so() -> None:
    once = baseline({THROUGHPUT: [1000.0], LOSS: [2.3]})
    found = judge(study(once, searched(1, 900, 2.2), searched(2, 800, 2.1))).recommended
    assert found is not None and found.trial in (1, 2)
    assert "tokens_per_s (noise unknown)" in found.reason
    assert found.reason.endswith("(not confirmed: single runs only)")


def test_the_only_confirmed_member_is_not_called_the_only_member() -> None:
    alone = judge(study(confirmed_baseline(), confirmed(1, 2000, 2.2))).recommended
    among = judge(study(confirmed_baseline(), confirmed(1, 2000, 2.2), searched(2, 1500, 2.0))).recommended
    assert alone is not None and alone.reason.startswith("the only member of the front;")
    assert among is not None and among.reason.startswith("the only confirmed member of the front;")


def test_a_baseline_with_several_runs_is_not_called_a_single_run() -> None:
    several = judge(study(baseline(BASE), searched(1, 900, 2.4))).recommended
    single = judge(study(baseline({THROUGHPUT: [1000.0], LOSS: [2.3]}), searched(1, 900, 2.4))).recommended
    assert several is not None and (several.trial, several.reason) == (0, "the only member of the front")
    assert single is not None and single.reason.endswith("(not confirmed: single runs only)")


def test_a_simpler_pick_is_named_once() -> None:
    record = study(
        confirmed_baseline(a=0, b=0),
        confirmed(1, 1500, 2.299, a=1, b=1),
        confirmed(2, 1498, 2.298, a=1, b=0),
    )
    found = recommend(judge(record), Selection("first_objective"))
    assert found is not None and found.trial == 2
    assert found.reason.startswith("simpler (1 change from the baseline) than trial 1 (2 changes from")
    assert "trial 2" not in found.reason


def test_the_rule_noted_with_the_study_is_the_default() -> None:
    noted = replace(trade_off(), notes={"selection": {"rule": "minimize", "metric": LOSS}})
    found = judge(noted).recommended
    assert found is not None and found.trial == 5


def test_a_rule_on_a_metric_that_nobody_measured_falls_back_on_the_knee_and_says_so() -> None:
    found = recommend(judge(trade_off()), Selection("maximize", "f1"))
    assert found is not None and found.trial == 3
    assert "no member of the front has measured f1" in found.reason


def test_within_a_metric_of_unknown_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="within f1: say which way"):
        recommend(judge(trade_off()), Selection("maximize", THROUGHPUT, {"f1": 0.1}))


def test_a_direction_comes_from_objectives_then_catalogue_then_limits() -> None:
    assert direction_of(THROUGHPUT, [objective(THROUGHPUT, "minimize")]) == "minimize"
    assert direction_of("accuracy", OBJECTIVES) == "maximize"
    assert direction_of("wer", OBJECTIVES, [limit("wer", "max", 0.2)]) == "minimize"
    assert direction_of("wer", OBJECTIVES) is None


def test_finalists_are_the_recommended_one_then_spread_over_the_front() -> None:
    result = judge(trade_off())
    assert finalists(result, 1) == [3]
    assert set(finalists(result, 3)) == {3, 1, 5} or set(finalists(result, 3)) == {3, 1, 4}
    assert len(finalists(result, 9)) == 5


def test_finalists_end_once_enough_of_the_front_is_confirmed() -> None:
    result = judge(
        study(confirmed_baseline(), confirmed(1, 2000, 2.4), confirmed(2, 1500, 2.2), searched(3, 1200, 2.0))
    )
    assert finalists(result, 2) == []
    assert finalists(result, 3) == [3]


def one_objective(*trials: TrialRecord) -> StudyRecord:
    """Trials of a study of throughput alone; one run scatters by 1%."""
    return study(baseline({THROUGHPUT: [990.0, 1000.0, 1010.0]}), *trials, objectives=[objective(THROUGHPUT)])


def test_where_the_front_is_small_its_nearest_rivals_within_noise_are_finalists_too() -> None:
    values = {1: 1500.0, 2: 1490.0, 3: 1495.0, 4: 1200.0, 5: 1470.0}
    result = judge(one_objective(*(trial(n, measurement({THROUGHPUT: v})) for n, v in values.items())))
    assert result.front == (1,)
    assert finalists(result, 1) == [1]
    assert finalists(result, 3) == [1, 3, 2]
    assert finalists(result, 9) == [1, 3, 2, 5]  # the fourth is surely slower


def test_a_rival_that_was_confirmed_counts_among_the_finalists_until_it_is_surely_worse() -> None:
    def rounds(number: int, throughput: float) -> TrialRecord:
        column = {THROUGHPUT: [throughput * (1 + 0.01 * s) for s in ((1, 0, -1), (0, -1, 1))[number % 2]]}
        return trial(number, measurement({THROUGHPUT: 1500.0}), *repeats(column))

    late = trial(3, measurement({THROUGHPUT: 1485.0}))
    tied = judge(one_objective(rounds(1, 1500), rounds(2, 1495), late))
    assert tied.front == (1,)
    assert finalists(tied, 2) == []
    fallen = judge(one_objective(rounds(1, 1500), rounds(2, 1300), late))
    assert finalists(fallen, 2) == [3]


def test_the_baseline_is_no_finalist_because_it_runs_in_every_round() -> None:
    result = judge(study(baseline(BASE), searched(1, 2000, 2.5)))
    assert result.front == (0, 1)
    assert finalists(result, 4) == [1]


# --- what mattered ---------------------------------------------------------------------------------------


def test_the_parameter_that_matters_stands_out_with_its_n() -> None:
    rng = np.random.default_rng(1)
    trials = [baseline(BASE, config={"p": "fp32", "q": 0, "lr": 0.5})]
    for number in range(1, 41):
        p, q, lr = ("bf16", "fp32")[number % 2], number % 3, float(rng.random())
        at = point((2000 if p == "bf16" else 1000) * math.exp(0.02 * rng.normal()), 2.0 + lr)
        trials.append(trial(number, measurement(at), config={"p": p, "q": q, "lr": lr}))
    found = {(i.parameter, i.metric): i for i in judge(study(*trials)).influences}
    precision = found["p", THROUGHPUT]
    assert precision.share > 0.95 and precision.n == 41
    assert [entry.label for entry in precision.levels] == ["bf16", "fp32"]
    assert precision.levels[0].mean / precision.levels[1].mean == pytest.approx(2, rel=0.05)
    assert found["q", THROUGHPUT].share < 0.1
    assert found["lr", LOSS].rank_correlation == pytest.approx(1, abs=0.02)


def test_a_value_tried_once_says_nothing_about_its_parameter() -> None:
    """Every width was tried once, so whatever it goes along with, it is not listed; the format is."""
    trials = [baseline(BASE, config={"p": "fp32", "width": "w0"})]
    for number in range(1, 9):
        p = ("bf16", "fp32")[number % 2]
        speed = (2000 if p == "bf16" else 1000) * (1 + 0.01 * number)
        config = {"p": p, "width": f"w{number}"}
        trials.append(trial(number, measurement(point(speed, 2.0 + 0.1 * number)), config=config))
    listed = {item.parameter for item in judge(study(*trials)).influences}
    assert listed == {"p"}


def test_numbers_tried_once_are_taken_in_three_parts_with_at_least_two_trials_each() -> None:
    trials = [baseline(BASE, config={"lr": 0.5})]
    for number in range(1, 9):
        lr = 0.1 * number + 0.01
        trials.append(trial(number, measurement(point(1000, 2.0 + lr)), config={"lr": lr}))
    (found,) = [item for item in judge(study(*trials)).influences if item.metric == LOSS]
    assert [level.n for level in found.levels] == [3, 3, 3]
    assert found.levels[0].label == "0.61 to 0.81"
    few = judge(study(*trials[:4]))
    assert [item for item in few.influences if item.metric == LOSS] == []


def test_the_shares_of_a_metric_are_at_most_all_of_it() -> None:
    """Three parameters that always move together cannot each explain all of the loss."""
    trials = [baseline(BASE, config={"a": 0, "b": 0, "c": 0})]
    for number in range(1, 13):
        at = number % 3
        trials.append(
            trial(
                number,
                measurement(point(1000, 2.0 + at)),
                config={"a": at, "b": at, "c": at, "d": number % 2},
            )
        )
    shares = [item.share for item in judge(study(*trials)).influences if item.metric == LOSS]
    assert len(shares) >= 3
    assert sum(shares) == pytest.approx(1.0, abs=0.01)


def test_values_that_fail_together_are_listed_and_lone_accidents_are_not() -> None:
    trials = [baseline(BASE, config={"compile": False, "offload": "none", "size": 8})]
    for number in range(1, 41):
        config = {"compile": number % 2 == 0, "offload": ("cpu", "none")[number // 2 % 2], "size": number % 5}
        is_bad = (config["compile"] and config["offload"] == "cpu") or number == 7
        run = failed() if is_bad else measurement(point(1000 + number, 2.3))
        trials.append(trial(number, run, config=config))
    patterns = judge(study(*trials)).failure_patterns
    assert dict(patterns[0].values) == {"compile": "true", "offload": "cpu"}
    assert (patterns[0].failed, patterns[0].n) == (10, 10)
    assert len(patterns) == 1


# --- JSON ------------------------------------------------------------------------------------------------


def test_json_has_the_promised_keys_and_is_strict() -> None:
    broken = trial(3, measurement(point(math.nan, 2.0)))
    record = study(
        confirmed_baseline(),
        confirmed(1, 1500, 2.1),
        trial(2, failed("timeout")),
        broken,
        rejected={"a < b": 3},
        stopped_because="budget of 4 trials is spent",
        constraints=[limit(LOSS, "max", 4)],
    )
    plain = json.loads(json.dumps(as_json(judge(record)), allow_nan=False))
    assert set(plain) >= {
        "schema_version",
        "study",
        "objectives",
        "baseline",
        "trials",
        "front",
        "counts",
        "rejected",
        "hypervolume",
        "stopped_because",
        "recommended",
        "nearest_miss",
    }
    assert (plain["schema_version"], plain["baseline"], plain["front"]) == (1, 0, [1])
    assert plain["counts"] == {"complete": 2, "failed": 2}
    assert plain["objectives"][0] == {"metric": THROUGHPUT, "direction": "maximize"}
    one = plain["trials"][1]
    assert set(one) >= {
        "number",
        "outcome",
        "failure_kind",
        "is_feasible",
        "is_confirmed",
        "on_front",
        "config",
        "metrics",
        "measurements",
        "phases",
        "log_dir",
        "gain",
    }
    assert set(one["metrics"][THROUGHPUT]) >= {"value", "low", "high", "n", "unit"}
    assert set(one["measurements"][0]) >= {"purpose", "outcome", "metrics", "phases"}
    lost = plain["trials"][3]["measurements"][0]["metrics"][THROUGHPUT]
    assert (lost["value"], lost["flags"]) == (None, ["not_finite"])


def test_json_of_the_same_records_is_the_same() -> None:
    record = trade_off()
    assert json.dumps(as_json(judge(record))) == json.dumps(as_json(judge(record)))
