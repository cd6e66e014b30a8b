"""Which members of the front to measure again."""

from __future__ import annotations

from collections.abc import Sequence

from trials.contract import FailureKind, Outcome, Purpose
from tuner.pareto import hypervolume
from tuner.results.model import BASELINE, StudyResult, TrialResult


def finalists(result: StudyResult, k: int) -> list[int]:
    """The trials to confirm next, so that ``k`` members of the front are confirmed; empty when that is so.

    The recommended one first, then each time the one that adds most hypervolume to those already picked or
    confirmed, which spreads them over the front. The baseline is not listed: it runs in every round anyway.
    A trial whose confirmation failed before is not asked again.
    """
    members = [trial for trial in result.front_trials if trial.number != BASELINE]
    picked = [trial for trial in members if trial.is_confirmed]
    open_ones = [trial for trial in members if not trial.is_confirmed and not _has_failed(trial)]
    corner = _corner(result, members)
    chosen: list[TrialResult] = []
    while open_ones and len(picked) < k:
        best = max(open_ones, key=lambda trial: _worth(trial, picked, corner, result))
        open_ones.remove(best)
        picked.append(best)
        chosen.append(best)
    return [trial.number for trial in chosen]


def _worth(
    trial: TrialResult, picked: Sequence[TrialResult], corner: Sequence[float], result: StudyResult
) -> tuple[bool, float, int]:
    """Sorts by: recommended, volume added, lower number."""
    recommended = result.recommended is not None and result.recommended.trial == trial.number
    volume = hypervolume([member.point for member in (*picked, trial)], corner)
    return recommended, volume, -trial.number


def _corner(result: StudyResult, members: Sequence[TrialResult]) -> list[float]:
    """The recorded reference, moved out where a member lies beyond it (it would never be picked)."""
    losses = [member.point for member in members]
    if not losses:
        return []
    reference = result.record.reference_point or {}
    corner = []
    for index, objective in enumerate(result.objectives):
        column = [loss[index] for loss in losses]
        edge = max(column) + 0.1 * (max(column) - min(column)) + 1e-9 * abs(max(column)) + 1e-12
        recorded = reference.get(objective.metric)
        corner.append(edge if recorded is None else max(edge, objective.loss(recorded)))
    return corner


def _has_failed(trial: TrialResult) -> bool:
    return any(
        run.purpose is Purpose.CONFIRM
        and run.outcome is Outcome.FAILED
        and run.failure_kind is not FailureKind.INTERRUPTED
        and not run.is_discarded
        for run in trial.measurements
    )
