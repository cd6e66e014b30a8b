"""What goes into a trial's process and what comes out: TrialSpec in, Measurement out.

Standard library only: a trial of a program that does nothing should cost a few milliseconds here
(importing a validation library would cost 60 ms in every trial).
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

CONTRACT_VERSION = 1

SPEC_FILE = "spec.json"
RESULT_FILE = "result.json"
EVENTS_FILE = "events.jsonl"
LOG_FILE = "trial.log"  # stdout and stderr of the trial, interleaved as written


LARGEST_NUMBER = 1e60
"""A metric beyond it cannot be compared: squares and volumes of what is larger leave the range of a float."""


def is_comparable(value: float) -> bool:
    """Whether a number can be calculated with: finite, and at most ``LARGEST_NUMBER`` in size."""
    return abs(value) <= LARGEST_NUMBER


def why_not_comparable(value: float) -> str:
    """In words: ``inf``, or ``1e+308, and beyond 1e+60 nothing can be compared``."""
    beyond = f", and beyond {LARGEST_NUMBER:g} nothing can be compared" if math.isfinite(value) else ""
    return f"{value:g}{beyond}"


class Purpose(StrEnum):
    """Why a measurement was taken."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRM = "confirm"
    RETRY = "retry"
    VERIFY = "verify"


class Outcome(StrEnum):
    """How a measurement ended; whether it meets the limits is a separate fact."""

    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


class FailureKind(StrEnum):
    """Why a measurement failed."""

    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    ENGINE_START = "engine_start"
    UNSUPPORTED = "unsupported"
    NON_FINITE = "non_finite"
    MISSING_METRIC = "missing_metric"
    UNSTABLE = "unstable"
    KILLED = "killed"
    CRASH = "crash"
    INTERRUPTED = "interrupted"


class TrialFailure(Exception):  # noqa: N818 - an outcome, not a programming error
    """Raised inside a trial to end it with a typed outcome and one line that says what to do."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True)
class MetricValue:
    """One measured number.

    ``low`` and ``high`` bound the 95% interval within this run (None where it cannot be given), ``n`` is the
    number of samples behind the value, ``method`` says how value and interval were made ("median of 40 steps"),
    ``flags`` hold remarks such as ``few_samples``.
    """

    value: float
    unit: str
    n: int | None = None
    low: float | None = None
    high: float | None = None
    method: str = ""
    flags: tuple[str, ...] = ()

    @property
    def is_finite(self) -> bool:
        """True when the value can be compared with others."""
        return is_comparable(self.value)


@dataclass(frozen=True)
class TrialSpec:
    """Everything one trial needs, as plain values.

    ``workload`` is the space file's section with absolute paths; ``config`` maps dotted parameter names to the
    values to use (labels already replaced); ``parameters`` names all parameters of the space, those without a
    value in this configuration (null, inactive) included; ``cpus`` are the core numbers the trial is pinned
    to (empty: not pinned), ``gpus`` the device identifiers it may see; ``wanted`` the metric keys that the study
    judges by; ``report_at`` the shares of its work (0-1, ascending) after which the trial says how it goes, see
    ``trials.stages`` (empty: it is left alone to its end).
    """

    study: str
    trial_number: int
    measurement_id: str
    purpose: Purpose
    workload: Mapping[str, Any]
    config: Mapping[str, Any]
    seed: int
    trial_dir: Path
    cache_dir: Path
    cpus: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    timeout_s: float | None = None
    memory_limit_gib: float | None = None
    contract_version: int = CONTRACT_VERSION
    parameters: tuple[str, ...] = ()
    report_at: tuple[float, ...] = ()

    @property
    def kind(self) -> str:
        """The workload kind: ``training``, ``command``, ..."""
        return str(self.workload["kind"])

    def to_json(self) -> str:
        """The text of ``spec.json``."""
        return json.dumps(
            {**asdict(self), "trial_dir": str(self.trial_dir), "cache_dir": str(self.cache_dir)}, indent=1
        )

    @classmethod
    def from_json(cls, text: str) -> TrialSpec:
        """Read ``spec.json``; raises ValueError for another contract version."""
        raw = json.loads(text)
        if raw.get("contract_version") != CONTRACT_VERSION:
            raise ValueError(
                f"spec has contract version {raw.get('contract_version')}, this program reads {CONTRACT_VERSION}"
            )
        raw["purpose"] = Purpose(raw["purpose"])
        raw["trial_dir"], raw["cache_dir"] = Path(raw["trial_dir"]), Path(raw["cache_dir"])
        for key in ("cpus", "gpus", "wanted", "parameters", "report_at"):
            raw[key] = tuple(raw.get(key, ()))
        return cls(**raw)


@dataclass(frozen=True)
class Measurement:
    """What one run of a configuration gave.

    ``phases`` are seconds by phase (``startup_s, compile_s, warmup_s, measured_s, evaluation_s`` and what the
    workload adds); ``proof`` says what really executed; ``environment`` is the fingerprint of machine and
    libraries; ``examples`` holds per-example quality by metric key, in a fixed order, for paired comparison;
    ``facts`` are other things worth keeping (bottleneck shares, derived sizes).
    """

    outcome: Outcome
    failure_kind: FailureKind | None = None
    message: str = ""
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    proof: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    examples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The text of ``result.json``; NaN and infinities are written as the words nan, inf, -inf."""
        return json.dumps({"contract_version": CONTRACT_VERSION, **_spelled(asdict(self))}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Measurement:
        """Read ``result.json``; raises ValueError (or a subclass), KeyError or TypeError where it is not one."""
        raw = json.loads(text)
        if raw.pop("contract_version", None) != CONTRACT_VERSION:
            raise ValueError("result.json is of another contract version")
        raw["outcome"] = Outcome(raw["outcome"])
        raw["failure_kind"] = FailureKind(raw["failure_kind"]) if raw["failure_kind"] else None
        raw["metrics"] = {key: _metric(entry) for key, entry in raw["metrics"].items()}
        raw["phases"] = {key: float(seconds) for key, seconds in raw["phases"].items()}
        raw["examples"] = {key: tuple(map(float, values)) for key, values in raw["examples"].items()}
        raw["warnings"] = tuple(raw["warnings"])
        return cls(**raw)

    @classmethod
    def failed(cls, kind: FailureKind, message: str, **known: Any) -> Measurement:
        """A measurement that gave no valid objective values; what is known is kept beside."""
        return cls(outcome=Outcome.FAILED, failure_kind=kind, message=message, **known)


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old content or the whole new one, also after a power cut.

    A link keeps pointing where it does, and a device or a pipe is written to, never replaced by a file.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.is_symlink():  # still: it leads back to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _metric(raw: Mapping[str, Any]) -> MetricValue:
    numbers = {key: None if raw[key] is None else float(raw[key]) for key in ("value", "low", "high")}
    if numbers["value"] is None:
        raise ValueError("a metric without a value")
    return MetricValue(
        unit=str(raw["unit"]),
        n=raw["n"],
        method=str(raw["method"]),
        flags=tuple(raw["flags"]),
        **numbers,  # type: ignore[arg-type]
    )


def _spelled(value: Any) -> Any:
    """The same structure with non-finite floats as words, which ``float()`` reads back."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): _spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return value
