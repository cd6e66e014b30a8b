"""Public cases about how a number is taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import builders
from tests.cases.spaces import fake, measured, says, written
from tests.unit.cli.conftest import Tuner
from tests.unit.study.bench import FAST, Bench, failure_of, gave, limit, line, study_file
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, Purpose, TrialSpec
from trials.metrics import Key
from trials.training.batch_plan import BatchPlan
from trials.training.report import cut_window, speed_metrics
from tuner.cli.summary import summary_of
from tuner.execution.classify import Report, measurement_of
from tuner.results import judge

FINE = {"do": "complete", "value": 2.0}


def test_pytorch_pytorch_93634_a_compilation_among_the_first_steps_is_not_counted() -> None:
    durations = [30.0, 0.4, 0.3, 0.2, *([0.1, 0.102, 0.104] * 14)]
    window = cut_window(durations, [0.0] * len(durations), [0, *([1] * (len(durations) - 1))])
    speed = speed_metrics(window, BatchPlan(1, 1), None, 1)[Key.SAMPLES_PER_S]
    assert speed.value == pytest.approx(1 / 0.102, rel=0.02)
    assert speed.low is not None and speed.high is not None and speed.low < speed.value < speed.high
    assert window.warmup_s > 30.0


def run_that_reported(folder: Path, wanted: str, value: float) -> Measurement:
    spec = TrialSpec(
        "s", 0, "m", Purpose.SEARCH, {"kind": "command"}, {}, 0, folder, folder, wanted=(wanted,)
    )
    reported = Measurement(Outcome.COMPLETE, metrics={wanted: MetricValue(value, "", 1)})
    (folder / "result.json").write_text(reported.to_json())
    return measurement_of(Report("exit", 0), spec)


@pytest.mark.parametrize("metric", ["samples_per_s", "tokens_per_s", "tokens_per_s_per_gpu"])
def test_triton_inference_server_client_116_a_throughput_of_zero_is_unstable_and_no_low_score(
    tmp_path: Path, metric: str
) -> None:
    found = run_that_reported(tmp_path, metric, 0.0)
    assert (found.outcome, found.failure_kind) == (Outcome.FAILED, FailureKind.UNSTABLE)
    assert f"{metric} is 0: nothing was completed" in found.message and "longer" in found.message
    assert found.metrics == {}


@pytest.mark.parametrize("metric", ["data_wait_pct", "val_loss_nats", "score"])
def test_triton_inference_server_client_116_zero_is_a_value_of_other_metrics(
    tmp_path: Path, metric: str
) -> None:
    assert run_that_reported(tmp_path, metric, 0.0).outcome is Outcome.COMPLETE


def test_triton_inference_server_client_116_own_rates_too_and_the_front_stays_clean() -> None:
    goals = [builders.objective("requests_per_s"), builders.objective("errors_per_s", "minimize")]
    record = builders.study(
        builders.baseline({"requests_per_s": [9.0, 9.1], "errors_per_s": [1.0, 1.0]}),
        builders.trial(1, builders.measurement({"requests_per_s": 0.0, "errors_per_s": 0.0})),
        objectives=goals,
    )
    result = judge(record)
    assert result.trial(1).failure_kind is FailureKind.UNSTABLE
    assert result.front == (0,)


def test_triton_inference_server_client_116_a_baseline_that_completed_nothing_stops_after_one_run(
    bench: Bench,
) -> None:
    file = study_file(objectives=(builders.objective("requests_per_s"),))
    ending, executor = bench.run(file, lambda spec, nth: gave(requests_per_s=0.0))
    assert "the baseline failed (unstable): requests_per_s is 0: nothing was completed" in failure_of(ending)
    assert len(executor.taken) == 1
    run = bench.runs(0)[0]
    assert (run.outcome, run.metrics) == (Outcome.FAILED, {})
    assert run.facts["metrics_before_failure"] == {"requests_per_s": 0.0}


def test_nvidia_tensorrt_model_connect_888_check_warns_of_a_limit_finer_than_one_example(
    tuner: Tuner,
) -> None:
    written(
        "workload: {kind: training, task: 'trials.tasks.digits:Digits', train_for: {samples: 4000}, "
        "evaluate_on: 20}",
        "parameters: {precision: [fp32, bf16]}",
        "objectives: [samples_per_s, val_loss_nats]",
        "constraints:",
        "  accuracy: {max_decrease: 0.01}",
    )
    said = tuner("check", "space.yaml")
    assert said.code == 0
    assert (
        "warning: space.yaml:5: accuracy >= baseline - 0.01: 20 examples move it in steps of 0.05" in said.err
    )
    assert "evaluate on at least 100" in said.err
    again = tuner("check", "space.yaml", "--set", "workload.evaluate_on=100")
    assert (again.code, again.err) == (0, "")


def with_accuracy(spec, nth):
    run = line(spec.config, spec.seed)
    share = MetricValue(0.9, "fraction", n=20, low=0.70, high=0.97, method="share of 20 held-out samples")
    return Measurement(run.outcome, metrics={**run.metrics, "accuracy": share}, phases=run.phases)


@pytest.mark.parametrize("kind_and_amount", [("max_decrease", 0.01), ("min_relative", 0.99)])
def test_nvidia_tensorrt_model_connect_888_the_study_says_it_where_only_the_baseline_tells_n(
    bench: Bench, kind_and_amount: tuple[str, float]
) -> None:
    ending, _ = bench.run(study_file(x=3, limits=(limit("accuracy", *kind_and_amount),)), with_accuracy)
    assert any(said.startswith("warning: accuracy >= ") and "at least 1" in said for said in bench.notes.said)
    assert ending.result is not None
    (remark,) = ending.result.warnings
    assert "20 examples move it in steps of 0.05" in remark
    assert f"note: {remark}" in summary_of(ending.result).replace("\n    ", " ")
    stored = bench.runs(1)[0].metrics["accuracy"]
    assert (stored.n, stored.low, stored.high) == (20, 0.70, 0.97)


def test_nvidia_tensorrt_model_connect_888_enough_examples_or_an_absolute_limit_are_fine(
    bench: Bench,
) -> None:
    limits = (limit("accuracy", "max_decrease", 0.05), limit("accuracy", "min", 0.5), limit(FAST, "min", 1.0))
    ending, _ = bench.run(study_file(x=2, limits=limits), with_accuracy)
    assert ending.result is not None
    assert ending.result.warnings == ()


def test_huggingface_accelerate_1934_failures_have_kinds_and_the_first_cause_is_shown() -> None:
    file = fake(
        {"do": "typed_failure", "kind": "out_of_memory", "batch_size": 64},
        {"do": "exit", "status": 3, "batch_size": 32},
        {"do": "nan", "batch_size": 16},
        {"do": "typed_failure", "kind": "unsupported", "batch_size": 8},
        {"do": "die", "signal": 9, "batch_size": 4},
        baseline=FINE,
    )
    ending, record = measured(file)
    kinds = [str(trial.measurements[-1].failure_kind) for trial in record.trials[1:]]
    assert kinds == ["out_of_memory", "crash", "non_finite", "unsupported", "killed"]
    given = [trial.measurements[0].facts["parameters"]["batch_size"] for trial in record.trials[1:]]
    assert given == [64, 32, 16, 8, 4], "nothing is shrunk behind the user's back"
    assert ending.result is not None
    shown = summary_of(ending.result)
    assert "1 failed, crash: trial 2: ended with exit status 3" in shown
    assert "1 failed, out_of_memory: trial 1: as it said itself" in shown


def test_triton_inference_server_client_116_a_program_that_completed_nothing_fails_its_baseline(
    program: Tuner,
) -> None:
    written(
        says({"samples_per_s": "{x} - 1"}),
        "parameters: {x: [1, 2]}",
        "objectives: [samples_per_s]",
        "resources: {cpus: 1}",
    )
    said = program("run", "space.yaml")
    assert said.code == 1
    assert "the baseline failed (unstable): samples_per_s is 0: nothing was completed" in said.err
    shown = json.loads(program("show", "bench", "--json").out)
    assert shown["front"] == [] and shown["failures"] == {"unstable": 1}
