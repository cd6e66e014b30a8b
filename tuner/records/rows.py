"""The records as plain frozen values; everything that reads a study reads these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trials.contract import FailureKind, MetricValue, Outcome, Purpose
from tuner.objectives import Bound, Constraint, Objective

GIVEN = "parameters"
"""The fact of a measurement that holds what the trial got: labels replaced, "leave the default" absent."""
CONTAMINATED = "contaminated"
"""The fact that says what disturbed a measurement: foreign load, cores or devices that others held as well."""
CONCURRENT = "concurrent_trials"
"""The fact that says how many trials might run at once, where more than one might."""


@dataclass(frozen=True)
class Forecast:
    """What the sampler's model expected of a configuration before it ran.

    ``expected``: by objective metric the middle and the ends of the 95% interval of one run, in the metric's
    unit; ``probability_ok``: that it runs and meets every limit (None: not said).
    """

    expected: Mapping[str, tuple[float, float, float]]
    probability_ok: float | None = None


@dataclass(frozen=True)
class MeasurementRecord:
    """One run of a configuration. ``outcome`` None: started and not ended (running, or interrupted)."""

    measurement_id: str
    trial_number: int
    purpose: Purpose
    seed: int
    outcome: Outcome | None
    failure_kind: FailureKind | None
    message: str
    metrics: Mapping[str, MetricValue]
    phases: Mapping[str, float]
    proof: Mapping[str, Any]
    facts: Mapping[str, Any]
    environment: Mapping[str, Any]
    warnings: tuple[str, ...]
    log_dir: str
    started_at: datetime  # UTC
    ended_at: datetime | None
    is_discarded: bool = False  # the cold run before the baseline's repeats, or one that was contaminated
    round_number: int | None = None  # of an interleaved confirmation


@dataclass(frozen=True)
class TrialRecord:
    """One configuration. ``proposed_by``: baseline, try_first, user, or the sampler's name and reason."""

    number: int
    config: Mapping[str, Any]
    proposed_by: str
    measurements: tuple[MeasurementRecord, ...]
    reused_from: int | None = None  # its number in the generation it was taken over from
    forecast: Forecast | None = None


@dataclass(frozen=True)
class StudyRecord:
    """A study as recorded. ``definition`` is the plain description of the whole file (compared on resume)."""

    name: str
    generation: int
    created_at: datetime
    updated_at: datetime
    file_text: str
    file_path: str
    definition: Mapping[str, Any]
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]
    bounds: tuple[Bound, ...] | None  # frozen once the baseline is known
    reference_point: Mapping[str, float] | None  # of the hypervolume, by objective metric
    rejected: Mapping[str, int]  # rule -> how many configurations it kept from running
    stopped_because: str | None
    trials: tuple[TrialRecord, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)  # mlflow run id, runner's command line


@dataclass(frozen=True)
class StudySummary:
    """A line of ``tuner list``."""

    name: str
    generation: int
    created_at: datetime
    updated_at: datetime
    trials: int
    measurements: int
    counts: Mapping[str, int]  # trials by outcome
    stopped_because: str | None
    log_dirs: tuple[str, ...]
