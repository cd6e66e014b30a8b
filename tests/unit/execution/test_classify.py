"""From how a process ended and what it wrote to the one outcome."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import job
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, TrialSpec
from trials.metrics import Key
from tuner.execution.classify import Report, log_tail, measurement_of
from tuner.execution.cut import ask_to_cut

CLEAN = Report("exit", 0, peak_bytes=2**30)


@pytest.fixture
def spec(tmp_path: Path) -> TrialSpec:
    spec = job(tmp_path, 0, "anything", wanted=("score",), timeout_s=180.0).spec
    spec.trial_dir.mkdir()
    return spec


def write(spec: TrialSpec, **changes: Any) -> None:
    result = Measurement(Outcome.COMPLETE, metrics={"score": MetricValue(1.5, "1")}, facts={"own": 1})
    (spec.trial_dir / "result.json").write_text(dataclasses.replace(result, **changes).to_json())


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        (Report("exit", 3), FailureKind.CRASH),
        (Report("exit", -11), FailureKind.CRASH),
        (Report("exit", -9), FailureKind.KILLED),
        (Report("timeout", -9), FailureKind.TIMEOUT),
        (Report("memory", -9), FailureKind.OUT_OF_MEMORY),
        (Report("interrupted", -9), FailureKind.INTERRUPTED),
        (Report("driver_gone", -9), FailureKind.INTERRUPTED),
        (Report("supervisor_gone", -9), FailureKind.INTERRUPTED),
        (Report("guardian_gone", None), FailureKind.KILLED),
    ],
)
def test_a_result_counts_only_when_the_process_ended_well_by_itself(
    spec: TrialSpec, report: Report, kind: FailureKind
) -> None:
    write(spec)
    measurement = measurement_of(report, spec)
    assert (measurement.outcome, measurement.failure_kind) == (Outcome.FAILED, kind)
    assert not measurement.metrics
    assert measurement.facts["metrics_before_failure"] == {"score": 1.5}


def test_a_clean_end_with_a_result_is_complete_and_keeps_what_the_trial_said(spec: TrialSpec) -> None:
    write(spec)
    measurement = measurement_of(CLEAN, spec)
    assert measurement.outcome is Outcome.COMPLETE
    assert measurement.metrics["score"].value == 1.5
    assert measurement.facts["own"] == 1
    assert measurement.facts["process"]["reason"] == "exit"


def test_the_memory_of_any_program_is_reported_unless_it_reports_its_own(spec: TrialSpec) -> None:
    write(spec)
    assert measurement_of(CLEAN, spec).metrics[Key.PEAK_MEMORY_GIB].value == 1.0
    write(spec, metrics={"score": MetricValue(1.0, "1"), Key.PEAK_MEMORY_GIB: MetricValue(0.5, "GiB")})
    assert measurement_of(CLEAN, spec).metrics[Key.PEAK_MEMORY_GIB].value == 0.5


def test_host_memory_does_not_stand_in_for_the_memory_of_a_device(spec: TrialSpec) -> None:
    write(spec)
    metrics = measurement_of(CLEAN, dataclasses.replace(spec, gpus=("0",))).metrics
    assert Key.PEAK_RSS_GIB in metrics
    assert Key.PEAK_MEMORY_GIB not in metrics


def test_a_limit_on_the_guardian_s_own_metric_is_no_missing_metric(spec: TrialSpec) -> None:
    write(spec)
    wanting = dataclasses.replace(spec, wanted=("score", Key.PEAK_RSS_GIB))
    assert measurement_of(CLEAN, wanting).outcome is Outcome.COMPLETE


def test_a_missing_metric_is_named_with_what_came_and_the_nearest_name(spec: TrialSpec) -> None:
    write(spec, metrics={"scores": MetricValue(1.0, "1"), "loss": MetricValue(1.0, "1")})
    measurement = measurement_of(CLEAN, spec)
    assert measurement.failure_kind is FailureKind.MISSING_METRIC
    assert measurement.message == "did not report score; it reported scores, loss; did you mean scores?"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_wanted_metric_that_is_not_finite_is_named(spec: TrialSpec, value: float) -> None:
    write(spec, metrics={"score": MetricValue(value, "1")})
    measurement = measurement_of(CLEAN, spec)
    assert measurement.failure_kind is FailureKind.NON_FINITE
    assert measurement.message == f"score is {value}"


@pytest.mark.parametrize("value", [1e308, -1e61])
def test_a_wanted_metric_that_is_too_large_to_be_compared_is_named(spec: TrialSpec, value: float) -> None:
    write(spec, metrics={"score": MetricValue(value, "1")})
    measurement = measurement_of(CLEAN, spec)
    assert measurement.failure_kind is FailureKind.NON_FINITE
    assert measurement.message == f"score is {value:g}, and beyond 1e+60 nothing can be compared"


def test_a_result_with_a_whole_number_that_no_float_holds_is_no_result(spec: TrialSpec) -> None:
    write(spec, metrics={"score": MetricValue(1.5, "1")})
    path = spec.trial_dir / "result.json"
    path.write_text(path.read_text().replace("1.5", "9" * 400))
    assert measurement_of(CLEAN, spec).failure_kind is FailureKind.CRASH


def test_a_metric_that_nobody_wants_may_be_nan(spec: TrialSpec) -> None:
    write(spec, metrics={"score": MetricValue(1.0, "1"), "other": MetricValue(float("nan"), "1")})
    assert measurement_of(CLEAN, spec).outcome is Outcome.COMPLETE


def test_a_failure_that_the_trial_names_itself_keeps_its_kind_and_message(spec: TrialSpec) -> None:
    write(spec, outcome=Outcome.FAILED, failure_kind=FailureKind.UNSUPPORTED, message="no such engine here")
    for report in (Report("exit", 1), CLEAN):
        measurement = measurement_of(report, spec)
        assert (measurement.failure_kind, measurement.message) == (
            FailureKind.UNSUPPORTED,
            "no such engine here",
        )


def test_a_pruned_trial_stays_pruned_even_without_its_metrics(spec: TrialSpec) -> None:
    write(spec, outcome=Outcome.PRUNED, metrics={}, message="cannot reach the front")
    assert measurement_of(CLEAN, spec).outcome is Outcome.PRUNED


def test_a_clean_end_without_a_result_says_so_with_the_end_of_the_log(spec: TrialSpec) -> None:
    (spec.trial_dir / "trial.log").write_text("one\ntwo\n")
    measurement = measurement_of(CLEAN, spec)
    assert measurement.failure_kind is FailureKind.CRASH
    assert "exit status 0 without a result" in measurement.message
    assert measurement.message.endswith("one\ntwo")


def test_a_trial_that_deleted_its_own_folder_is_told_so(spec: TrialSpec) -> None:
    spec.trial_dir.rmdir()
    measurement = measurement_of(Report("exit", 1), spec)
    assert measurement.failure_kind is FailureKind.CRASH
    assert measurement.message == (
        f"its folder {spec.trial_dir} was deleted while it ran, and its log and result with it; "
        "the program may empty that folder, never remove it"
    )


VALID = json.loads(Measurement(Outcome.COMPLETE, metrics={"score": MetricValue(1.0, "1", n=1)}).to_json())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '"complete"',
        "{",
        "\x00\x01",
        "[" * 100_000,
        json.dumps({**VALID, "contract_version": 0}),
        json.dumps({**VALID, "outcome": "fine"}),
        json.dumps({**VALID, "outcome": "failed"}),
        json.dumps({**VALID, "failure_kind": "crash"}),
        json.dumps({**VALID, "metrics": [1]}),
        json.dumps({**VALID, "metrics": {"score": 1.0}}),
        json.dumps({**VALID, "metrics": {"score": {**VALID["metrics"]["score"], "value": "fast"}}}),
        json.dumps({**VALID, "metrics": {"score": {**VALID["metrics"]["score"], "n": "many"}}}),
        json.dumps({**VALID, "facts": [1]}),
        json.dumps({**VALID, "message": 3}),
        json.dumps({**VALID, "phases": {"total_s": None}}),
        json.dumps({**VALID, "surprise": 1}),
    ],
)
def test_garbage_instead_of_a_result_is_a_crash_with_the_reason(spec: TrialSpec, text: str) -> None:
    (spec.trial_dir / "result.json").write_text(text)
    measurement = measurement_of(CLEAN, spec)
    assert measurement.failure_kind is FailureKind.CRASH
    assert "result.json that is not a result" in measurement.message


def test_bytes_that_are_no_text_are_garbage_too(spec: TrialSpec) -> None:
    (spec.trial_dir / "result.json").write_bytes(b"\xff\xfe\xfa")
    assert measurement_of(CLEAN, spec).failure_kind is FailureKind.CRASH


def test_a_pipe_in_the_place_of_a_result_does_not_block(spec: TrialSpec) -> None:
    os.mkfifo(spec.trial_dir / "result.json")
    assert "no file" in measurement_of(CLEAN, spec).message


def test_a_timeout_names_the_limit_and_the_key_to_raise(spec: TrialSpec) -> None:
    message = measurement_of(Report("timeout", -9), spec).message
    assert message == "cut after 180 s; raise budget.trial_timeout if it was only slow"


def test_out_of_memory_names_the_limit_where_there_was_one(spec: TrialSpec) -> None:
    report = Report("memory", -9, peak_bytes=3 * 2**30)
    assert (
        "resources.memory = 2 GiB"
        in measurement_of(report, dataclasses.replace(spec, memory_limit_gib=2.0)).message
    )
    assert "the machine ran out of memory" in measurement_of(report, spec).message


def test_strays_and_survivors_are_remarked(spec: TrialSpec) -> None:
    write(spec)
    warnings = measurement_of(dataclasses.replace(CLEAN, strays=2, survivors=(7,)), spec).warnings
    assert [warning.split()[0] for warning in warnings] == ["2", "processes"]


def test_the_tail_of_a_log_is_short_however_long_the_log_is(tmp_path: Path) -> None:
    (tmp_path / "trial.log").write_bytes(b"\xff" + b"x" * 100_000 + b"\nprogress 1\rprogress 2\nlast\n\n")
    lines = log_tail(tmp_path).splitlines()
    assert lines[-3:] == ["progress 1", "progress 2", "last"]
    assert sum(map(len, lines)) <= 4000


def test_a_trial_that_wrote_no_log_has_an_empty_tail(tmp_path: Path) -> None:
    assert log_tail(tmp_path) == ""


def test_every_reason_of_the_guardian_has_a_meaning(spec: TrialSpec) -> None:
    from tuner.execution.guardian import REASONS

    for reason in REASONS:
        measurement = measurement_of(Report(reason, -15, message="no such file"), spec)
        assert (measurement.outcome is Outcome.PRUNED) == (reason == "cut")
        assert (measurement.failure_kind is None) == (reason == "cut")
        assert measurement.message


def staged(spec: TrialSpec, *lines: str) -> None:
    (spec.trial_dir / "events.jsonl").write_text("\n".join(lines))


STAGE = {
    "event": "stage",
    "fraction": 0.1,
    "metrics": {"score": {"value": 3.0, "unit": "1", "n": 5, "low": 2.5, "high": 3.5, "method": "mean"}},
    "steady": ["score"],
    "contaminated": None,
}


def test_a_trial_that_was_cut_is_pruned_with_the_reason_and_what_it_had_reported(spec: TrialSpec) -> None:
    staged(spec, '{"event": "phase", "name": "warmup_s"}', json.dumps(STAGE), '{"event": "stage", "fra')
    ask_to_cut(spec.trial_dir, "score 3: beaten by trial 1")
    measurement = measurement_of(Report("cut", -9, peak_bytes=2**30), spec)
    assert (measurement.outcome, measurement.failure_kind) == (Outcome.PRUNED, None)
    assert measurement.message == "score 3: beaten by trial 1"
    score = measurement.metrics["score"]
    assert (score.value, score.flags, score.method) == (3.0, ("partial",), "mean, 10% of the run done")
    assert [stage["fraction"] for stage in measurement.facts["stages"]] == [0.1]


def test_a_trial_that_ended_by_itself_keeps_its_stages_beside_its_result(spec: TrialSpec) -> None:
    write(spec)
    staged(spec, json.dumps(STAGE) + "\n", "[1, 2]\n", json.dumps({**STAGE, "fraction": 7}) + "\n")
    measurement = measurement_of(CLEAN, spec)
    assert measurement.metrics["score"].value == 1.5
    assert [stage["fraction"] for stage in measurement.facts["stages"]] == [0.1]
