"""Which point of the front to take, by a stated rule, with what it gives up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trials.metrics import Direction
from tuner.objectives import direction_of
from tuner.pareto import knee_order
from tuner.records.rows import StudyRecord
from tuner.results.left_out import left_out, trials_named
from tuner.results.model import BASELINE, Recommendation, StudyResult, TrialResult
from tuner.results.wording import against_baseline, number_text, share_text
from tuner.space.model import Selection

_SPANS_OF_NOISE = 3.0
"""An axis of the front shorter than so many standard deviations of a run is noise, not a trade-off."""
_MOST_NEAREST = 3


def recommend(result: StudyResult, selection: Selection | None = None) -> Recommendation | None:
    """The trial to take by ``selection`` (the study's own by default); None while the front is empty.

    Confirmed members go before unconfirmed ones, and members whose limits are surely met before undecided
    ones. A pick other than the baseline is surely better than it in some objective: where the rule's first
    is not, the next that is; where none is, the baseline. Where noise cannot tell the pick from a confirmed
    trial with fewer changes, the simpler one is taken. Ties end with the lower number, so that the same
    records give the same answer. ValueError where the rule names a metric whose better direction nobody
    knows.
    """
    selection = selection or selection_of(result.record)
    members = _preferred(result.front_trials)
    if not members:
        return None
    gainers = _gainers(result, result.trials)
    pick, reason = _pick(result, selection, members, gainers)
    chosen = _simplest(result, pick, gainers)
    if chosen is not pick:
        reason = (
            f"simpler ({_changes(chosen)}) than trial {pick.number} ({_changes(pick)}), and noise cannot tell "
            f"them apart; trial {pick.number}: {reason}"
        )
    return Recommendation(
        chosen.number,
        reason + _standing(result, chosen),
        _gives_up(result, chosen, members),
        left_out(result, members),
        _nearest(result, selection) if chosen.number == BASELINE else (),
    )


def selection_of(study: StudyRecord) -> Selection:
    """The rule noted with the study (``notes["selection"]``: rule, metric, within), or the knee."""
    raw: Mapping[str, Any] = study.notes.get("selection") or {}
    return Selection(raw.get("rule", "knee"), raw.get("metric"), dict(raw.get("within") or {}))


def _preferred(front: Sequence[TrialResult]) -> list[TrialResult]:
    confirmed = [trial for trial in front if trial.is_confirmed]
    sure = [trial for trial in confirmed if not trial.has_undecided_limit]
    return sure or confirmed or list(front)


def _gainers(result: StudyResult, trials: Sequence[TrialResult], among: int = 1) -> frozenset[int]:
    """Which of the trials may be taken instead of the baseline: surely better in some objective.

    All of them where no gain on the front has an interval, so that nothing could be sure. ``among`` so many
    gains looked at, as choosing among many would else find luck.
    """
    front = [trial for trial in result.front_trials if trial.number != BASELINE]
    if all(gain.low is None for trial in front for gain in trial.gain.values()):
        return frozenset(trial.number for trial in trials)
    return frozenset(
        trial.number
        for trial in trials
        for o in result.objectives
        if o.metric in trial.gain and trial.gain[o.metric].is_improvement(o, among)
    )


def _pick(
    result: StudyResult, selection: Selection, members: list[TrialResult], gainers: frozenset[int]
) -> tuple[TrialResult, str]:
    """The rule's first, if it is the baseline or gains; else the rule's next that gains, or the baseline."""
    ranked, reason = _ranked(result, selection, members)
    first = ranked[0]
    if first.number == BASELINE or first.number in gainers:
        return first, reason
    sure = _gainers(result, members, len(members) * len(result.objectives))
    if sure:
        ranked, reason = _ranked(result, selection, members, sure)
        is_not = f"trial {first.number}, first by this rule, is not surely better than the baseline"
        return ranked[0], f"{reason}; {is_not}"
    if result.has_baseline and result.baseline.may_be_on_front:
        among = _called(members, result.front_trials)
        return result.baseline, f"no {among} is surely better than the baseline"
    return first, reason


def _nearest(result: StudyResult, selection: Selection) -> tuple[int, ...]:
    """The first of the whole front by the rule, the baseline aside."""
    ranked, _ = _ranked(result, selection, list(result.front_trials))
    return tuple(trial.number for trial in ranked if trial.number != BASELINE)[:_MOST_NEAREST]


def _called(members: Sequence[TrialResult], front: Sequence[TrialResult]) -> str:
    """What the members are, as far as the front has others."""
    confirmed = sum(trial.is_confirmed for trial in front)
    words = "confirmed member of the front" if len(members) < len(front) else "member of the front"
    return words if len(members) in (confirmed, len(front)) else f"{words} that surely meets the limits"


def _ranked(
    result: StudyResult,
    selection: Selection,
    members: list[TrialResult],
    able: frozenset[int] | None = None,
) -> tuple[list[TrialResult], str]:
    """The members (those ``able``, by default all) by the rule, first the one to take, and why it."""
    if selection.rule in ("maximize", "minimize") and selection.metric is not None:
        measured = [trial for trial in members if selection.metric in trial.estimates]
        if measured:
            return _extreme(result, selection, measured, members, able)
        ranked, reason = _knee(result, members, able)
        return ranked, f"no member of the front has measured {selection.metric}, so the rule is: {reason}"
    first = result.objectives[0]
    if selection.rule == "first_objective" or len(result.objectives) == 1:
        ranked = sorted(_among(members, able), key=_by(first.metric, first.direction))
        return ranked, f"best {first.metric} of the trials that meet the limits"
    return _knee(result, members, able)


def _among(trials: Sequence[TrialResult], able: frozenset[int] | None) -> list[TrialResult]:
    return [trial for trial in trials if able is None or trial.number in able]


def _knee(
    result: StudyResult, members: list[TrialResult], able: frozenset[int] | None
) -> tuple[list[TrialResult], str]:
    resolution = [
        _SPANS_OF_NOISE * result.noise_floor.get(o.metric, 0.0) * abs(members[0].estimates[o.metric].value)
        for o in result.objectives
    ]
    scores = knee_order([member.point for member in members], resolution)
    pairs = sorted(zip(scores, members, strict=True), key=lambda pair: (pair[0], *_simplicity(pair[1])))
    ranked = _among([member for _, member in pairs], able)
    if len(members) == 1:
        return ranked, f"the only {_called(members, result.front_trials)}"
    among = trials_named(members)
    return ranked, f"knee of the front: nearest to the best of every objective at once, among {among}"


def _extreme(
    result: StudyResult,
    selection: Selection,
    measured: list[TrialResult],
    members: list[TrialResult],
    able: frozenset[int] | None,
) -> tuple[list[TrialResult], str]:
    """By the value of a metric, largest or smallest first, those near enough to the best of others."""
    metric, direction = str(selection.metric), Direction(selection.rule)
    near, words = _among(measured, able), []
    for other, distance in selection.within.items():
        way = direction_of(other, result.objectives, result.record.constraints)
        if way is None:
            raise ValueError(
                f"selection: within {other}: say which way it is better (make it an objective or a limit)"
            )
        losses = {t.number: way.sign * t.estimates[other].value for t in measured if other in t.estimates}
        best = min(losses.values(), default=0.0)
        near = [t for t in near if t.number in losses and losses[t.number] <= best + distance]
        words.append(f"{other} within {distance:g} of the best ({way.sign * best:.6g})")
    side = "largest" if direction is Direction.MAXIMIZE else "smallest"
    if not near:
        ranked, reason = _knee(result, members, able)
        condition = " and ".join(words) or f"measured {metric}"
        return ranked, f"no member of the front has {condition}, so the rule is: {reason}"
    among = f" among those with {' and '.join(words)}" if words else " of the front"
    return sorted(near, key=_by(metric, direction)), f"{side} {metric}{among}"


def _simplest(result: StudyResult, pick: TrialResult, gainers: frozenset[int]) -> TrialResult:
    """The pick, or a confirmed trial of the front, or the baseline, that is tied with it and changes less."""
    if not pick.is_confirmed:
        return pick
    tied = [result.trial(number) for number in pick.is_tied_with]
    able = [
        trial
        for trial in tied
        if trial.is_confirmed
        and ((trial.on_front and trial.number in gainers) or trial.number == BASELINE)
        and trial.has_undecided_limit <= pick.has_undecided_limit
        and len(trial.changes) < len(pick.changes)
    ]
    return min(able, key=_simplicity, default=pick)


def _standing(result: StudyResult, chosen: TrialResult) -> str:
    """What to know of the chosen trial beside the rule: against the baseline, and how often it was run."""
    text = ""
    if BASELINE in chosen.is_tied_with:
        text = "; not distinguishable from the baseline"
    elif against := against_baseline(chosen, result.objectives):
        text = f"; against the baseline {against}"
    runs = min(chosen.estimates[objective.metric].n_runs for objective in result.objectives)
    return text if chosen.is_confirmed or runs > 1 else f"{text} (not confirmed: single runs only)"


def _gives_up(result: StudyResult, chosen: TrialResult, members: Sequence[TrialResult]) -> tuple[str, ...]:
    lines = []
    for objective in result.objectives:
        best = min(members, key=_by(objective.metric, objective.direction))
        ours, theirs = chosen.estimates[objective.metric], best.estimates[objective.metric]
        if objective.loss(ours.value) > objective.loss(theirs.value):
            unit = f" {ours.unit}" if ours.unit not in ("", "1") else ""
            lines.append(
                f"{objective.metric} {number_text(ours.value)}{unit} instead of {number_text(theirs.value)} "
                f"(trial {best.number}){_by_how_much(ours.value, theirs.value)}"
            )
    return tuple(lines)


def _by_how_much(ours: float, theirs: float) -> str:
    if not theirs:
        return ""
    return f", {share_text(abs(ours / theirs - 1))} {'lower' if ours < theirs else 'higher'}"


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
