"""Why a study cannot go on, in words that say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trials.contract import FailureKind, Measurement, Outcome
from tuner.execution.classify import log_tail
from tuner.objectives import Objective, why_invalid


class StudyFailed(Exception):  # noqa: N818 - says what happened to the study
    """The study cannot go on; the message shows why and what to do (exit code 1)."""


def without_values(measurement: Measurement, objectives: Sequence[Objective]) -> Measurement:
    """The measurement, as a failure where it ended well and has no usable value of every objective.

    What it reported is kept among the facts, where no judge looks.
    """
    values = {key: metric.value for key, metric in measurement.metrics.items()}
    found = why_invalid(objectives, values) if measurement.outcome is Outcome.COMPLETE else None
    if found is None:
        return measurement
    facts = {**measurement.facts, "metrics_before_failure": values}
    return replace(
        measurement,
        outcome=Outcome.FAILED,
        failure_kind=found[0],
        message=found[1],
        metrics={},
        examples={},
        facts=facts,
    )


def baseline_failed(measurement: Measurement, trial_dir: Path) -> StudyFailed | None:
    """The failure of a baseline, with the end of its log; None where it did not fail."""
    if measurement.outcome is Outcome.COMPLETE or measurement.failure_kind is FailureKind.INTERRUPTED:
        return None
    tail = (
        "" if measurement.failure_kind is FailureKind.CRASH else log_tail(trial_dir)
    )  # a crash says it itself
    shown = f"\n--- end of its log ---\n{tail}" if tail else ""
    return StudyFailed(
        f"the baseline failed ({measurement.failure_kind}): {measurement.message}{shown}\n"
        f"its log and the command that runs it alone: {trial_dir}"
    )


def other_machine(number: int, differences: Sequence[str]) -> StudyFailed:
    """A measurement that came from another machine than those before it."""
    lines = "\n".join(f"  {line}" for line in differences)
    return StudyFailed(
        f"trial {number} ran on another machine than the measurements before it, and their numbers do not "
        f"compare:\n{lines}\n"
        "go on where the others were measured, or add --new-space to begin anew here (what is recorded stays)"
    )
