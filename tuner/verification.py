"""Measures an exported configuration again and holds it against what one more run should give."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trials.contract import Measurement, Outcome, Purpose, TrialSpec
from trials.metrics import unit_of
from tuner.comparison import Spread, prediction_interval
from tuner.execution.local import LocalExecutor
from tuner.execution.protocol import ExecutionError, Executor, Job, Signal, Slots
from tuner.export.document import task_digest
from tuner.export.reading import ExportError
from tuner.launch import TRIALS_FOLDER, machine_cores
from tuner.loop.fingerprint import machine_differences
from tuner.loop.interrupting import interruptible
from tuner.loop.tickets import what_spoiled

FAMILY_CONFIDENCE = 0.95
"""Confidence that all metrics of an unchanged configuration land inside, shared among them."""
WIDEST = 0.5
"""An interval that reaches further than this share of its middle to either side says little."""


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
        """inside, outside, missing, or wide: inside an interval that nearly anything would be inside of."""
        if self.measured is None:
            return "missing"
        if not self.low <= self.measured <= self.high:
            return "outside"
        middle, reach = (self.low + self.high) / 2, (self.high - self.low) / 2
        return "wide" if reach > WIDEST * abs(middle) else "inside"


@dataclass(frozen=True)
class Verification:
    """All comparisons of one verification."""

    comparisons: tuple[Comparison, ...]

    @property
    def agrees(self) -> bool:
        """True when every metric lies inside, at least one in an interval narrow enough to mean something."""
        verdicts = [c.verdict for c in self.comparisons]
        return set(verdicts) <= {"inside", "wide"} and "inside" in verdicts

    @property
    def conclusion(self) -> str:
        """The verdicts in one line: one that disagrees weighs more than one that says little."""
        if self.agrees:
            wide = [c.metric for c in self.comparisons if c.verdict == "wide"]
            doubt = f", but the noise of {', '.join(wide)} would hide a large difference" if wide else ""
            return f"agrees with the export{doubt}"
        if all(c.verdict in ("inside", "wide") for c in self.comparisons):
            return "cannot tell: too noisy to compare"
        return "does NOT agree with the export"

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = [{**asdict(c), "verdict": c.verdict} for c in self.comparisons]
        return {"schema_version": 1, "agrees": self.agrees, "metrics": rows}


def verify_document(
    document: Mapping[str, Any],
    folder: Path,
    timeout_s: float,
    say: Callable[[str], None],
    executor: Executor | None = None,
) -> Verification:
    """Run the document's configuration twice (the first, cold run is thrown away) and compare the second.

    A second run that something outside spoiled is taken once more. Trial folders go below ``folder``;
    ``executor`` is by default this machine. ExportError, before anything runs, where the file's values say
    nothing about one more run; VerifyError where it cannot be measured.
    """
    basis = document["verify"]
    if lacking := why_unpredictable(document):  # said now, not after two runs
        raise ExportError(f"{lacking}; export a confirmed trial")
    if document.get("provenance", {}).get("task_sha256") not in (None, task_digest(basis["workload"])):
        say("warning: the task's file is not the one that was measured; a difference may come from there")
    if not document.get("is_confirmed"):
        say("warning: this configuration was measured once only; its interval is wide")
    source = _Runs(document, folder / TRIALS_FOLDER / "verify" / time.strftime("%Y%m%d-%H%M%S"), timeout_s)
    executor = executor or LocalExecutor()
    try:
        with interruptible(source.interrupt, executor.interrupt):
            executor.run(source, slot_of(document))
    except ExecutionError as problem:
        raise VerifyError(str(problem)) from problem
    if source.is_interrupted:
        raise KeyboardInterrupt
    run = source.measured
    if run is None or run.outcome is not Outcome.COMPLETE:
        why = "it was interrupted" if run is None else f"{run.failure_kind}: {run.message}"
        raise VerifyError(f"the run failed: {why}; log: {source.folder}")
    for line in machine_differences(document.get("environment", {}), run.environment):
        say(f"warning: not the machine that was measured: {line}")
    if disturbed := what_spoiled(run):
        say(f"warning: disturbed both times, so this says little: {disturbed}")
    return Verification(tuple(_comparisons(basis, run)))


def slot_of(document: Mapping[str, Any]) -> Slots:
    """As many cores and devices as the trial held when it was measured, as far as this machine has them."""
    environment = document.get("environment", {})
    held = document["verify"].get("cpus") or len(environment.get("cores_held", ())) or machine_cores()
    return Slots(1, min(held, machine_cores()), document["verify"].get("gpus", int("gpu" in environment)))


def why_unpredictable(document: Mapping[str, Any]) -> str | None:
    """Why nothing follows from an exported document about one more run; None where something does."""
    basis = document["verify"]
    known = [metric for metric in _judged(basis) if basis["runs"].get(metric)]
    if not known:
        return f"the file holds no earlier value of {', '.join(_judged(basis))}"
    for metric in known:
        try:
            _interval(basis, metric, unit_of(metric))
        except ValueError as problem:
            return f"{metric}: {problem}"
    return None


def _judged(basis: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(basis["judged_by"]))


def _interval(basis: Mapping[str, Any], metric: str, unit: str) -> tuple[float, float]:
    """Where one more run lands; all metrics together hold with ``FAMILY_CONFIDENCE``."""
    confidence = 1 - (1 - FAMILY_CONFIDENCE) / len(_judged(basis))
    spread = basis.get("spread", {}).get(metric)
    within, prior = basis.get("within", {}).get(metric, 0.0), Spread(**spread) if spread else None
    return prediction_interval(basis["runs"][metric], confidence, within, prior, unit)


def _comparisons(basis: Mapping[str, Any], run: Measurement) -> list[Comparison]:
    found = []
    for metric in _judged(basis):
        if basis["runs"].get(metric):
            now = run.metrics.get(metric)
            low, high = _interval(basis, metric, unit_of(metric) if now is None else now.unit)
            found.append(Comparison(metric, None if now is None else now.value, low, high))
    return found


class _Runs:
    """The cold run, the one that counts, and one more where that was spoiled; as a source of jobs."""

    def __init__(self, document: Mapping[str, Any], folder: Path, timeout_s: float) -> None:
        self._document, self.folder, self._timeout_s = document, folder, timeout_s
        self._given = 0
        self._most = 2
        self.measured: Measurement | None = None
        self.is_interrupted = False

    def next_job(self, running: int) -> Job | Signal:
        if running:
            return Signal.WAIT
        if self._given >= self._most:
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
        self.measured = measurement if self._given > 1 or _has_failed(measurement) else None
        if self._given == 2 and what_spoiled(measurement) is not None:
            self._most = 3
        elif _has_failed(measurement):
            self._most = 0

    def must_stop(self) -> bool:
        return self.is_interrupted

    def interrupt(self) -> None:
        self.is_interrupted = True

    def look(self) -> None:
        pass


def _has_failed(measurement: Measurement) -> bool:
    return measurement.outcome is not Outcome.COMPLETE
