"""Which members of the front to measure again."""

from __future__ import annotations

from collections.abc import Sequence

from trials.contract import FailureKind, Outcome, Purpose
from tuner.pareto import hypervolume
from tuner.results.model import BASELINE, StudyResult, TrialResult
from tuner.results.ties import is_tie, layouts_of

_MOST_COMPARED = 60
"""So many trials that are nearest to the front may be rivals of its members."""


def finalists(result: StudyResult, k: int) -> list[int]:
    """The trials to confirm next, so that ``k`` contenders are confirmed; empty when that is so.

    The recommended one first, then each time the member of the front that adds most hypervolume to those already
    picked or confirmed, which spreads them over the front; where the front has fewer than ``k`` members, its
    nearest rivals. The baseline is not listed: it runs in every round anyway. A trial whose confirmation failed
    before is not asked again.
    """
    able = contenders(result)
    members = [trial for trial in able if trial.on_front]
    picked = [trial for trial in able if trial.is_confirmed]
    open_ones = [trial for trial in able if not trial.is_confirmed and not _has_failed(trial)]
    corner = _corner(result, members)
    chosen: list[TrialResult] = []
    while open_ones and len(picked) < k:
        best = max(open_ones, key=lambda trial: _worth(trial, picked, corner, result))
        open_ones.remove(best)
        picked.append(best)
        chosen.append(best)
    return [trial.number for trial in chosen]


def contenders(result: StudyResult) -> list[TrialResult]:
    """The front without the baseline, then the trials that no objective tells apart from one of its members.

    A rival may be the better one of the two: its one run was unlucky, or the member's was lucky. Nearest first.
    """
    members = [trial for trial in result.front_trials if trial.number != BASELINE]
    others = [t for t in result.trials if t.may_be_on_front and not t.on_front and t.number != BASELINE]
    if not members or not others:
        return members
    layouts = layouts_of(result.record)
    nearest = sorted(others, key=lambda trial: _shortfall(trial, members))[:_MOST_COMPARED]
    return members + [t for t in nearest if any(is_tie(t, member, layouts) for member in members)]


def _shortfall(trial: TrialResult, members: Sequence[TrialResult]) -> float:
    """By what share the nearest member is ahead in the objective where it is ahead most."""
    return min(
        max((ours - best) / (abs(best) or 1.0) for ours, best in zip(trial.point, m.point, strict=True))
        for m in members
    )


def _worth(
    trial: TrialResult, picked: Sequence[TrialResult], corner: Sequence[float], result: StudyResult
) -> tuple[bool, bool, float, float]:
    """Sorts by: recommended, on the front, volume added (of a rival: how near it is), lower number."""
    recommended = result.recommended is not None and result.recommended.trial == trial.number
    if trial.on_front:
        worth = hypervolume([member.point for member in (*picked, trial)], corner)
    else:
        worth = -_shortfall(trial, [m for m in result.front_trials if m.number != BASELINE])
    return recommended, trial.on_front, worth, -trial.number


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
