"""Public cases about numbers that trials report: missing, not finite, empty, without a goal, against a baseline."""

from __future__ import annotations

import math

import pytest

from dashboards.report import report_html
from tests import builders
from tests.cases.spaces import fake, loaded, measured, refused, written
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store
from tests.unit.study.bench import FAST, LOSS, Bench, failure_of, gave, limit, on_line, study_file
from trials.contract import FailureKind, Outcome, TrialFailure
from trials.measurement.statistics import rate
from tuner.results import judge
from tuner.tracking.views import StudyViews

FINE = {"do": "complete", "value": 2.0}


def test_optuna_optuna_3132_a_trial_that_reports_nan_fails_with_its_reason_and_the_study_goes_on() -> None:
    ending, record = measured(fake({"do": "nan"}, {"do": "complete", "value": 3.0}, baseline=FINE))
    lost, last = record.trials[1].measurements[0], record.trials[2].measurements[0]
    assert (lost.outcome, lost.failure_kind) == (Outcome.FAILED, FailureKind.NON_FINITE)
    assert lost.message == "score is nan"
    assert last.outcome is Outcome.COMPLETE
    assert ending.result is not None and ending.result.front == (2,)
    assert all(run.outcome is not None for trial in record.trials for run in trial.measurements)


def test_ray_project_ray_missing_metric_the_first_trial_stops_the_study_and_names_the_nearest() -> None:
    ending, record = measured(fake(FINE, baseline={"do": "other_metric"}))
    assert "the baseline failed (missing_metric)" in failure_of(ending)
    assert "did not report score; it reported scores; did you mean scores?" in failure_of(ending)
    assert len(record.trials) == 1 and len(record.trials[0].measurements) == 1


@pytest.mark.parametrize("how", [{"do": "report_then_exit", "status": 1}, {"do": "report_then_die"}])
def test_ray_project_ray_error_after_a_report_the_exit_status_decides(how: dict[str, object]) -> None:
    ending, record = measured(fake(how, baseline=FINE))
    run = record.trials[1].measurements[-1]
    assert run.outcome is Outcome.FAILED and run.metrics == {}
    assert run.facts["metrics_before_failure"] == {"score": 7.0}
    assert ending.result is not None and ending.result.front == (0,)


def test_optuna_optuna_5374_infinity_never_reaches_the_study() -> None:
    ending, record = measured(fake({"do": "complete", "value": "inf"}, baseline=FINE))
    assert record.trials[1].measurements[0].failure_kind is FailureKind.NON_FINITE
    assert ending.result is not None and ending.result.front == (0,)


@pytest.mark.parametrize("durations_s", [[], [0.0, 0.0, 0.0]])
def test_optuna_optuna_5374_no_step_or_no_time_is_no_throughput(durations_s: list[float]) -> None:
    with pytest.raises(TrialFailure) as caught:
        rate(durations_s, 32, "samples/s")
    assert caught.value.kind is FailureKind.UNSTABLE


def test_optuna_optuna_3746_a_limit_that_is_nan_is_broken_and_the_search_goes_on(bench: Bench) -> None:
    def some_are_nan(spec, nth):
        p90 = math.nan if spec.config["x"] == 5 else 10.0
        return gave(**{FAST: 100.0 + spec.config["x"], LOSS: 2.0, "step_time_p90_ms": p90})

    file = study_file(x=6, trials=6, limits=(limit("step_time_p90_ms", "max", 50.0),))
    ending, _ = bench.run(file, some_are_nan)
    assert ending.result is not None
    fastest = next(trial for trial in ending.result.trials if trial.config == {"x": 5})
    assert fastest.is_feasible is not True and not fastest.on_front
    assert ending.result.counts["complete"] >= 5


@pytest.mark.parametrize("goals", ["objectives: []", "objectives:", "objectives: {}"])
def test_wandb_examples_601_a_study_without_a_goal_is_refused(tuner: Tuner, goals: str) -> None:
    written(goals)
    said = tuner("check", "space.yaml")
    assert said.code == 2
    assert "objectives" in said.line and "write objectives: [tokens_per_s, val_loss_nats]" in said.line


def test_wandb_examples_601_without_the_section_at_all_too() -> None:
    path = written()
    path.write_text(path.read_text().replace("objectives: [tokens_per_s, val_loss_nats]\n", ""))
    from tuner.space import SpaceError, load_study_file

    with pytest.raises(SpaceError, match="objectives is missing; write objectives: "):
        load_study_file(path)


def test_wandb_examples_601_one_goal_has_a_best_and_no_front(tuner: Tuner) -> None:
    goal = (builders.objective("tokens_per_s"),)
    store(
        builders.study(
            builders.baseline({"tokens_per_s": [10.0, 11.0]}),
            builders.trial(1, builders.measurement({"tokens_per_s": 20.0})),
            objectives=goal,
        )
    )
    shown = tuner("show", "built").out
    assert "built: the highest tokens_per_s of 2 trials" in shown
    assert "Pareto" not in shown


def test_intel_neural_compressor_1617_a_relative_limit_on_a_baseline_of_zero_stops_the_study(
    bench: Bench,
) -> None:
    file = study_file(limits=(limit("error", "max_relative", 1.01),))
    ending, executor = bench.run(file, lambda spec, nth: gave(**{FAST: 1.0, LOSS: 2.0, "error": 0.0}))
    assert "the baseline's error is 0; write an absolute max or min" in failure_of(ending)
    assert executor.searched() == []


def test_intel_neural_compressor_498_absolute_and_relative_have_names_of_their_own(tuner: Tuner) -> None:
    written("constraints: {val_loss_nats: {max_increase: 0.8}, tokens_per_s: {min_relative: 0.8}}")
    shown = tuner("check", "space.yaml").out
    assert "limit       val_loss_nats <= baseline + 0.8" in shown
    assert "limit       tokens_per_s >= 0.8 x baseline" in shown
    said = refused("constraints: {accuracy_drop: 0.8}")
    assert "max_decrease" in said and "min_relative" in said
    assert "did you mean max_decrease" in refused("constraints: {accuracy: {max_decreased: 0.8}}")


def test_intel_neural_compressor_498_a_percentage_written_as_a_fraction_is_refused_with_both_ways() -> None:
    said = refused("constraints: {accuracy: {max_decrease: 1.5}}")
    assert "is above 1, and accuracy is a fraction; write 0.015 or 1.5%" in said
    (limit_read,) = loaded("constraints: {accuracy: {max_decrease: 1.5%}}").constraints
    assert limit_read.formula == "accuracy >= baseline - 0.015"


def test_intel_neural_compressor_498_the_study_says_the_number_once_it_is_known(bench: Bench) -> None:
    file = study_file(x=1, limits=(limit("accuracy", "max_decrease", 0.008),))
    bench.run(file, lambda spec, nth: gave(**{FAST: 1.0, LOSS: 2.0, "accuracy": 0.89}))
    assert "limit accuracy >= 0.882" in bench.notes.said


def test_openshift_psap_auto_tuning_vllm_111_gains_over_the_baseline_are_in_report_and_mlflow(
    bench: Bench,
) -> None:
    ending, executor = bench.run(study_file(x=3, trials=3), on_line)
    result = ending.result
    assert result is not None
    assert executor.taken[0].trial_number == 0 and len(result.trials) == 3
    fastest = max(result.trials, key=lambda trial: trial.config["x"])
    points = {point.name: point.value for point in StudyViews(result.record).trial(fastest).points}
    assert points["gain.tokens_per_s"] == pytest.approx(3.0, rel=0.01)
    assert "gain.tokens_per_s" not in {
        p.name for p in StudyViews(result.record).trial(result.baseline).points
    }
    page = report_html(result.record, result)
    assert page.count("x3.00 (") >= 1
    assert 0 in result.front, "it may win: nothing is better on every objective"


def test_optuna_optuna_6242_nothing_feasible_ends_normally_with_the_nearest(bench: Bench) -> None:
    file = study_file(x=4, limits=(limit("accuracy", "min", 0.99),))
    ending, _ = bench.run(
        file,
        lambda spec, nth: gave(**{FAST: 1.0, LOSS: 2.0, "accuracy": 0.9 + 0.02 * spec.config["x"]}),
    )
    assert ending.failure is None and ending.result is not None
    assert (ending.result.front, ending.result.recommended) == ((), None)
    assert str(ending.result.nearest_miss).endswith("accuracy 0.96 < 0.99")
    assert judge(bench.record()).nearest_miss == ending.result.nearest_miss
