"""Which point of the front to take, by a stated rule, with what it gives up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trials.metrics import Direction
from tuner.objectives import direction_of
from tuner.pareto import knee_order
from tuner.records.rows import StudyRecord
from tuner.results.model import BASELINE, Recommendation, StudyResult, TrialResult
from tuner.space.model import Selection

_SPANS_OF_NOISE = 3.0
"""An axis of the front shorter than so many standard deviations of a run is noise, not a trade-off."""


def recommend(result: StudyResult, selection: Selection | None = None) -> Recommendation | None:
    """The trial to take by ``selection`` (the study's own by default); None while the front is empty.

    Confirmed members go before unconfirmed ones, and members whose limits are surely met before undecided
    ones. Where noise cannot tell the pick from a confirmed trial with fewer changes from the baseline, the
    simpler one is taken. Ties end with the lower number, so that the same records give the same answer.
    ValueError where the rule names a metric whose better direction nobody knows.
    """
    selection = selection or selection_of(result.record)
    members = _preferred(result.front_trials)
    if not members:
        return None
    pick, reason = _pick(result, selection, members)
    chosen = _simplest(result, pick)
    if chosen is not pick:
        reason = (
            f"trial {chosen.number} ({_changes(chosen)}) is simpler than trial {pick.number} "
            f"({_changes(pick)}), and noise cannot tell them apart; trial {pick.number}: {reason}"
        )
    elif not chosen.is_confirmed:
        reason += " (not confirmed: single runs only)"
    if BASELINE in chosen.is_tied_with:
        reason += "; not distinguishable from the baseline"
    return Recommendation(chosen.number, reason, _gives_up(result, chosen, members))


def selection_of(study: StudyRecord) -> Selection:
    """The rule noted with the study (``notes["selection"]``: rule, metric, within), or the knee."""
    raw: Mapping[str, Any] = study.notes.get("selection") or {}
    return Selection(raw.get("rule", "knee"), raw.get("metric"), dict(raw.get("within") or {}))


def _preferred(front: Sequence[TrialResult]) -> list[TrialResult]:
    confirmed = [trial for trial in front if trial.is_confirmed]
    sure = [trial for trial in confirmed if not trial.has_undecided_limit]
    return sure or confirmed or list(front)


def _pick(result: StudyResult, selection: Selection, members: list[TrialResult]) -> tuple[TrialResult, str]:
    if selection.rule in ("maximize", "minimize") and selection.metric is not None:
        measured = [trial for trial in members if selection.metric in trial.estimates]
        if not measured:
            pick, reason = _knee(result, members)
            return pick, f"no member of the front has measured {selection.metric}, so the rule is: {reason}"
        return _extreme(result, selection, measured)
    first = result.objectives[0]
    if selection.rule == "first_objective" or len(result.objectives) == 1:
        pick = min(members, key=_by(first.metric, first.direction))
        return pick, f"best {first.metric} of the trials that meet the limits"
    return _knee(result, members)


def _knee(result: StudyResult, members: list[TrialResult]) -> tuple[TrialResult, str]:
    resolution = [
        _SPANS_OF_NOISE * result.noise_floor.get(o.metric, 0.0) * abs(members[0].estimates[o.metric].value)
        for o in result.objectives
    ]
    scores = knee_order([member.point for member in members], resolution)
    ranked = sorted(zip(scores, members, strict=True), key=lambda pair: (pair[0], *_simplicity(pair[1])))
    if len(members) == 1:
        return ranked[0][1], "the only member of the front"
    return ranked[0][
        1
    ], f"knee of the front: nearest to the best of every objective at once, among {len(members)}"


def _extreme(
    result: StudyResult, selection: Selection, members: list[TrialResult]
) -> tuple[TrialResult, str]:
    """The largest or smallest value of a metric, among members near enough to the best of others."""
    metric, direction = str(selection.metric), Direction(selection.rule)
    near, words = members, []
    for other, distance in selection.within.items():
        way = direction_of(other, result.objectives, result.record.constraints)
        if way is None:
            raise ValueError(
                f"selection: within {other}: say which way it is better (make it an objective or a limit)"
            )
        losses = {t.number: way.sign * t.estimates[other].value for t in members if other in t.estimates}
        best = min(losses.values(), default=0.0)
        near = [t for t in near if t.number in losses and losses[t.number] <= best + distance]
        words.append(f"{other} within {distance:g} of the best ({way.sign * best:.6g})")
    side = "largest" if direction is Direction.MAXIMIZE else "smallest"
    if not near:
        pick, reason = _knee(result, members)
        return pick, f"no member of the front has {' and '.join(words)}, so the rule is: {reason}"
    among = f" among those with {' and '.join(words)}" if words else " of the front"
    return min(near, key=_by(metric, direction)), f"{side} {metric}{among}"


def _simplest(result: StudyResult, pick: TrialResult) -> TrialResult:
    """The pick, or a confirmed trial of the front, or the baseline, that is tied with it and changes less."""
    if not pick.is_confirmed:
        return pick
    tied = [result.trial(number) for number in pick.is_tied_with]
    able = [
        trial
        for trial in tied
        if trial.is_confirmed
        and (trial.on_front or trial.number == BASELINE)
        and trial.has_undecided_limit <= pick.has_undecided_limit
        and len(trial.changes) < len(pick.changes)
    ]
    return min(able, key=_simplicity, default=pick)


def _gives_up(result: StudyResult, chosen: TrialResult, members: Sequence[TrialResult]) -> tuple[str, ...]:
    lines = []
    for objective in result.objectives:
        best = min(members, key=_by(objective.metric, objective.direction))
        ours, theirs = chosen.estimates[objective.metric], best.estimates[objective.metric]
        if objective.loss(ours.value) > objective.loss(theirs.value):
            unit = f" {ours.unit}" if ours.unit not in ("", "1") else ""
            lines.append(
                f"{objective.metric} {ours.value:.6g}{unit} instead of {theirs.value:.6g} "
                f"(trial {best.number}){_by_how_much(ours.value, theirs.value)}"
            )
    return tuple(lines)


def _by_how_much(ours: float, theirs: float) -> str:
    if not theirs:
        return ""
    return f", {abs(ours / theirs - 1):.1%} {'lower' if ours < theirs else 'higher'}"


def _by(metric: str, direction: Direction) -> Callable[[TrialResult], tuple[float, int, int]]:
    return lambda trial: (direction.sign * trial.estimates[metric].value, *_simplicity(trial))


def _simplicity(trial: TrialResult) -> tuple[int, int]:
    return len(trial.changes), trial.number


def _changes(trial: TrialResult) -> str:
    count = len(trial.changes)
    return (
        "the baseline"
        if trial.number == BASELINE
        else f"{count} change{'s' * (count != 1)} from the baseline"
    )
