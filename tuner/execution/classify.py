"""From how a trial's process ended, and what it wrote, to the one outcome of the measurement.

The exit status and the structured result decide; nothing is ever searched for the word "error".
"""

from __future__ import annotations

import dataclasses
import difflib
import signal
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.contract import (
    LOG_FILE,
    RESULT_FILE,
    FailureKind,
    Measurement,
    MetricValue,
    Outcome,
    TrialSpec,
    why_not_comparable,
)
from trials.metrics import Key, counts_nothing
from trials.stages import read_stages
from tuner.execution.cut import cut_short

LARGEST_RESULT_BYTES = 64 * 2**20
STAGES = "stages"
"""The fact of a measurement that holds what it reported on the way."""
TAIL_LINES, TAIL_BYTES = 12, 4000
GIB = 2**30


@dataclass(frozen=True)
class Report:
    """How the guardian says that a trial ended; the fields are explained in ``guardian.py``."""

    reason: str
    returncode: int | None
    peak_bytes: int = 0
    wall_s: float = 0.0
    started_at: float = 0.0
    oom_kills: int = 0
    strays: int = 0
    survivors: tuple[int, ...] = ()
    memory_by: str = "sampled"
    message: str = ""

    @classmethod
    def from_message(cls, message: Mapping[str, Any] | None) -> Report:
        """From the guardian's message; None (it died without one) becomes the reason ``guardian_gone``."""
        if message is None:
            return cls("guardian_gone", None)
        return cls(**{**message, "survivors": tuple(message["survivors"])})


def measurement_of(report: Report, spec: TrialSpec) -> Measurement:
    """The outcome of a trial that ended as ``report`` says and left its files in ``spec.trial_dir``."""
    result = _read_result(spec.trial_dir / RESULT_FILE)
    cut = _cut(report, spec)
    if report.reason == "cut":
        measurement = cut_short(spec.trial_dir, read_stages(spec.trial_dir)[0])
    elif cut:
        measurement = _failed(*cut, result)
    elif isinstance(result, str):
        measurement = _failed(*_without_result(report, result, spec.trial_dir), None)
    elif result.outcome is Outcome.FAILED:
        measurement = result
    elif report.returncode != 0:
        measurement = _failed(*_died_after_result(report), result)
    else:
        measurement = _judged(result, report, spec)
    return _completed(measurement, report, spec)


def cut_before_it_ended(why: str = "the run was interrupted, or its wall time was over") -> Measurement:
    """What a job is handed back as that was cut before its supervisor could report."""
    return Measurement.failed(FailureKind.INTERRUPTED, f"cut before it ended: {why}")


def log_tail(trial_dir: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of the trial's log; empty where it wrote none."""
    try:
        with (trial_dir / LOG_FILE).open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - TAIL_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.replace("\r", "\n").rstrip().splitlines()[-lines:])


def _cut(report: Report, spec: TrialSpec) -> tuple[FailureKind, str] | None:
    """Kind and message where something other than the trial itself decided its end."""
    match report.reason:
        case "timeout":
            return FailureKind.TIMEOUT, (
                f"cut after {spec.timeout_s:g} s; raise budget.trial_timeout if it was only slow"
            )
        case "memory":
            return FailureKind.OUT_OF_MEMORY, _memory_message(report, spec)
        case "interrupted" | "driver_gone" | "supervisor_gone":
            return FailureKind.INTERRUPTED, "cut before it ended: " + {
                "interrupted": "the run was interrupted, or its wall time was over",
                "driver_gone": "the driver went away",
                "supervisor_gone": "its supervisor went away",
            }[report.reason]
        case "guardian_gone":
            return (
                FailureKind.KILLED,
                "the guardian of this trial was killed from outside, and the trial with it",
            )
        case "not_started":
            return FailureKind.CRASH, f"could not be started: {report.message}"
    return None


def _memory_message(report: Report, spec: TrialSpec) -> str:
    peak = f"peak {report.peak_bytes / GIB:.2f} GiB seen"
    if spec.memory_limit_gib is None:
        return f"the kernel killed it because the machine ran out of memory ({peak})"
    return f"went over resources.memory = {spec.memory_limit_gib:g} GiB ({peak}); allow more or try less"


def _without_result(report: Report, problem: str, trial_dir: Path) -> tuple[FailureKind, str]:
    if report.returncode == -signal.SIGKILL:
        return FailureKind.KILLED, "killed from outside (SIGKILL)"
    if not trial_dir.is_dir():
        return FailureKind.CRASH, (
            f"its folder {trial_dir} was deleted while it ran, and its log and result with it; "
            "the program may empty that folder, never remove it"
        )
    return FailureKind.CRASH, f"ended {_ending(report)} {problem}"


def _died_after_result(report: Report) -> tuple[FailureKind, str]:
    if report.returncode == -signal.SIGKILL:
        return FailureKind.KILLED, "wrote a result, then was killed from outside (SIGKILL)"
    return FailureKind.CRASH, f"wrote a result, then ended {_ending(report)}: the result is not trusted"


def _ending(report: Report) -> str:
    code = report.returncode or 0
    if code >= 0:
        return f"with exit status {code}"
    try:
        return f"by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def _failed(kind: FailureKind, message: str, result: Measurement | str | None) -> Measurement:
    """A failure; what the trial had measured by then is kept among the facts, where no judge looks."""
    if not isinstance(result, Measurement):
        return Measurement.failed(kind, message)
    known = {key: metric.value for key, metric in result.metrics.items()}
    return dataclasses.replace(
        result,
        outcome=Outcome.FAILED,
        failure_kind=kind,
        message=message,
        metrics={},
        examples={},
        facts={**result.facts, **({"metrics_before_failure": known} if known else {})},
    )


def _read_result(path: Path) -> Measurement | str:
    """The trial's result, or what is wrong with it as the end of a sentence."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return "without a result"
    except OSError as problem:
        return f"with an unreadable {RESULT_FILE}: {problem}"
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_RESULT_BYTES:
        return f"with a {RESULT_FILE} that is no file, or larger than {LARGEST_RESULT_BYTES // 2**20} MiB"
    try:
        return _checked(Measurement.from_json(path.read_text(encoding="utf-8")))
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as problem:
        return f"with a {RESULT_FILE} that is not a result: {type(problem).__name__}: {str(problem)[:200]}"


def _checked(result: Measurement) -> Measurement:
    """The result again; ValueError where it says something that nobody can record."""
    if result.outcome is Outcome.FAILED and result.failure_kind is None:
        raise ValueError("failed without a failure kind")
    if result.outcome is not Outcome.FAILED and result.failure_kind is not None:
        raise ValueError(f"{result.outcome} with the failure kind {result.failure_kind}")
    if not isinstance(result.message, str):
        raise ValueError("its message is no text")
    for name in ("proof", "facts", "environment"):
        if not isinstance(getattr(result, name), Mapping):
            raise ValueError(f"{name} is no mapping")
    for key, metric in result.metrics.items():
        if metric.n is not None and (isinstance(metric.n, bool) or not isinstance(metric.n, int)):
            raise ValueError(f"n of {key} is no whole number")
    return result


def _judged(result: Measurement, report: Report, spec: TrialSpec) -> Measurement:
    """A clean end: complete, unless a number that the study needs is missing, not finite, or counts nothing."""
    own = list(result.metrics)
    metrics = {**_process_metrics(report, spec), **result.metrics}
    result = dataclasses.replace(result, metrics=metrics)
    if result.outcome is not Outcome.COMPLETE:
        return result
    missing = [key for key in spec.wanted if key not in metrics]
    if missing:
        return _failed(FailureKind.MISSING_METRIC, _missing_message(missing, own), result)
    broken = [key for key in spec.wanted if not metrics[key].is_finite]
    if broken:
        values = ", ".join(f"{key} is {why_not_comparable(metrics[key].value)}" for key in broken)
        return _failed(FailureKind.NON_FINITE, values, result)
    empty = [key for key in spec.wanted if counts_nothing(key, metrics[key].value)]
    if empty:
        said = f"{empty[0]} is {metrics[empty[0]].value:g}: nothing was completed while it was timed"
        return _failed(FailureKind.UNSTABLE, f"{said}; make a trial longer", result)
    return result


def _missing_message(missing: list[str], came: list[str]) -> str:
    near = {key: difflib.get_close_matches(key, came, n=1) for key in missing}
    hints = "".join(f"; did you mean {found[0]}?" for found in near.values() if found)
    return f"did not report {', '.join(missing)}; it reported {', '.join(came) or 'nothing'}{hints}"


def _process_metrics(report: Report, spec: TrialSpec) -> dict[str, MetricValue]:
    """What the guardian measured of any program: a trial's own figures take precedence."""
    peak = MetricValue(
        report.peak_bytes / GIB,
        "GiB",
        n=1,
        method="largest of sampled PSS of all processes and resident peak of the first",
    )
    keys = [Key.PEAK_RSS_GIB, *([] if spec.gpus else [Key.PEAK_MEMORY_GIB])]
    return {str(key): peak for key in keys}


def _completed(measurement: Measurement, report: Report, spec: TrialSpec) -> Measurement:
    """With the log's tail where it helps, the process facts (with the cores and devices that it held), and
    remarks on what was left running.
    """
    message, warnings = measurement.message, list(measurement.warnings)
    if measurement.failure_kind is FailureKind.CRASH and (tail := log_tail(spec.trial_dir)):
        message = f"{message}\n--- end of {LOG_FILE} ---\n{tail}"
    if report.strays and report.reason == "exit":
        warnings.append(f"{report.strays} processes that it left running were ended")
    if report.survivors:
        warnings.append(f"processes {', '.join(map(str, report.survivors))} could not be ended")
    process = {
        key: value
        for key, value in dataclasses.asdict(report).items()
        if key in ("reason", "returncode", "peak_bytes", "memory_by", "oom_kills", "strays")
        and value is not None
    }
    stages = [stage.as_event() for stage in read_stages(spec.trial_dir)[0] if stage.metrics]
    return dataclasses.replace(
        measurement,
        message=message,
        warnings=tuple(warnings),
        facts={
            **measurement.facts,
            **({STAGES: stages} if stages else {}),
            "process": {**process, "cpus": list(spec.cpus), "gpus": list(spec.gpus)},
        },
    )
