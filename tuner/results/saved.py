"""What cutting trials short has saved."""

from __future__ import annotations

from statistics import median

from trials.contract import Outcome, Purpose
from tuner.records.rows import MeasurementRecord, StudyRecord
from tuner.results.model import BASELINE, CutShort, TrialResult

_SEARCHED = (Purpose.SEARCH, Purpose.RETRY)


def cut_short(study: StudyRecord, trials: list[TrialResult]) -> CutShort:
    """How many trials were cut, and the seconds saved against the median whole trial of the search.

    An estimate: a slow trial, which is what is cut most, would have taken longer than the median.
    """
    runs = [run for trial in study.trials if trial.number != BASELINE for run in trial.measurements]
    whole = [run for run in runs if run.outcome is Outcome.COMPLETE and run.purpose in _SEARCHED]
    cut = [run for run in runs if run.outcome is Outcome.PRUNED and not run.is_discarded]
    count = sum(trial.outcome is Outcome.PRUNED for trial in trials)
    lengths_s = [run.phases["wall_s"] for run in whole if "wall_s" in run.phases]
    if not lengths_s or not cut:
        return CutShort(count)
    whole_s = median(lengths_s)
    return CutShort(count, whole_s, sum(max(0.0, whole_s - _spent_s(run)) for run in cut))


def _spent_s(run: MeasurementRecord) -> float:
    return run.phases.get("wall_s", 0.0)
