"""From the records of a training to metrics, by the rules of measurement: whole steps, steady window,
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.measurement.peaks import peak_flops_per_s
from trials.measurement.statistics import mean_of, percentile, rate
from trials.measurement.steady import MIN_WARMUP_STEPS, steady_window
from trials.metrics import Key, unit_of
from trials.training.batch_plan import BatchPlan
from trials.training.precision import Precision
from trials.training.world import World

GIB = 2**30
FIRST_LOSSES = 20
"""Steps whose losses are kept: later on, training itself blows the smallest difference up."""


@dataclass(frozen=True)
class Window:
    """The steady window: durations and waits of its steps, and the time of the steps before it."""

    durations_s: list[float]
    waits_s: list[float]
    warmup_s: float
    warmup_steps: int
    is_steady: bool

    @property
    def measured_s(self) -> float:
        """Length of the window."""
        return sum(self.durations_s)


def cut_window(durations_s: Sequence[float], waits_s: Sequence[float], graphs: Sequence[int]) -> Window:
    """Drop the warm-up and everything up to the last compilation; TrialFailure ``unstable`` where no step is
    left.

    ``graphs`` counts the compiled graphs after each step (empty: nothing is compiled).
    """
    compiled = [number for number in range(1, len(graphs)) if graphs[number] != graphs[number - 1]]
    begin = compiled[-1] + 1 if compiled else 0
    found = steady_window(durations_s[begin:], max(0, MIN_WARMUP_STEPS - begin))
    first = begin + found.first
    if first >= len(durations_s):
        raise TrialFailure(
            FailureKind.UNSTABLE,
            f"no step is left to time: {len(durations_s)} steps, {first} of them warm-up"
            + (f" (step {begin} still compiled)" if compiled else "")
            + "; train for longer, or use a smaller batch",
        )
    return Window(
        list(durations_s[first:]), list(waits_s[first:]), sum(durations_s[:first]), first, found.is_steady
    )


def speed_metrics(
    window: Window, plan: BatchPlan, tokens_per_sample: int | None, devices: int
) -> dict[str, MetricValue]:
    """Throughput and step times of the window."""
    samples = plan.global_batch_size
    milliseconds = [seconds * 1000 for seconds in window.durations_s]
    found: dict[str, MetricValue] = {
        Key.SAMPLES_PER_S: rate(window.durations_s, samples, unit_of(Key.SAMPLES_PER_S)),
        Key.STEP_TIME_P50_MS: percentile(milliseconds, 50),
        Key.STEP_TIME_P90_MS: percentile(milliseconds, 90),
        Key.STEP_TIME_P99_MS: percentile(milliseconds, 99),
        Key.DATA_WAIT_PCT: _data_wait(window),
    }
    if tokens_per_sample:
        tokens = samples * tokens_per_sample
        found[Key.TOKENS_PER_S] = rate(window.durations_s, tokens, unit_of(Key.TOKENS_PER_S))
        found[Key.TOKENS_PER_S_PER_GPU] = rate(
            window.durations_s, tokens / devices, unit_of(Key.TOKENS_PER_S_PER_GPU)
        )
    return found


def mfu(
    window: Window, forward_flops: int, plan: BatchPlan, precision: Precision, world: World
) -> MetricValue | None:
    """Model FLOPs utilisation; None where the device's peak is not known (every CPU), or the FLOPs (0).

    A backward pass is counted as two forward passes (PaLM, appendix B), recomputation not at all.
    """
    peak = peak_flops_per_s(world.device_name, precision.peak)
    if peak is None or not forward_flops:
        return None
    flops = 3 * forward_flops * plan.gradient_accumulation_steps
    found = rate(window.durations_s, 100 * flops / peak, unit_of(Key.MFU_PCT))
    return MetricValue(
        found.value,
        found.unit,
        found.n,
        found.low,
        found.high,
        f"3 x forward FLOPs ({flops:.3g} a step) / dense peak",
    )


def train_loss(losses: Sequence[float]) -> MetricValue:
    """Mean loss of the last tenth of the steps (at least one)."""
    last = losses[-max(1, math.ceil(len(losses) / 10)) :]
    return mean_of(last, unit_of(Key.TRAIN_LOSS_NATS), "last steps")


@dataclass(frozen=True)
class RankRecord:
    """What one rank saw: seconds of each timed step and waited in it, mean loss of each step on its samples, FLOPs
    of one forward pass, peaks in bytes (host: its processes; device: None on a CPU).
    """

    durations_s: list[float]
    waits_s: list[float]
    losses: list[float]
    forward_flops: int
    host_peak_bytes: int
    device_peak_bytes: int | None
    device_reserved_bytes: int | None


def window_of(ranks: Sequence[RankRecord], graphs: Sequence[int]) -> Window:
    """The steady window of the slowest rank, each step with the longest wait for data on any."""
    slowest = max(ranks, key=lambda rank: sum(rank.durations_s))
    waits = [max(step) for step in zip(*(rank.waits_s for rank in ranks), strict=True)]
    return cut_window(slowest.durations_s, waits, graphs)


def losses_of(ranks: Sequence[RankRecord]) -> list[float]:
    """The loss of each step over the whole batch: the mean over the ranks that saw a part of it."""
    seen = [rank.losses for rank in ranks if rank.losses]
    return [math.fsum(step) / len(step) for step in zip(*seen, strict=True)]


def memory_metrics(ranks: Sequence[RankRecord]) -> dict[str, MetricValue]:
    """Memory of the fullest rank, and the host memory of all of them together."""
    of = " of the fullest rank" if len(ranks) > 1 else ""
    host = "maximum of summed PSS and VmHWM"
    host_bytes = sum(rank.host_peak_bytes for rank in ranks)
    found: dict[str, MetricValue] = {
        Key.PEAK_RSS_GIB: gib(Key.PEAK_RSS_GIB, host_bytes, host + (", all ranks" if of else ""))
    }
    allocated = [rank.device_peak_bytes for rank in ranks if rank.device_peak_bytes is not None]
    reserved = [rank.device_reserved_bytes for rank in ranks if rank.device_reserved_bytes is not None]
    if not allocated:
        fullest = max(rank.host_peak_bytes for rank in ranks)
        return found | {Key.PEAK_MEMORY_GIB: gib(Key.PEAK_MEMORY_GIB, fullest, host + of)}
    return found | {
        Key.PEAK_MEMORY_GIB: gib(Key.PEAK_MEMORY_GIB, max(allocated), "allocator" + of),
        Key.PEAK_RESERVED_GIB: gib(Key.PEAK_RESERVED_GIB, max(reserved), "allocator" + of),
    }


def gib(key: Key, amount_bytes: float, method: str) -> MetricValue:
    """A memory metric from bytes."""
    return MetricValue(amount_bytes / GIB, unit_of(key), 1, method=method)


def _data_wait(window: Window) -> MetricValue:
    value = 100 * sum(window.waits_s) / window.measured_s
    return MetricValue(
        value, unit_of(Key.DATA_WAIT_PCT), len(window.waits_s), method="time waited / window time"
    )
