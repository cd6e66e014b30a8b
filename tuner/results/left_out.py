"""Why a trial that was nearly chosen was no candidate for the recommendation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tuner.objectives import Bound
from tuner.results.model import BASELINE, LimitResult, StudyResult, TrialResult
from tuner.results.wording import number_text

_MOST_NAMED = 6


def left_out(result: StudyResult, candidates: Sequence[TrialResult]) -> tuple[str, ...]:
    """One line a reason: members of the front that are not confirmed or whose limit is undecided, and trials
    that were confirmed and then broke a limit.
    """
    chosen = {trial.number for trial in candidates}
    others = [trial for trial in result.front_trials if trial.number not in chosen]
    fallen = [t for t in result.trials if t.is_confirmed and t.is_feasible is False and t.number != BASELINE]
    unconfirmed = [trial for trial in others if not trial.is_confirmed]
    confirmed = [trial for trial in others if trial.is_confirmed]
    lines = [
        *_by_limit(confirmed, lambda t: t.undecided_limits, result, "limit undecided"),
        *_by_limit(fallen, _broken, result, "breaks the limit when confirmed"),
    ]
    if unconfirmed:
        lines.append(f"{trials_named(unconfirmed)} left out: not confirmed")
    return tuple(lines)


def limit_text(bound: Bound, values: Sequence[float | None]) -> str:
    """``accuracy 0.601 against >= 0.608``; several values of one metric side by side."""
    shown = ", ".join("not measured" if value is None else number_text(value, 4) for value in values)
    return f"{bound.metric} {shown} against {'<=' if bound.is_upper else '>='} {number_text(bound.value, 4)}"


def _broken(trial: TrialResult) -> tuple[LimitResult, ...]:
    return tuple(limit for limit in trial.limits if limit.gap > 0)


def _by_limit(
    trials: Sequence[TrialResult],
    limits_of: Callable[[TrialResult], Sequence[LimitResult]],
    result: StudyResult,
    what: str,
) -> Iterator[str]:
    """A line for each limit that keeps some of the trials out."""
    for bound in result.bounds:
        kept = [(trial, limit) for trial in trials for limit in limits_of(trial) if limit.bound == bound]
        if kept:
            values = [limit.value for _, limit in kept[:_MOST_NAMED]]
            named = trials_named([trial for trial, _ in kept])
            yield f"{named} left out: {what} ({limit_text(bound, values)})"


def trials_named(trials: Sequence[TrialResult]) -> str:
    """``trial 4``, ``trials 2, 4, 7``; a long list is cut."""
    numbers = [str(trial.number) for trial in trials]
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"trial{'s' * (len(numbers) > 1)} {', '.join(numbers[:_MOST_NAMED])}{more}"
