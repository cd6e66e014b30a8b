"""Layouts in two real processes (gloo): every one learns what a single process learns, and proves its shards."""

import pytest
from layouts import BYTE_LM, SAMPLES, SMALL_LM, run_layouts

from trials.contract import FailureKind, Outcome
from trials.metrics import Key
from trials.stages import read_stages

TWO = {"data_parallel_degree": 2}
LAYOUTS = {
    "ddp": TWO,
    "every_sync": {**TWO, "gradient_sync": "every_micro_batch"},
    "zero1": {**TWO, "zero_stage": 1},
    "zero2": {**TWO, "zero_stage": 2},
    "zero3": {**TWO, "zero_stage": 3, "activation_checkpointing": "full"},
    "tensor": {"tensor_parallel_degree": 2},
    "gpipe": {"pipeline_parallel_degree": 2, "pipeline_schedule": "gpipe"},
    "1f1b": {"pipeline_parallel_degree": 2, "activation_checkpointing": "full"},
    "fp16": {**TWO, "gradient_compression": "fp16"},
    "powersgd": {**TWO, "gradient_compression": "powersgd", "zero_stage": 1},
}
STAGED = {**TWO, "zero_stage": 3, "samples": 8 * 60, "report_at": [0.5]}
UNSENDABLE = {**TWO, "gradient_compression": "bf16"}
SPREAD = {**TWO, "expert_parallel_degree": 2, "task.experts": 4}
EXACT = ["ddp", "every_sync", "zero1", "zero2", "zero3", "tensor", "gpipe", "1f1b"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("layouts")


@pytest.fixture(scope="module")
def found(folder):
    return run_layouts(folder, {**LAYOUTS, "bf16": UNSENDABLE, "spread": SPREAD, "staged": STAGED}, ranks=2)


def losses(measurement):
    assert measurement.outcome is Outcome.COMPLETE, measurement.message
    return measurement.facts["first_losses"]


@pytest.fixture
def single(train):
    return train(BYTE_LM["task"], SMALL_LM, train_for=SAMPLES, evaluate_on=BYTE_LM["evaluate_on"])


@pytest.mark.parametrize("name", EXACT)
def test_an_equivalent_layout_has_the_losses_of_one_process(found, single, name):
    """Over 12 full steps and a short one of 3 samples, and on the held-out samples, shared among the ranks."""
    assert len(losses(single)) == 13
    assert losses(found[name]) == pytest.approx(losses(single), rel=1e-3)
    assert found[name].examples[Key.VAL_LOSS_NATS] == pytest.approx(
        single.examples[Key.VAL_LOSS_NATS], rel=1e-3
    )


def test_shards_are_proved_by_the_bytes_that_each_rank_holds(found):
    held = {name: measurement.proof for name, measurement in found.items()}
    whole = 4 * held["ddp"]["parameters"]
    assert held["ddp"]["parameter_bytes_by_rank"] == [whole, whole]
    for name in ("zero2", "zero3"):
        assert max(held[name]["parameter_bytes_by_rank"]) < 0.6 * whole
    for name in ("zero1", "zero2", "zero3"):
        assert max(held[name]["optimizer_state_bytes_by_rank"]) < 0.6 * 2 * whole
    assert min(held["ddp"]["optimizer_state_bytes_by_rank"]) >= 2 * whole


def test_what_is_sent_is_counted(found):
    sent = {name: found[name].proof["bytes_sent_per_step"] for name in LAYOUTS}
    whole = 4 * found["ddp"].proof["parameters"]
    assert sent["ddp"] == pytest.approx(
        whole, rel=0.01
    )  # an all-reduce between two sends as much as it holds
    assert sent["every_sync"] == pytest.approx(2 * sent["ddp"], rel=0.01)
    assert sent["fp16"] == pytest.approx(sent["ddp"] / 2, rel=0.01)
    assert sent["tensor"] > 0
    assert sent["gpipe"] > 0
    assert sent["zero3"] > sent["zero2"] >= sent["ddp"]


def test_compressed_gradients_train_and_are_no_longer_the_same(found, single):
    for name in ("fp16", "powersgd"):
        assert losses(found[name])[-1] == pytest.approx(losses(single)[-1], rel=0.1)
    assert losses(found["powersgd"])[:3] == pytest.approx(losses(single)[:3], rel=1e-3)  # whole at first
    assert losses(found["powersgd"]) != pytest.approx(losses(single), rel=1e-4)


def test_what_the_backend_cannot_send_is_unsupported(found):
    assert found["bf16"].failure_kind is FailureKind.UNSUPPORTED
    assert found["bf16"].message.startswith("gradient_compression=bf16: ")


def test_the_whole_jobs_throughput_and_the_fullest_ranks_memory_are_reported(found):
    ddp = found["ddp"]
    rate = ddp.metrics[Key.SAMPLES_PER_S]
    assert rate.value == pytest.approx(8 * rate.n / ddp.phases["measured_s"])
    assert ddp.metrics[Key.PEAK_RSS_GIB].value > 1.5 * ddp.metrics[Key.PEAK_MEMORY_GIB].value
    assert "fullest rank" in ddp.metrics[Key.PEAK_MEMORY_GIB].method
    assert ddp.facts["samples_seen"] == 99


def test_a_split_layer_and_a_pipeline_hold_their_parts_only(found):
    whole = 4 * found["ddp"].proof["parameters"]
    assert sum(found["gpipe"].proof["parameter_bytes_by_rank"]) == whole
    assert whole / 2 < max(found["tensor"].proof["parameter_bytes_by_rank"]) < 0.8 * whole
    assert found["tensor"].proof["tensor_parallel_plan"]["blocks.0.qkv"] == "column"
    assert found["1f1b"].proof["checkpointed_blocks"] == 1  # of each stage


def test_spread_experts_learn_what_they_learn_together(found, train):
    spread = found["spread"]
    config = {**SMALL_LM, "task.experts": 4}
    single = train(BYTE_LM["task"], config, train_for=SAMPLES, evaluate_on=BYTE_LM["evaluate_on"])
    assert losses(spread) == pytest.approx(losses(single), rel=1e-3)
    whole = 4 * single.proof["parameters"]
    assert max(spread.proof["parameter_bytes_by_rank"]) < 0.7 * whole


def test_ranks_stop_together_on_the_way_and_learn_what_one_process_does(found, folder, train):
    """Each evaluates its share of the held-out samples then, in a model whose parameters lie as shards."""
    (stage,) = [stage for stage in read_stages(folder / "staged-0")[0] if stage.metrics]
    assert stage.fraction == 0.5
    assert set(stage.metrics) == {Key.VAL_LOSS_NATS, Key.PEAK_MEMORY_GIB}
    config = {name: value for name, value in SMALL_LM.items() if name != "threads"}
    single = train(BYTE_LM["task"], config, train_for={"samples": STAGED["samples"]}, evaluate_on=21)
    assert losses(found["staged"]) == pytest.approx(losses(single), rel=1e-3)
    learnt = [one.examples[Key.VAL_LOSS_NATS] for one in (found["staged"], single)]
    assert learnt[0] == pytest.approx(learnt[1], rel=1e-3)
    assert stage.metrics[Key.VAL_LOSS_NATS].value > found["staged"].metrics[Key.VAL_LOSS_NATS].value
