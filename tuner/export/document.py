"""The export document: configuration, confirmed numbers, why this one, environment, provenance.

Everything that verifying needs is in it: the workload, what the trial gets, and every run's value, from which
the prediction interval of one more run follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuner import __version__
from tuner.comparison import spread_between
from tuner.export.errors import TargetError
from tuner.records.rows import GIVEN, MeasurementRecord, StudyRecord
from tuner.results import StudyResult, TrialResult
from tuner.results.model import BASELINE
from tuner.results.plain import plain_estimate
from tuner.results.runs import runs_behind, valid_runs
from tuner.space.domains import canonical

EXPORT_VERSION = 1


def build_document(
    record: StudyRecord,
    result: StudyResult,
    number: int,
    reason: str,
    gives_up: list[str],
    records_location: str,
) -> dict[str, Any]:
    """The document of trial ``number``, as plain values. TargetError where the records lack what it needs."""
    trial, judged = record.trials[number], result.trial(number)
    runs = runs_behind(trial, record)
    baseline_runs = valid_runs(record.trials[BASELINE], record)
    if "workload" not in record.notes or GIVEN not in runs[-1].facts:
        raise TargetError(f"the records do not say what trial {number} was given; measure it with tuner run")
    given = dict(runs[-1].facts[GIVEN])
    workload = record.notes["workload"]
    verify = _verify_section(record, judged, runs, baseline_runs)
    return {
        "tuner_export": EXPORT_VERSION,
        "study": record.name,
        "trial": number,
        "why": reason,
        "gives_up": gives_up,
        "config": nested(given),
        "chosen": dict(trial.config),
        "metrics": {key: plain_estimate(estimate) for key, estimate in judged.estimates.items()},
        "is_confirmed": judged.is_confirmed,
        "is_feasible": judged.is_feasible,
        "limits": _limits(judged),
        "verify": verify,
        "environment": dict(runs[-1].environment),
        "provenance": {
            "tuner_version": __version__,
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "measured_at": runs[-1].started_at.isoformat(timespec="seconds"),
            "records": _without_password(records_location),
            "generation": record.generation,
            "space_file": record.file_path,
            "space_file_sha256": hashlib.sha256(record.file_text.encode()).hexdigest(),
            "task_sha256": task_digest(workload),
            "verify_sha256": verify_digest(verify),
            "measurements": [run.measurement_id for run in runs],
        },
    }


def _verify_section(
    record: StudyRecord,
    judged: TrialResult,
    runs: Sequence[MeasurementRecord],
    baseline_runs: Sequence[MeasurementRecord],
) -> dict[str, Any]:
    """What ``tuner verify`` measures again, and what it expects."""
    return {
        "workload": dict(record.notes["workload"]),
        "parameters": dict(runs[-1].facts[GIVEN]),
        "seed": 1 + max(run.seed for run in runs),
        "cpus": len(runs[-1].environment.get("cores_held", ())) or None,
        "judged_by": [o.metric for o in record.objectives] + [c.metric for c in record.constraints],
        "spread": {
            key: asdict(found) for key in runs[-1].metrics if (found := spread_between(baseline_runs, key))
        },
        "within": {key: estimate.within for key, estimate in judged.estimates.items() if estimate.within},
        "runs": {
            key: [run.metrics[key].value for run in runs if key in run.metrics] for key in runs[-1].metrics
        },
    }


def verify_digest(section: Mapping[str, Any]) -> str:
    """SHA-256 of the section ``verify``: shows that what it expects belongs to what it measures."""
    return hashlib.sha256(canonical(dict(section)).encode()).hexdigest()


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as nested maps: ``{"task.width": 64}`` -> ``{"task": {"width": 64}}``."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return tree


def task_digest(workload: Mapping[str, Any]) -> str | None:
    """SHA-256 of the task's file where the workload names one (``/path/my_task.py:MyTask``)."""
    file = Path(str(workload.get("task", "")).rpartition(":")[0])
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.suffix == ".py" and file.is_file() else None


def _limits(judged: TrialResult) -> list[dict[str, Any]]:
    return [{"limit": str(status.bound), "status": str(status.status)} for status in judged.limits]


def _without_password(location: str) -> str:
    import re

    return re.sub(r"//([^:/@]+):[^@/]+@", r"//\1:***@", location)
