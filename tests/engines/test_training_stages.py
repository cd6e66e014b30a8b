"""What a training says on the way, and that saying it changes nothing."""

from __future__ import annotations

import pytest

from trials.contract import Outcome
from trials.measurement.steady import MIN_WARMUP_STEPS
from trials.metrics import Key
from trials.stages import Stage, read_stages
from trials.training import halfway
from trials.training.halfway import examples_on_the_way, is_cheap, is_worth_it, stops, untimed_steps

WANTED = (Key.SAMPLES_PER_S, Key.VAL_LOSS_NATS, Key.PEAK_MEMORY_GIB)
LONG = {
    "config": {"task.width": 16, "micro_batch_size": 20},
    "train_for": {"samples": 4000},
    "wanted": WANTED,
}
"""200 steps."""


@pytest.fixture
def always(monkeypatch):
    """Stop however short the rest is, and look at the quality however long that takes."""
    monkeypatch.setattr(halfway, "WORTH_S", 0.0)
    monkeypatch.setattr(halfway, "COSTLY_SHARE", float("inf"))


def stages_of(tmp_path, number=1) -> list[Stage]:
    return [stage for stage in read_stages(tmp_path / f"trial{number}")[0] if stage.metrics]


def test_a_stage_holds_steady_speed_and_memory_and_a_quality_on_the_way(train, tmp_path, always):
    found = train(**LONG, report_at=(0.3, 0.6))
    assert found.outcome is Outcome.COMPLETE, found.message
    first, second = stages_of(tmp_path)
    assert (first.fraction, second.fraction) == (0.3, 0.6)
    for stage in (first, second):
        # a busy machine may have no steady speed yet; everything else is there whatever runs beside
        assert set(WANTED) - {Key.SAMPLES_PER_S} <= set(stage.metrics) <= set(WANTED)
        assert set(stage.steady) <= {Key.SAMPLES_PER_S, Key.PEAK_MEMORY_GIB}
        assert all(
            stage.metrics[key].unit == "samples/s" for key in stage.metrics if key == Key.SAMPLES_PER_S
        )
    losses = [stage.metrics[Key.VAL_LOSS_NATS].value for stage in (first, second)]
    assert losses[0] > losses[1] > 0
    assert first.metrics[Key.VAL_LOSS_NATS].n < found.metrics[Key.VAL_LOSS_NATS].n


def test_a_run_that_stops_on_the_way_learns_exactly_what_one_does_that_does_not(train, always):
    plain, stopped = train(**LONG), train(**LONG, report_at=(0.3, 0.6))
    assert stopped.examples == plain.examples
    assert stopped.metrics[Key.TRAIN_LOSS_NATS] == plain.metrics[Key.TRAIN_LOSS_NATS]
    assert stopped.facts["optimizer_steps"] == plain.facts["optimizer_steps"] == 200
    assert stopped.phases["stages_s"] > 0
    assert "stages_s" not in plain.phases


SLOW_TO_SCORE = """
import time, torch
from torch import nn
from torch.nn import functional

class Slow:
    metrics = ("val_loss_nats",)
    def __init__(self, *, learning_rate: float = 1e-3): self.learning_rate = learning_rate
    def model(self): return nn.Linear(8, 2)
    def train_data(self): return torch.randn(400, 8), torch.zeros(400, dtype=torch.long)
    def validation_data(self): return torch.randn(64, 8), torch.zeros(64, dtype=torch.long)
    def loss(self, model, batch): return functional.cross_entropy(model(batch[0]), batch[1])
    def score(self, model, batch):
        time.sleep(0.2)
        torch.rand(3)
        return {"val_loss_nats": functional.cross_entropy(model(batch[0]), batch[1], reduction="none")}
"""


def test_the_clock_stands_while_a_stage_is_reported(train, tmp_path, always):
    (tmp_path / "slow.py").write_text(SLOW_TO_SCORE)
    found = train(
        f"{tmp_path}/slow.py:Slow",
        {"micro_batch_size": 64},
        train_for={"samples": 64 * 120},
        wanted=(Key.SAMPLES_PER_S, Key.VAL_LOSS_NATS),
        report_at=(0.3, 0.6),
    )
    assert found.outcome is Outcome.COMPLETE, found.message
    assert len(stages_of(tmp_path)) == 2
    assert found.phases["stages_s"] >= 0.4
    assert found.metrics[Key.STEP_TIME_P99_MS].value < 200, "no step holds an evaluation"
    rate = found.metrics[Key.SAMPLES_PER_S]
    assert rate.n <= 120 - 2 * MIN_WARMUP_STEPS
    assert rate.n + found.facts["warmup_steps"] == 120
    assert rate.value == pytest.approx(64 * rate.n / found.phases["measured_s"])


def test_a_short_rest_is_not_worth_a_stop(train, tmp_path):
    found = train(**LONG, report_at=(0.3, 0.6))
    assert stages_of(tmp_path) == []
    assert "stages_s" not in found.phases
    assert [stage.fraction for stage in read_stages(tmp_path / "trial1")[0]] == [0.0], (
        "that it started is said"
    )


def test_a_run_that_is_not_asked_says_nothing(train, tmp_path, always):
    train(**LONG)
    assert read_stages(tmp_path / "trial1")[0] == []


def test_without_a_quality_among_what_is_wanted_nothing_is_evaluated_on_the_way(train, tmp_path, always):
    train(**{**LONG, "wanted": (Key.SAMPLES_PER_S,)}, report_at=(0.3,))
    (stage,) = stages_of(tmp_path)
    assert set(stage.metrics) == {Key.SAMPLES_PER_S}


def test_stops_leave_enough_steps_on_either_side():
    assert stops((0.1, 0.3), 4, 400, untimed=3) == [(0.1, 40), (0.3, 120)]
    assert stops((0.1, 0.3), 4, 100, untimed=3) == [(0.3, 30)]
    assert stops((0.1, 0.3), 4, 40, untimed=3) == []


def test_batches_that_the_loader_fetched_meanwhile_are_not_timed():
    assert untimed_steps(workers=0, prefetch_factor=2, accumulation=1) == MIN_WARMUP_STEPS
    assert untimed_steps(workers=4, prefetch_factor=4, accumulation=2) == 8


def test_whether_a_stop_is_worth_it_depends_on_the_time_that_is_left():
    assert is_worth_it(elapsed_s=5.0, done=10, left=20)
    assert not is_worth_it(elapsed_s=5.0, done=10, left=19)
    assert not is_worth_it(elapsed_s=0.0, done=0, left=1000)


def test_a_costly_look_at_the_quality_is_not_repeated():
    assert is_cheap(last_s=0.0, trained_s=0.1)
    assert is_cheap(last_s=1.0, trained_s=5.0)
    assert not is_cheap(last_s=1.1, trained_s=5.0)


def test_a_fourth_of_the_examples_is_looked_at_but_not_too_few():
    assert [examples_on_the_way(n) for n in (10, 100, 1000)] == [10, 64, 250]
