"""Measures an exported configuration again and holds it against what one more run should give."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trials.contract import Measurement, Outcome, Purpose, TrialSpec
from tuner.comparison import Spread, prediction_interval
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import Job, Signal, Slots
from tuner.export.document import task_digest
from tuner.launch import TRIALS_FOLDER, machine_cores

FAMILY_CONFIDENCE = 0.95
"""Confidence that all metrics of an unchanged configuration land inside, shared among them."""


class VerifyError(Exception):
    """The configuration could not be measured; the message says why."""


@dataclass(frozen=True)
class Comparison:
    """One metric measured now, against the interval for one more run."""

    metric: str
    measured: float | None
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """inside, outside, or missing."""
        if self.measured is None:
            return "missing"
        return "inside" if self.low <= self.measured <= self.high else "outside"


@dataclass(frozen=True)
class Verification:
    """All comparisons of one verification."""

    comparisons: tuple[Comparison, ...]

    @property
    def agrees(self) -> bool:
        """True when every metric lies inside."""
        return all(c.verdict == "inside" for c in self.comparisons)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = [{**asdict(c), "verdict": c.verdict} for c in self.comparisons]
        return {"schema_version": 1, "agrees": self.agrees, "metrics": rows}


def verify_document(
    document: Mapping[str, Any], folder: Path, timeout_s: float, say: Callable[[str], None]
) -> Verification:
    """Run the document's configuration twice (the first, cold run is thrown away) and compare the second.

    Trial folders go below ``folder``. VerifyError where it cannot be measured.
    """
    basis = document["verify"]
    if document.get("provenance", {}).get("task_sha256") not in (None, task_digest(basis["workload"])):
        say("warning: the task's file is not the one that was measured; a difference may come from there")
    if not document.get("is_confirmed"):
        say("warning: this configuration was measured once only; its interval is wide")
    source = _TwoRuns(document, folder / TRIALS_FOLDER / "verify" / time.strftime("%Y%m%d-%H%M%S"), timeout_s)
    cpus = basis.get("cpus") or machine_cores()
    LocalExecutor().run(source, Slots(count=1, cpus=min(cpus, machine_cores()), gpus=basis.get("gpus", 0)))
    run = source.measured
    if run is None or run.outcome is not Outcome.COMPLETE:
        why = "it was interrupted" if run is None else f"{run.failure_kind}: {run.message}"
        raise VerifyError(f"the run failed: {why}; log: {source.folder}")
    return Verification(tuple(_comparisons(basis, run)))


def _comparisons(basis: Mapping[str, Any], run: Measurement) -> list[Comparison]:
    judged = list(dict.fromkeys(basis["judged_by"]))
    confidence = 1 - (1 - FAMILY_CONFIDENCE) / len(judged)
    found = []
    for metric in judged:
        values = basis["runs"].get(metric, [])
        if not values:
            continue
        spread = basis.get("spread", {}).get(metric)
        try:
            low, high = prediction_interval(
                values, confidence, basis.get("within", {}).get(metric, 0.0), Spread(**spread) if spread else None
            )
        except ValueError as problem:
            raise VerifyError(f"{metric}: {problem}; export a confirmed trial") from problem
        measured = run.metrics[metric].value if metric in run.metrics else None
        found.append(Comparison(metric, measured, low, high))
    return found


class _TwoRuns:
    """The cold run and the one that counts, as a source of jobs."""

    def __init__(self, document: Mapping[str, Any], folder: Path, timeout_s: float) -> None:
        self._document, self.folder, self._timeout_s = document, folder, timeout_s
        self._given = 0
        self.measured: Measurement | None = None
        self._has_failed = False

    def next_job(self, running: int) -> Job | Signal:
        if running:
            return Signal.WAIT
        if self._given == 2 or self._has_failed:
            return Signal.FINISHED
        self._given += 1
        basis = self._document["verify"]
        return Job(
            TrialSpec(
                study=self._document["study"],
                trial_number=self._document["trial"],
                measurement_id=f"verify-{self._given}",
                purpose=Purpose.VERIFY,
                workload=basis["workload"],
                config=basis["parameters"],
                seed=basis["seed"],
                trial_dir=self.folder / f"{self._given}",
                cache_dir=self.folder / "cache",
                wanted=tuple(basis["judged_by"]),
                timeout_s=self._timeout_s,
            )
        )

    def on_result(self, job: Job, measurement: Measurement) -> None:
        self.measured = measurement
        self._has_failed = measurement.outcome is not Outcome.COMPLETE

    def must_stop(self) -> bool:
        return False
