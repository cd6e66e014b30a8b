"""A made-up study: a baseline, a front, failures of several kinds, confirmed trials and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from trials.contract import FailureKind, MetricValue, Outcome, Purpose
from trials.metrics import Direction, unit_of
from tuner.objectives import Constraint, LimitKind, Objective
from tuner.records.rows import MeasurementRecord, StudyRecord, TrialRecord

BEGIN = datetime(2026, 3, 4, 9, 0, 0, tzinfo=UTC)
SPEED = Objective("tokens_per_s", Direction.MAXIMIZE)
LOSS = Objective("val_loss_nats", Direction.MINIMIZE)
MEMORY = Objective("peak_memory_gib", Direction.MINIMIZE)
BASELINE_CONFIG = {"precision": "fp32", "micro_batch_size": 32, "compile": False, "task.learning_rate": 0.001}


def run(
    number: int,
    metrics: Mapping[str, float],
    purpose: Purpose = Purpose.SEARCH,
    repeat: int = 0,
    failure: tuple[FailureKind, str] | None = None,
    outcome: Outcome | None = None,
    is_discarded: bool = False,
) -> MeasurementRecord:
    """One measurement; each lasts eight seconds, one after the other."""
    started = BEGIN + timedelta(seconds=10 * (number * 8 + repeat))
    return MeasurementRecord(
        measurement_id=f"{number}-{purpose}-{repeat}",
        trial_number=number,
        purpose=purpose,
        seed=repeat,
        outcome=outcome or (Outcome.FAILED if failure else Outcome.COMPLETE),
        failure_kind=failure[0] if failure else None,
        message=failure[1] if failure else "",
        metrics={
            key: MetricValue(value, unit_of(key), 40, value * 0.99, value * 1.01, "median of 40 steps")
            for key, value in metrics.items()
        },
        phases={"startup_s": 1.2, "measured_s": 4.0, "evaluation_s": 0.6},
        proof={"matmul_dtype": "bfloat16"},
        facts={},
        environment={"cpu": "Example CPU", "cores": 2, "torch": "2.13.0", "python": "3.11.9"},
        warnings=(),
        log_dir=f"tuner-trials/lm-training/g1/{number:04d}-{purpose}-{repeat:06d}",
        started_at=started,
        ended_at=started + timedelta(seconds=8),
        is_discarded=is_discarded,
        round_number=repeat if purpose is Purpose.CONFIRM else None,
    )


def repeated(
    number: int, purpose: Purpose, metrics: Mapping[str, float], times: int = 3
) -> list[MeasurementRecord]:
    """Repeats that scatter by about half a percent."""
    wobble = (1.0, 1.004, 0.995, 1.002, 0.998)
    return [
        run(number, {key: value * wobble[i % 5] for key, value in metrics.items()}, purpose, i)
        for i in range(times)
    ]


def trial(number: int, runs: Sequence[MeasurementRecord], by: str = "sampler", **changed: Any) -> TrialRecord:
    """A trial whose configuration differs from the baseline in ``changed`` (``__`` stands for a dot)."""
    config = {**BASELINE_CONFIG, **{key.replace("__", "."): value for key, value in changed.items()}}
    return TrialRecord(number, config, "baseline" if number == 0 else by, tuple(runs))


def numbers(speed: float, loss: float, memory: float = 2.0) -> dict[str, float]:
    """Metrics of a trial."""
    return {
        "tokens_per_s": speed,
        "val_loss_nats": loss,
        "peak_memory_gib": memory,
        "step_time_p50_ms": 4e5 / speed,
    }


def study(trials: Sequence[TrialRecord] | None = None, **changed: Any) -> StudyRecord:
    """The study, or one like it with other ``trials`` and fields."""
    constraints = (
        Constraint("peak_memory_gib", LimitKind.MAX, 6.0),
        Constraint("val_loss_nats", LimitKind.MAX_INCREASE, 0.05),
    )
    baseline = {"val_loss_nats": 2.31, "peak_memory_gib": 3.0}
    record = StudyRecord(
        name="lm-training",
        generation=1,
        created_at=BEGIN,
        updated_at=BEGIN + timedelta(minutes=20),
        file_text="study: lm-training\n",
        file_path="/home/someone/spaces/lm.yaml",
        definition={},
        objectives=(SPEED, LOSS),
        constraints=constraints,
        bounds=tuple(limit.freeze(baseline[limit.metric]) for limit in constraints),
        reference_point={"tokens_per_s": 0.0, "val_loss_nats": 4.62},
        rejected={"micro_batch_size * data_parallel_degree <= global_batch_size": 14},
        stopped_because="budget of 14 trials is spent",
        trials=tuple(usual_trials() if trials is None else trials),
    )
    return replace(record, **changed)


def usual_trials() -> list[TrialRecord]:
    """Fourteen trials with everything that can happen to one."""
    base, bf16, fused, small = (
        numbers(11_800, 2.310, 3.0),
        numbers(24_900, 2.318, 2.1),
        numbers(31_200, 2.341, 2.4),
        numbers(14_900, 2.262, 1.6),
    )
    oom = (FailureKind.OUT_OF_MEMORY, "out of memory: 6.3 GiB of 6 GiB; use a smaller micro_batch_size")
    late = (FailureKind.TIMEOUT, "no result after 180 s")
    return [
        trial(
            0,
            [
                run(0, base, Purpose.BASELINE, 9, is_discarded=True),
                *repeated(0, Purpose.BASELINE, base),
                *repeated(0, Purpose.CONFIRM, base),
            ],
        ),
        trial(1, [run(1, bf16), *repeated(1, Purpose.CONFIRM, bf16)], "try_first", precision="bf16"),
        trial(2, [run(2, numbers(12_700, 2.309, 2.8))], micro_batch_size=64),
        trial(3, [run(3, {}, failure=oom)], micro_batch_size=512),
        trial(4, [run(4, numbers(26_100, 2.402, 2.2))], precision="bf16", task__learning_rate=0.01),
        trial(5, [run(5, fused), *repeated(5, Purpose.CONFIRM, fused)], precision="bf16", compile=True),
        trial(
            6,
            [run(6, small), *repeated(6, Purpose.CONFIRM, small)],
            precision="bf16",
            micro_batch_size=8,
            task__learning_rate=0.003,
        ),
        trial(7, [run(7, numbers(19_400, 2.330, 2.6))], compile=True),
        trial(8, [run(8, {}, failure=late)], compile=True, micro_batch_size=8),
        trial(9, [run(9, numbers(21_700, 2.290, 1.9))], precision="bf16", micro_batch_size=16),
        trial(10, [run(10, {}, failure=oom)], micro_batch_size=512, compile=True),
        trial(
            11,
            [
                run(
                    11,
                    {"tokens_per_s": 15_000, "val_loss_nats": float("nan")},
                    failure=(FailureKind.NON_FINITE, "val_loss_nats is not finite (nan)"),
                )
            ],
            task__learning_rate=0.03,
        ),
        trial(12, [run(12, {}, outcome=Outcome.PRUNED)], micro_batch_size=4),
        trial(
            13, [run(13, numbers(29_800, 2.351, 6.4))], precision="bf16", compile=True, micro_batch_size=128
        ),
    ]
