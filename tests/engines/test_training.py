"""Real trainings, small ones: what is measured, what is proved, what is refused."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import BYTE_LM, SMALL_LM

from trials.contract import FailureKind, Measurement, Outcome, Purpose, TrialSpec
from trials.metrics import CATALOGUE, Key


def loss_of(measurement):
    assert measurement.outcome is Outcome.COMPLETE, measurement.message
    return measurement.metrics[Key.VAL_LOSS_NATS].value


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16"), ("bf16_params", "bfloat16")],
)
def test_each_precision_trains_and_proves_its_matrix_products(train, precision, dtype):
    found = train(config={"precision": precision, "task.width": 64, "task.learning_rate": 3e-3})
    assert found.outcome is Outcome.COMPLETE, found.message
    assert found.proof["matmul_flops_by_dtype"] == {dtype: 1.0}
    assert found.metrics[Key.ACCURACY].value > 0.6


def test_a_training_reports_what_the_catalogue_promises(train):
    found = train(BYTE_LM, SMALL_LM, train_for={"tokens": 16 * 4 * 40}, evaluate_on=50)
    assert {
        Key.SAMPLES_PER_S,
        Key.TOKENS_PER_S,
        Key.STEP_TIME_P50_MS,
        Key.STEP_TIME_P99_MS,
        Key.TRAIN_LOSS_NATS,
        Key.VAL_LOSS_NATS,
        Key.PERPLEXITY,
        Key.PEAK_MEMORY_GIB,
        Key.PEAK_RSS_GIB,
        Key.DATA_WAIT_PCT,
        Key.STARTUP_S,
    } <= found.metrics.keys()
    assert Key.MFU_PCT not in found.metrics  # the peak of a CPU is not known
    for key, metric in found.metrics.items():
        assert math.isfinite(metric.value)
        assert metric.unit == CATALOGUE[key].unit
    assert {"startup_s", "warmup_s", "measured_s", "evaluation_s", "total_s"} <= found.phases.keys()
    assert found.metrics[Key.PERPLEXITY].value == pytest.approx(math.exp(loss_of(found)), rel=1e-5)
    assert found.environment["torch"] == torch.__version__
    assert found.facts["samples_seen"] == 160


def test_throughput_is_work_over_the_time_of_the_window(train):
    found = train(config={"micro_batch_size": 10, "gradient_accumulation_steps": 3, "task.width": 16})
    rate = found.metrics[Key.SAMPLES_PER_S]
    assert rate.value == pytest.approx(30 * rate.n / found.phases["measured_s"])
    assert rate.n + found.facts["warmup_steps"] == 50


def test_per_sample_results_are_kept_in_the_order_of_the_data(train):
    found = train(config={"task.width": 16}, evaluate_on=100)
    assert len(found.examples[Key.VAL_LOSS_NATS]) == 100
    assert set(found.examples[Key.ACCURACY]) <= {0.0, 1.0}
    assert sum(found.examples[Key.VAL_LOSS_NATS]) / 100 == pytest.approx(loss_of(found))


def test_the_same_seed_gives_the_same_losses_and_another_seed_others(train):
    same = [train(config={"task.width": 16}, seed=seed).examples for seed in (3, 3, 4)]
    assert same[0] == same[1] != same[2]


@pytest.mark.parametrize(
    "knobs",
    [
        {"activation_checkpointing": "full"},
        {"activation_checkpointing": "selective"},
        {"activation_offload": "cpu"},
        {"activation_checkpointing": "full", "activation_offload": "cpu"},
        {"optimizer_offload": "cpu"},
        {"loader_workers": 2},
        {"micro_batch_size": 1, "global_batch_size": 4},
    ],
    ids=str,
)
def test_an_equivalent_knob_learns_the_same(train, knobs):
    """The same up to the order of sums, on a horizon that ends in a short step."""
    arguments = {"train_for": {"samples": 58}, "evaluate_on": 30}
    plain, other = train(BYTE_LM, SMALL_LM, **arguments), train(BYTE_LM, {**SMALL_LM, **knobs}, **arguments)
    assert loss_of(other) == pytest.approx(loss_of(plain), abs=2e-5)
    assert other.facts["samples_seen"] == plain.facts["samples_seen"] == 58
    assert other.facts["optimizer_steps"] == 15


def test_checkpointing_is_proved_by_the_blocks_that_were_recomputed(train):
    lm = {**SMALL_LM, "task.depth": 3}
    arguments = {"train_for": {"steps": 8}, "evaluate_on": 4}
    assert train(BYTE_LM, lm, **arguments).proof["checkpointed_blocks"] == 0
    for kind in ("selective", "full"):
        found = train(BYTE_LM, {**lm, "activation_checkpointing": kind}, **arguments)
        assert found.proof["checkpointed_blocks"] == 3
    every_second = {**lm, "activation_checkpointing": "full", "checkpoint_every": 2}
    assert train(BYTE_LM, every_second, **arguments).proof["checkpointed_blocks"] == 2


def test_offloading_is_proved_by_the_bytes_that_moved(train):
    found = train(config={"activation_offload": "cpu", "task.width": 64, "micro_batch_size": 50})
    hidden = 50 * 64 * 4
    assert found.proof["bytes_offloaded_per_step"] >= 3 * hidden
    assert any("frees nothing" in warning for warning in found.warnings)
    found = train(config={"optimizer_offload": "cpu", "task.width": 16}, train_for={"steps": 8})
    assert found.proof["optimizer_bytes_moved_per_step"] == 2 * 4 * found.proof["parameters"]


@pytest.mark.parametrize(
    ("name", "kind", "is_fused"),
    [
        ("adamw", "AdamW", False),
        ("fused_adamw", "AdamW", True),
        ("sgd", "SGD", False),
        ("adafactor", "Adafactor", False),
    ],
)
def test_the_optimizer_that_ran_is_named(train, name, kind, is_fused):
    found = train(config={"optimizer": name, "task.width": 16}, train_for={"steps": 8})
    assert (found.proof["optimizer"], found.proof["optimizer_is_fused"]) == (kind, is_fused)


def test_a_loss_that_explodes_is_non_finite_and_names_the_step(train):
    found = train(config={"optimizer": "sgd", "task.learning_rate": 1e12})
    assert found.failure_kind is FailureKind.NON_FINITE
    assert "the loss of step" in found.message


def test_a_horizon_of_no_timed_step_is_unstable(train):
    assert train(train_for={"steps": 4}).failure_kind is FailureKind.UNSTABLE
    assert (
        train(config={"micro_batch_size": 64}, train_for={"samples": 10}).failure_kind is FailureKind.UNSTABLE
    )


def test_a_wanted_metric_that_was_not_measured_is_missing(train):
    found = train(config={"task.width": 16}, wanted=("accuracy", "mfu_pct"))
    assert found.failure_kind is FailureKind.MISSING_METRIC
    assert "mfu_pct" in found.message


@pytest.mark.parametrize("config", [{"precision": "tf32"}, {"pin_memory": True}], ids=str)
def test_what_a_cpu_lacks_is_unsupported(train, config):
    assert train(config=config).failure_kind is FailureKind.UNSUPPORTED


def test_contradicting_batch_sizes_never_train(train):
    found = train(config={"micro_batch_size": 24, "global_batch_size": 64})
    assert found.failure_kind is FailureKind.UNSUPPORTED
    assert "not a multiple" in found.message


def test_the_baseline_says_where_its_time_goes(train):
    found = train(BYTE_LM, SMALL_LM, train_for={"steps": 12}, evaluate_on=4, purpose=Purpose.BASELINE)
    assert sum(found.facts["breakdown"].values()) == pytest.approx(100, abs=0.1)
    assert found.facts["breakdown"]["compute_pct"] > 0
    assert found.facts["knobs_to_search"]
    assert found.phases["breakdown_s"] > 0


def test_a_compiled_training_counts_its_graphs_and_its_products(train):
    config = {"compile": True, "precision": "bf16", "task.width": 16, "task.depth": 1, "micro_batch_size": 16}
    found = train(config=config, train_for={"samples": 16 * 30 + 3})
    if not found.proof and "compiler" in found.message.lower():
        pytest.skip("no C++ compiler here")
    assert found.outcome is Outcome.COMPLETE, found.message
    assert found.proof["compiled_graphs"] == 1
    assert set(found.proof["compiled_products"]) == {"bfloat16"}
    assert found.metrics[Key.COMPILE_S].value == pytest.approx(found.phases["compile_s"])
    assert "cold cache" in found.metrics[Key.COMPILE_S].method
    assert max(found.metrics[Key.STEP_TIME_P99_MS].value, 0) < 1000 * found.phases["compile_s"]


def test_a_trial_in_its_own_process_loads_no_compiler_and_leaves_nothing_running(tmp_path):
    task = tmp_path / "spy.py"
    task.write_text(
        "import sys\n"
        "from trials.tasks.digits import Digits\n"
        "class Spy(Digits):\n"
        "    metrics = ('val_loss_nats', 'accuracy', 'compiler_modules', 'sklearn')\n"
        "    def summary(self, scores):\n"
        "        loaded = {'torch._dynamo.convert_frame', 'torch._inductor'} & set(sys.modules)\n"
        "        sklearn = float('sklearn' in sys.modules)\n"
        "        return {'compiler_modules': float(len(loaded)), 'sklearn': sklearn}\n"
    )
    workload = {"kind": "training", "task": f"{task}:Spy", "train_for": {"samples": 500}}
    config = {"threads": 1, "task.width": 16, "loader_workers": 1}
    spec = TrialSpec("s", 0, "m", Purpose.SEARCH, workload, config, 0, tmp_path, tmp_path / "cache")
    (tmp_path / "spec.json").write_text(spec.to_json())
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "trials", str(tmp_path / "spec.json")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = Measurement.from_json((tmp_path / "result.json").read_text())
    assert found.metrics["compiler_modules"].value == 0
    assert found.metrics["sklearn"].value == 0
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["name"] for event in events if event["event"] == "phase"] == ["warmup_s", "evaluation_s"]
