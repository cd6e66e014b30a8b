from dataclasses import dataclass

import pytest

from trials.contract import FailureKind, TrialFailure
from trials.metrics import Key
from trials.training.batch_plan import BatchPlan


@pytest.fixture
def report():
    return pytest.importorskip("trials.training.report", reason="needs torch")


def test_a_recompilation_restarts_the_window_behind_it(report):
    durations, graphs = [0.01] * 60, [1] * 20 + [2] * 40
    durations[20] = 5.0
    window = report.cut_window(durations, [0.0] * 60, graphs)
    assert window.warmup_steps >= 21
    assert max(window.durations_s) == 0.01


def test_no_step_left_to_time_is_unstable_and_names_the_counts(report):
    with pytest.raises(TrialFailure, match="3 steps, 3 of them warm-up") as failure:
        report.cut_window([0.01] * 3, [0.0] * 3, [])
    assert failure.value.kind is FailureKind.UNSTABLE


def test_throughput_counts_the_global_batch_and_its_tokens(report):
    window = report.cut_window([0.5] * 30, [0.05] * 30, [])
    found = report.speed_metrics(window, BatchPlan(8, 4), tokens_per_sample=128, devices=2)
    assert found[Key.SAMPLES_PER_S].value == pytest.approx(64)
    assert found[Key.TOKENS_PER_S].value == pytest.approx(64 * 128)
    assert found[Key.TOKENS_PER_S_PER_GPU].value == pytest.approx(64 * 64)
    assert found[Key.STEP_TIME_P50_MS].value == pytest.approx(500)
    assert found[Key.DATA_WAIT_PCT].value == pytest.approx(10)


def test_a_task_without_tokens_reports_no_tokens(report):
    window = report.cut_window([0.5] * 30, [0.05] * 30, [])
    assert Key.TOKENS_PER_S not in report.speed_metrics(window, BatchPlan(8, 4), None, 1)


def test_the_breakdown_sums_to_the_step_and_names_what_is_largest():
    breakdown = pytest.importorskip("trials.training.breakdown", reason="needs torch")
    seconds = {"compute": 2.0, "memory_bound": 5.0, "communication": 0.5, "host": 0.5}
    found = breakdown.shares(seconds, data_wait_pct=4.0)
    assert sum(found.values()) == pytest.approx(100)
    assert found["memory_bound_pct"] == pytest.approx(60)
    named = breakdown.bottleneck(4.0, found)
    assert (named["bottleneck"], named["data_wait_is_notable"]) == ("memory_bound", False)


def test_checkpointing_is_named_only_where_something_is_recomputed():
    breakdown = pytest.importorskip("trials.training.breakdown", reason="needs torch")
    found = {"compute_pct": 90.0, "memory_bound_pct": 5.0, "communication_pct": 0.0, "host_pct": 5.0}
    assert "activation_checkpointing" in breakdown.bottleneck(0.0, found, recomputes=True)["knobs_to_search"]
    assert "activation_checkpointing" not in breakdown.bottleneck(0.0, found)["knobs_to_search"]


@dataclass
class Span:
    """An event as a profiler records it, in microseconds."""

    name: str
    start: float
    end: float

    @property
    def time_range(self):
        return self


def test_only_communication_that_nothing_overlaps_counts():
    breakdown = pytest.importorskip("trials.training.breakdown", reason="needs torch")
    events = [
        Span("aten::mm", 0, 40),
        Span("gloo:all_reduce", 30, 90),  # 50 us of it alone, less what the next one works
        Span("aten::add_", 60, 70),
        Span("gloo:all_gather", 85, 100),
        Span("c10d::allreduce_", 95, 100),  # the call, not the transfer
    ]
    assert breakdown._exposed_s(events, is_gpu=False) == pytest.approx(50e-6)
    assert breakdown.bottleneck(1.0, breakdown.shares({"compute": 1.0, "memory_bound": 1.0,
        "communication": 3.0, "host": 0.0}, 1.0))["bottleneck"] == "communication"  # fmt: skip


def test_waiting_for_data_is_notable_from_five_percent_and_the_bottleneck_from_twenty():
    breakdown = pytest.importorskip("trials.training.breakdown", reason="needs torch")
    assert breakdown.bottleneck(5.0) == {"data_wait_is_notable": True}
    assert breakdown.bottleneck(20.0)["bottleneck"] == "data_wait"
    assert "loader_workers" in breakdown.bottleneck(20.0)["knobs_to_search"]


def test_mfu_is_absent_where_the_peak_is_unknown_and_right_where_it_is_known(report):
    from trials.training.precision import PRECISIONS
    from trials.training.world import World

    window = report.cut_window([1.0] * 30, [0.0] * 30, [])
    arguments = (window, 10**12, BatchPlan(8, 2), PRECISIONS["bf16"])
    assert report.mfu(*arguments, World(0, 1, "cpu", "cpu")) is None
    found = report.mfu(*arguments, World(0, 1, "cuda:0", "NVIDIA H100 80GB HBM3"))
    assert found.value == pytest.approx(100 * 6e12 / 989.4e12)


def test_the_train_loss_is_the_mean_of_the_last_tenth(report):
    assert report.train_loss([9.0] * 18 + [1.0, 3.0]).value == 2.0
    assert report.train_loss([4.0]).value == 4.0
