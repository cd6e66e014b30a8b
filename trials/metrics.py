"""The catalogue of metrics: key, unit, direction, definition, source. Metric keys are public API.

No key is spelled a second time in the code: use ``Key.TOKENS_PER_S``. A metric of the user's own (a command's
``f1``) is declared in the space file with its direction and needs no entry here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    """Which way is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    @property
    def sign(self) -> int:
        """+1 where smaller is better, -1 where larger is: multiply a value by it to get a loss."""
        return 1 if self is Direction.MINIMIZE else -1


class Key(StrEnum):
    """Every metric key that the shipped workloads report."""

    SAMPLES_PER_S = "samples_per_s"
    TOKENS_PER_S = "tokens_per_s"
    TOKENS_PER_S_PER_GPU = "tokens_per_s_per_gpu"
    STEP_TIME_P50_MS = "step_time_p50_ms"
    STEP_TIME_P90_MS = "step_time_p90_ms"
    STEP_TIME_P99_MS = "step_time_p99_ms"
    MFU_PCT = "mfu_pct"
    TRAIN_LOSS_NATS = "train_loss_nats"
    VAL_LOSS_NATS = "val_loss_nats"
    ACCURACY = "accuracy"
    PERPLEXITY = "perplexity"
    PEAK_MEMORY_GIB = "peak_memory_gib"
    PEAK_RESERVED_GIB = "peak_reserved_gib"
    PEAK_RSS_GIB = "peak_rss_gib"
    ENERGY_J_PER_SAMPLE = "energy_j_per_sample"
    ENERGY_J_PER_TOKEN = "energy_j_per_token"
    DATA_WAIT_PCT = "data_wait_pct"
    LATENCY_P50_MS = "latency_p50_ms"
    LATENCY_P90_MS = "latency_p90_ms"
    LATENCY_P99_MS = "latency_p99_ms"
    MEAN_RECIPROCAL_RANK = "mean_reciprocal_rank"
    ACCURACY_RECOVERY_PCT = "accuracy_recovery_pct"
    MEAN_RECIPROCAL_RANK_RECOVERY_PCT = "mean_reciprocal_rank_recovery_pct"
    PREDICTION_AGREEMENT_PCT = "prediction_agreement_pct"
    PADDING_WASTE_PCT = "padding_waste_pct"
    MODEL_SIZE_MIB = "model_size_mib"
    LOAD_S = "load_s"
    EXPORT_S = "export_s"
    CALIBRATION_S = "calibration_s"
    QUANTIZE_S = "quantize_s"
    COMPILE_S = "compile_s"
    STARTUP_S = "startup_s"
    WALL_TIME_S = "wall_time_s"
    REQUESTS_PER_S = "requests_per_s"
    OUTPUT_TOKENS_PER_S = "output_tokens_per_s"
    GOODPUT_REQUESTS_PER_S = "goodput_requests_per_s"
    CAPACITY_REQUESTS_PER_S = "capacity_requests_per_s"
    TTFT_P50_MS = "ttft_p50_ms"
    TTFT_P90_MS = "ttft_p90_ms"
    TTFT_P99_MS = "ttft_p99_ms"
    TPOT_P50_MS = "tpot_p50_ms"
    TPOT_P90_MS = "tpot_p90_ms"
    TPOT_P99_MS = "tpot_p99_ms"
    ITL_P50_MS = "itl_p50_ms"
    ITL_P90_MS = "itl_p90_ms"
    ITL_P99_MS = "itl_p99_ms"
    FAILED_REQUESTS = "failed_requests"
    UNFINISHED_REQUESTS = "unfinished_requests"
    CLIENT_LAG_P99_MS = "client_lag_p99_ms"
    SERVER_CPU_PCT = "server_cpu_pct"
    LOAD_ACCURACY = "load_accuracy"


@dataclass(frozen=True)
class MetricInfo:
    """What a metric means. ``percentile`` is set where the value is one, and asks for enough samples."""

    key: str
    unit: str
    direction: Direction
    definition: str
    source: str
    percentile: int | None = None


_UP, _DOWN = Direction.MAXIMIZE, Direction.MINIMIZE
_ORDINAL = {50: "median", 90: "90th percentile", 99: "99th percentile"}
_WAITS = (
    ("ttft", "the time from a request's scheduled time to its first text", "load generator"),
    ("tpot", "(latency - TTFT) / (output tokens - 1) of a request with two tokens or more", "load generator"),
    ("itl", "the gap between a token and the one before it, over all tokens", "load generator"),
    ("latency", "the time from a request's scheduled time to the end of its answer", "load generator"),
)

CATALOGUE: dict[str, MetricInfo] = {
    info.key: info
    for info in (
        MetricInfo(
            Key.SAMPLES_PER_S,
            "samples/s",
            _UP,
            "samples of the whole job per second of the steady window",
            "steps x global batch / window time; inference: samples of a pass / time of a pass (MLPerf offline)",
        ),
        MetricInfo(
            Key.TOKENS_PER_S,
            "tokens/s",
            _UP,
            "tokens of the whole job per second of the steady window",
            "steps x global batch x tokens per sample / window time; inference: padding not counted",
        ),
        MetricInfo(
            Key.TOKENS_PER_S_PER_GPU,
            "tokens/s/GPU",
            _UP,
            "tokens_per_s divided by the devices really used",
            "tokens_per_s / devices",
        ),
        MetricInfo(
            Key.STEP_TIME_P50_MS,
            "ms",
            _DOWN,
            "median time of one optimizer step, end to end",
            "steady window",
            50,
        ),
        MetricInfo(
            Key.STEP_TIME_P90_MS,
            "ms",
            _DOWN,
            "90th percentile of the time of one optimizer step",
            "steady window",
            90,
        ),
        MetricInfo(
            Key.STEP_TIME_P99_MS,
            "ms",
            _DOWN,
            "99th percentile of the time of one optimizer step",
            "steady window",
            99,
        ),
        MetricInfo(
            Key.MFU_PCT,
            "%",
            _UP,
            "model FLOPs without recomputation / (time x dense peak of the compute dtype)",
            "PaLM, appendix B (arXiv 2204.02311)",
        ),
        MetricInfo(
            Key.TRAIN_LOSS_NATS,
            "nats",
            _DOWN,
            "mean training loss over the last tenth of the steps",
            "training loop",
        ),
        MetricInfo(
            Key.VAL_LOSS_NATS,
            "nats",
            _DOWN,
            "mean held-out loss per token (or sample) of the model, in the configuration that was timed",
            "evaluation after the timed part",
        ),
        MetricInfo(
            Key.ACCURACY,
            "fraction",
            _UP,
            "share of held-out examples answered rightly, in the configuration that was timed",
            "training: evaluation after the timed part; inference and serving: by the very engine that was timed",
        ),
        MetricInfo(
            Key.PERPLEXITY, "1", _DOWN, "exp of the mean held-out loss per token", "exp(val_loss_nats)"
        ),
        MetricInfo(
            Key.PEAK_MEMORY_GIB,
            "GiB",
            _DOWN,
            "peak device memory allocated; on a CPU the peak of the trial's processes (PSS)",
            "allocator, or /proc",
        ),
        MetricInfo(
            Key.PEAK_RESERVED_GIB, "GiB", _DOWN, "peak device memory reserved by the allocator", "allocator"
        ),
        MetricInfo(
            Key.PEAK_RSS_GIB, "GiB", _DOWN, "peak host memory resident of the trial's processes", "/proc"
        ),
        MetricInfo(
            Key.ENERGY_J_PER_SAMPLE,
            "J/sample",
            _DOWN,
            "device energy of the steady window per sample",
            "NVML or RAPL",
        ),
        MetricInfo(
            Key.ENERGY_J_PER_TOKEN,
            "J/token",
            _DOWN,
            "device energy of the steady window per token",
            "NVML or RAPL",
        ),
        MetricInfo(
            Key.DATA_WAIT_PCT, "%", _DOWN, "share of the step spent waiting for the loader", "timed loop"
        ),
        MetricInfo(
            Key.LATENCY_P50_MS,
            "ms",
            _DOWN,
            "median time of one request, end to end; inference: one after the other, serving: from when it was due",
            "MLPerf Inference, single stream",
            50,
        ),
        MetricInfo(
            Key.LATENCY_P90_MS,
            "ms",
            _DOWN,
            "90th percentile of the time of one request, end to end",
            "MLPerf Inference, single stream",
            90,
        ),
        MetricInfo(
            Key.LATENCY_P99_MS,
            "ms",
            _DOWN,
            "99th percentile of the time of one request, end to end",
            "MLPerf Inference, single stream",
            99,
        ),
        MetricInfo(
            Key.MEAN_RECIPROCAL_RANK,
            "fraction",
            _UP,
            "mean over the examples of 1 / rank of the right answer, which ranks behind what is as near as it",
            "Voorhees, TREC-8 question answering track (1999)",
        ),
        MetricInfo(
            Key.ACCURACY_RECOVERY_PCT,
            "%",
            _UP,
            "accuracy as a share of that of the float32 reference on the same examples; interval from paired "
            "differences",
            "100 x accuracy / accuracy of the reference",
        ),
        MetricInfo(
            Key.MEAN_RECIPROCAL_RANK_RECOVERY_PCT,
            "%",
            _UP,
            "mean_reciprocal_rank as a share of that of the float32 reference on the same examples; interval from "
            "paired differences",
            "100 x mean_reciprocal_rank / that of the reference",
        ),
        MetricInfo(
            Key.PREDICTION_AGREEMENT_PCT,
            "%",
            _UP,
            "share of the examples that are answered as the float32 reference answers them, right or wrong",
            "evaluation by the engine that was timed",
        ),
        MetricInfo(
            Key.PADDING_WASTE_PCT,
            "%",
            _DOWN,
            "share of the sequence positions computed in a pass over the data that are padding",
            "1 - tokens / (rows x padded length)",
        ),
        MetricInfo(
            Key.MODEL_SIZE_MIB,
            "MiB",
            _DOWN,
            "size of the built model's files, without loader and settings",
            "files as exported",
        ),
        MetricInfo(
            Key.LOAD_S,
            "s",
            _DOWN,
            "time from the trained model to an engine that answered its first batch, everything in between",
            "phase clock",
        ),
        MetricInfo(
            Key.EXPORT_S, "s", _DOWN, "time spent exporting the model; 0 where nothing is", "phase clock"
        ),
        MetricInfo(
            Key.CALIBRATION_S,
            "s",
            _DOWN,
            "time spent finding the ranges of activations; 0 where nothing is calibrated",
            "phase clock",
        ),
        MetricInfo(
            Key.QUANTIZE_S, "s", _DOWN, "time spent converting weights; 0 where nothing is", "phase clock"
        ),
        MetricInfo(
            Key.COMPILE_S, "s", _DOWN, "time spent compiling, capturing and autotuning", "phase clock"
        ),
        MetricInfo(
            Key.STARTUP_S, "s", _DOWN, "time from the trial's first line to the first step", "phase clock"
        ),
        MetricInfo(
            Key.WALL_TIME_S, "s", _DOWN, "time from start to end of the program", "clock around the program"
        ),
        MetricInfo(
            Key.REQUESTS_PER_S,
            "requests/s",
            _UP,
            "requests answered whole per second of the window",
            "load generator",
        ),
        MetricInfo(
            Key.OUTPUT_TOKENS_PER_S,
            "tokens/s",
            _UP,
            "tokens of whole answers per second of the window",
            "load generator; tokens as the server counts them, checked against its pieces",
        ),
        MetricInfo(
            Key.GOODPUT_REQUESTS_PER_S,
            "requests/s",
            _UP,
            "requests per second of the window that are answered within every bound of the service level",
            "DistServe (arXiv 2401.09670)",
        ),
        MetricInfo(
            Key.CAPACITY_REQUESTS_PER_S,
            "requests/s",
            _UP,
            "requests per second at the largest load tried that meets the service level",
            "adaptive ramp",
        ),
        *(
            MetricInfo(
                f"{name}_p{percent}_ms", "ms", _DOWN, f"{_ORDINAL[percent]} of {definition}", source, percent
            )
            for name, definition, source in _WAITS
            for percent in _ORDINAL
        ),
        MetricInfo(
            Key.FAILED_REQUESTS,
            "requests",
            _DOWN,
            "counted requests that were refused, broken off, or answered with an error or nonsense",
            "load generator",
        ),
        MetricInfo(
            Key.UNFINISHED_REQUESTS,
            "requests",
            _DOWN,
            "counted requests of an open loop that had no answer when waiting for them ended",
            "load generator",
        ),
        MetricInfo(
            Key.CLIENT_LAG_P99_MS,
            "ms",
            _DOWN,
            "99th percentile of how late the load generator itself was",
            "load generator",
            99,
        ),
        MetricInfo(
            Key.SERVER_CPU_PCT,
            "%",
            _DOWN,
            "processor time of the server's processes in the window; 100 is one core",
            "/proc",
        ),
        MetricInfo(
            Key.LOAD_ACCURACY,
            "fraction",
            _UP,
            "share of the window's prompts with a known answer that were answered so, under load",
            "load generator",
        ),
    )
}

_PERCENTILE = re.compile(r"_p(50|90|95|99)(_|$)")
SAMPLES_NEEDED = {50: 50, 90: 200, 95: 400, 99: 1000}


def percentile_of(key: str) -> int | None:
    """The percentile that a metric key names (``latency_p90_ms`` -> 90), or None."""
    found = _PERCENTILE.search(key)
    return int(found.group(1)) if found else None


def counts_nothing(key: str, value: float, direction: Direction | None = None) -> bool:
    """True for work per second that is 0 or less: nothing was completed, which is no low score.

    ``direction`` is that of a metric that the catalogue does not have.
    """
    way = CATALOGUE[key].direction if key in CATALOGUE else direction
    return value <= 0 and way is Direction.MAXIMIZE and "/s" in unit_of(key)


def unit_of(key: str) -> str:
    """The unit of a metric: the catalogue's, or read off the last word of the key, or '' where neither says."""
    if key in CATALOGUE:
        return CATALOGUE[key].unit
    for ending, unit in (
        ("_per_s", "1/s"),
        ("_ms", "ms"),
        ("_s", "s"),
        ("_gib", "GiB"),
        ("_mib", "MiB"),
        ("_pct", "%"),
    ):
        if key.endswith(ending):
            return unit
    return ""
