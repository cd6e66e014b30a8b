"""Real inference trials of a small ONNX file: what is measured, what is proved, what is refused, each as typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason='needs ONNX Runtime: pip install "tuner[onnxruntime]"')
pytest.importorskip("onnx", reason='needs onnx: pip install "tuner[onnxruntime]"')

from tests.served_digits import CONSTANT, WRONG, ServedDigits, write_model
from trials import runner
from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, Outcome, Purpose, TrialSpec
from trials.metrics import CATALOGUE, Key

TASK = f"{Path(__file__).parents[1] / 'served_digits.py'}:ServedDigits"
INT8 = {"precision": "int8_dynamic"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "sound.onnx")
    write_model(folder / "wrong.onnx", WRONG)
    write_model(folder / "constant.onnx", CONSTANT)
    write_model(folder / "unknown.onnx", unknown_operator=True)
    write_model(folder / "nan.onnx", nan=True)
    return folder


@pytest.fixture
def spec(tmp_path, files):
    """``spec(config, model=..., wanted=..., **section)``: one trial, on one thread."""

    def make(config=None, model="sound", wanted=(), purpose=Purpose.SEARCH, **section):
        folder = tmp_path / f"trial{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        workload = {
            "kind": "inference", "task": TASK, "model": str(files / f"{model}.onnx"),
            "evaluate_on": 400, "window_s": 0.1, **section,
        }  # fmt: skip
        config = {"engine": "onnxruntime", "batch_size": 50, "threads": 1, **(config or {})}
        return TrialSpec("s", 0, "m", purpose, workload, config, 0, folder, files / "cache", wanted=wanted)

    return make


@pytest.fixture
def serve(spec):
    """The measurement of such a trial, in this process; failures come back as one."""

    def run(*arguments, **named) -> Measurement:
        context = TrialContext(spec(*arguments, **named), time.monotonic())
        try:
            return Measurement.from_json(runner.run(context).to_json())
        finally:
            context.close()

    return run


def complete(found):
    assert found.outcome is Outcome.COMPLETE, found.message
    return found


def test_a_trial_reports_what_the_catalogue_promises(serve):
    found = complete(serve(purpose=Purpose.BASELINE))
    assert {
        Key.SAMPLES_PER_S, Key.LATENCY_P50_MS, Key.LATENCY_P90_MS, Key.LATENCY_P99_MS, Key.ACCURACY,
        Key.ACCURACY_RECOVERY_PCT, Key.PREDICTION_AGREEMENT_PCT, Key.PEAK_MEMORY_GIB, Key.MODEL_SIZE_MIB,
        Key.LOAD_S, Key.EXPORT_S, Key.CALIBRATION_S, Key.QUANTIZE_S, Key.COMPILE_S, Key.STARTUP_S,
    } <= found.metrics.keys()  # fmt: skip
    for key, metric in found.metrics.items():
        assert metric.unit == CATALOGUE[key].unit and metric.is_finite
    assert {
        "data_s",
        "reference_s",
        "warmup_s",
        "measured_s",
        "requests_s",
        "evaluation_s",
    } <= found.phases.keys()
    assert found.proof["engine"] == "onnxruntime" and found.proof["matmul_dtypes"] == {"float32": 3}


def test_throughput_and_quality_come_from_the_same_calls(serve):
    """Every batch of the first pass is both timed and judged, and a pass serves every example once."""
    found = complete(serve())
    rate = found.metrics[Key.SAMPLES_PER_S]
    assert rate.n >= 400 / 50
    assert rate.value == pytest.approx(rate.n * 50 / found.phases["measured_s"], rel=1e-6)
    assert len(found.examples["accuracy"]) == found.facts["examples"] == 400
    task = ServedDigits()
    share = np.mean(found.examples["accuracy"])
    assert share == pytest.approx(found.metrics[Key.ACCURACY].value)
    assert share == pytest.approx(found.facts["reference_quality"]["accuracy"])  # float32 against float32
    assert 0.85 < share < 1 and len(task.evaluation_data()["images"]) == 1000


def test_the_batch_size_does_not_change_what_is_judged(serve):
    one, other = (complete(serve({"batch_size": size})) for size in (7, 400))
    assert one.examples == other.examples
    assert one.facts["data"] == other.facts["data"]


def test_an_integer_model_is_compared_with_float32_on_the_same_examples(serve):
    found = complete(serve(INT8))
    assert found.proof["quantised_layers"] == ["hidden.0", "hidden.1", "head"]
    recovery, accuracy = found.metrics[Key.ACCURACY_RECOVERY_PCT], found.metrics[Key.ACCURACY]
    assert recovery.value == pytest.approx(
        100 * accuracy.value / found.facts["reference_quality"]["accuracy"]
    )
    assert 97 < recovery.value < 103
    assert recovery.high - recovery.low < 100 * (accuracy.high - accuracy.low) / accuracy.value
    assert 90 < found.metrics[Key.PREDICTION_AGREEMENT_PCT].value < 100


def test_a_layer_kept_in_high_precision_gives_a_broken_model_its_answers_back(serve):
    broken = complete(serve(INT8, model="wrong"))
    kept = complete(serve({**INT8, "keep_high_precision": ["hidden.1"]}, model="wrong"))
    assert broken.metrics[Key.ACCURACY_RECOVERY_PCT].high < 95
    assert kept.metrics[Key.ACCURACY_RECOVERY_PCT].value > 98
    assert kept.proof["kept_layers"] == ["hidden.1"]


def test_the_reference_is_computed_once_and_again_for_another_model(serve, files):
    def references():
        return {path.name for path in (files / "cache").glob("reference-*.npz")}

    complete(serve(evaluate_on=300))
    known = references()
    complete(serve(INT8, evaluate_on=300))
    assert references() == known
    complete(serve(model="wrong", evaluate_on=300))
    assert len(references()) == len(known) + 1


def test_a_percentile_that_is_judged_gets_its_samples(serve):
    found = complete(serve(wanted=("latency_p99_ms",)))
    assert found.metrics[Key.LATENCY_P99_MS].n >= 1000 and not found.metrics[Key.LATENCY_P99_MS].flags


def test_nothing_but_results_is_left_in_the_folder_of_a_trial(spec, serve, tmp_path):
    complete(serve(INT8, purpose=Purpose.BASELINE))
    assert {path.name for path in (tmp_path / "trial0").iterdir()} <= {"events.jsonl"}


@pytest.mark.parametrize(
    ("config", "model", "kind", "said"),
    [
        ({}, "nan", FailureKind.NON_FINITE, "not finite"),
        (INT8, "constant", FailureKind.NON_FINITE, "the same for all samples"),
        ({}, "unknown", FailureKind.UNSUPPORTED, "Enchant"),
        ({"precision": "bf16"}, "sound", FailureKind.UNSUPPORTED, "has no precision=bf16"),
        ({"provider": "cuda"}, "sound", FailureKind.UNSUPPORTED, "needs a GPU"),
        ({"engine": "torch"}, "sound", FailureKind.UNSUPPORTED, "cannot read an ONNX file"),
        ({"precision": "int8_static", "task.fault": "calibration is empty"}, "sound", FailureKind.UNSUPPORTED,
         "calibration set has 0"),
        ({"precision": "int8_static", "calibration_samples": 500}, "sound", FailureKind.UNSUPPORTED,
         "calibration set has 97"),
        ({"task.fault": "calibration overlaps"}, "sound", FailureKind.UNSUPPORTED, "1 samples that are evaluated"),
        ({"task.fault": "score of another length"}, "sound", FailureKind.CRASH, "ServedDigits.score returned shape"),
        ({"keep_high_precision": ["*"], **INT8}, "sound", FailureKind.UNSUPPORTED, "finds no layer to quantise"),
    ],
)  # fmt: skip
def test_bad_input_ends_as_a_typed_failure_without_values(serve, config, model, kind, said):
    found = serve(config, model=model)
    assert (found.outcome, found.failure_kind) == (Outcome.FAILED, kind), found.message
    assert said in found.message
    assert found.metrics == {}


def alone(trial: TrialSpec, cores: tuple[int, ...]) -> Measurement:
    """The trial in a process of its own, which keeps to its cores for good."""
    text = json.loads(trial.to_json()) | {"cpus": cores}
    (trial.trial_dir / "spec.json").write_text(json.dumps(text))
    root = str(Path(runner.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-P", "-m", "trials", str(trial.trial_dir / "spec.json")],
        env={**os.environ, "PYTHONPATH": root}, capture_output=True, check=False, timeout=280,
    )  # fmt: skip
    return Measurement.from_json((trial.trial_dir / "result.json").read_text())


@pytest.fixture
def two_cores():
    cores = tuple(sorted(os.sched_getaffinity(0))[:2])
    if len(cores) < 2:
        pytest.skip("needs two cores")
    return cores


def test_two_instances_hold_a_core_each_and_add_up(spec, two_cores):
    found = complete(alone(spec({"instances": 2}), two_cores))
    assert found.proof["cores_by_instance"] == [[core] for core in two_cores]
    assert "2 instances" in found.metrics[Key.SAMPLES_PER_S].method
    assert len(found.examples["accuracy"]) == 400
    assert found.metrics[Key.ACCURACY_RECOVERY_PCT].value == 100


def test_more_instances_than_batches_is_unstable(spec, two_cores):
    found = alone(spec({"instances": 2, "batch_size": 400}), two_cores)
    assert found.failure_kind is FailureKind.UNSTABLE
    assert "2 instances share fewer batches than that" in found.message


def test_a_trial_does_not_wait_for_an_instance_that_was_killed(spec, two_cores):
    config = {"instances": 2, "task.fault": "second instance is killed"}
    found = alone(spec(config, window_s=3600), two_cores)
    assert found.failure_kind is FailureKind.KILLED
    assert found.message.startswith("instance 1 ended by signal 9")


def test_a_pattern_that_keeps_no_layer_is_said_with_the_layers_there_are(serve):
    found = serve({**INT8, "keep_high_precision": ["hidden.1", "hiden.2"]})
    assert found.failure_kind is FailureKind.UNSUPPORTED
    assert found.message.endswith(
        "no layer that could be quantised matches hiden.2; there are hidden.0, head"
    )
