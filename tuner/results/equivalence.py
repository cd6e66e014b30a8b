"""The guard on knobs that must not change the numbers: the first losses of a trial against the baseline's.

Degrees, ZeRO, checkpointing, offload, accumulation at the same global batch and compile may move a loss by the
order of sums, and by nothing else. A trial that differs from the baseline in such knobs only, and was trained
with the same seed (so on the same data in the same order), is compared step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from trials.contract import Outcome
from trials.workloads import Knob, workload, workload_names
from tuner.records.rows import MeasurementRecord, StudyRecord, TrialRecord
from tuner.results.model import BASELINE

FIRST_LOSSES, GLOBAL_BATCH = "first_losses", "global_batch_size"
"""Facts of a training: the loss of each of its first steps, and samples a step."""
TOLERANCE = {"fp32": 1e-3, "tf32": 1e-3}
LOW_PRECISION_TOLERANCE = 5e-3
FLOORS = 3.0
"""Times the largest difference between two runs of the baseline with one seed, where that is more."""
_BATCH_KNOBS = frozenset(
    ("micro_batch_size", "gradient_accumulation_steps", "global_batch_size", "data_parallel_degree")
)
"""Together they give the global batch, which the trial records: that has to be equal, not they."""


def numerics_changed(study: StudyRecord) -> dict[int, str]:
    """Trial number -> what its losses did, for each trial whose knobs promised to leave them alone and did not."""
    baseline = next((trial for trial in study.trials if trial.number == BASELINE), None)
    knobs = _knobs(study)
    if baseline is None or not knobs:
        return {}
    references = {run.seed: run for run in _trained(baseline)}
    tolerance = max(_tolerance(baseline), FLOORS * _floor(baseline))
    found = {}
    for trial in study.trials:
        if trial.number == BASELINE or _numeric(trial, knobs) != _numeric(baseline, knobs):
            continue
        for run in _trained(trial):
            reference = references.get(run.seed)
            if reference and (said := _difference(run, reference, tolerance)):
                found[trial.number] = said
                break
    return found


def _knobs(study: StudyRecord) -> Mapping[str, Knob]:
    section = study.notes.get("workload")
    if not isinstance(section, Mapping) or section.get("kind") not in workload_names():
        return {}
    return workload(str(section["kind"])).knobs({k: v for k, v in section.items() if k != "kind"})


def _numeric(trial: TrialRecord, knobs: Mapping[str, Knob]) -> dict[str, Any]:
    """The part of a configuration that decides over the numbers; a knob at its default counts as not given."""
    return {
        name: value
        for name, value in trial.config.items()
        if name not in _BATCH_KNOBS
        and not name.startswith("env.")
        and not (name in knobs and (knobs[name].is_equivalent or knobs[name].default == value))
    }


def _trained(trial: TrialRecord) -> Iterator[MeasurementRecord]:
    """The complete runs that say how they began; cold ones too, which are slower and not different."""
    return (
        run for run in trial.measurements if run.outcome is Outcome.COMPLETE and FIRST_LOSSES in run.facts
    )


def _tolerance(trial: TrialRecord) -> float:
    return TOLERANCE.get(str(trial.config.get("precision", "fp32")), LOW_PRECISION_TOLERANCE)


def _floor(baseline: TrialRecord) -> float:
    """The largest relative difference between two runs of the baseline on the same data; 0 where it ran once."""
    pairs = combinations(_trained(baseline), 2)
    return max((_largest(a, b)[0] for a, b in pairs if a.seed == b.seed), default=0.0)


def _difference(run: MeasurementRecord, reference: MeasurementRecord, tolerance: float) -> str | None:
    if run.facts.get(GLOBAL_BATCH) != reference.facts.get(GLOBAL_BATCH):
        return None
    largest, step = _largest(run, reference)
    if largest <= tolerance:
        return None
    return f"loss of step {step + 1} differs by {largest:.2g} from the baseline's (allowed: {tolerance:.2g})"


def _largest(run: MeasurementRecord, reference: MeasurementRecord) -> tuple[float, int]:
    """The largest relative difference of the first losses, and its step from 0."""
    pairs = zip(run.facts[FIRST_LOSSES], reference.facts[FIRST_LOSSES], strict=False)
    differences = [
        (abs(ours - theirs) / max(abs(theirs), 1e-12), step) for step, (ours, theirs) in enumerate(pairs)
    ]
    return max(differences, default=(0.0, 0))
