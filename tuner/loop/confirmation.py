"""Which interleaved rounds are due: finalists and the baseline are measured again, A B C A B C.

A function of what is recorded, so that a study that was cut goes on in the middle of a confirmation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trials.contract import Outcome, Purpose
from tuner.loop.recall import missing_repeats, settled
from tuner.loop.rounds_needed import EXTRA_ROUNDS, MOST_CONFIRMED
from tuner.records.rows import MeasurementRecord
from tuner.results import StudyResult, TrialResult, contenders, finalists
from tuner.results.model import BASELINE
from tuner.space.model import ConfirmSettings


@dataclass(frozen=True)
class Round:
    """One run of each of ``numbers`` in turn, the baseline first, all with the ``repeat``-th seed."""

    repeat: int
    numbers: tuple[int, ...]


def due_rounds(result: StudyResult, settings: ConfirmSettings, seed: int, room: float) -> list[Round]:
    """The rounds to run next; empty when everything is confirmed that should be.

    ``room`` is how many measurements the time left allows: rather fewer finalists confirmed than many begun.
    """
    if not settings.finalists:
        return []
    lacking = {
        trial.number: missing_repeats(_confirmations(trial), settings.repeats, seed)
        for trial in _to_confirm(result, settings, room)
    }
    planned = [
        _round(repeat, [n for n, r in lacking.items() if repeat in r]) for repeat in range(settings.repeats)
    ]
    return [one for one in planned if one.numbers] or _extra_round(result, settings)


def rounds_text(result: StudyResult, due: Sequence[Round], settings: ConfirmSettings) -> str:
    """Who runs in the rounds that are due, how many they are, and why, where some were run before."""
    numbers = sorted({number for one in due for number in one.numbers} - {BASELINE})
    who = f"trial{'s' * (len(numbers) > 1)} {_listed(numbers)} and the baseline"
    text = f"{who}, {len(due)} interleaved round{'s' * (len(due) > 1)}"
    if due[0].repeat >= settings.repeats:
        return f"{text} more: a limit is still undecided"
    begun = [t for t in result.trials if t.number != BASELINE and _confirmations(t)]
    holding = {trial.number for trial in contenders(result)}
    fallen = [trial.number for trial in begun if trial.number not in holding or _has_failed(trial)]
    if fallen and not all(_confirmations(result.trial(number)) for number in numbers):
        return f"{text}: in place of {_listed(fallen)}, which did not hold when measured again"
    return text


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _to_confirm(result: StudyResult, settings: ConfirmSettings, room: float) -> list[TrialResult]:
    """What was begun and still holds, then new finalists."""
    begun = [trial for trial in result.trials if trial.number != BASELINE and _confirmations(trial)]
    holding = {trial.number for trial in contenders(result)}
    members = [trial for trial in begun if trial.number in holding and not _has_failed(trial)]
    may_begin = MOST_CONFIRMED * settings.finalists - len(begun)
    affordable = max(1.0, room / settings.repeats - 1 - len(members))
    wanted = finalists(result, settings.finalists)
    new = [result.trial(number) for number in wanted if number not in {t.number for t in begun}]
    return [*members, *new[: max(0, int(min(may_begin, affordable)))]]


def _extra_round(result: StudyResult, settings: ConfirmSettings) -> list[Round]:
    """One more round for confirmed members of the front with a limit that the rounds so far leave open."""
    undecided = [
        trial
        for trial in result.front_trials
        if trial.number != BASELINE
        and trial.is_confirmed
        and trial.has_undecided_limit
        and not _has_failed(trial)
        and len(_confirmations(trial)) < settings.repeats + EXTRA_ROUNDS
    ]
    if not undecided:
        return []
    repeat = min(len(_confirmations(trial)) for trial in undecided)
    return [_round(repeat, [t.number for t in undecided if len(_confirmations(t)) == repeat])]


def _round(repeat: int, numbers: Sequence[int]) -> Round:
    return Round(repeat, (BASELINE, *numbers) if numbers else ())


def _confirmations(trial: TrialResult) -> list[MeasurementRecord]:
    return [run for run in settled(trial.measurements) if run.purpose is Purpose.CONFIRM]


def _has_failed(trial: TrialResult) -> bool:
    return any(run.outcome is Outcome.FAILED for run in _confirmations(trial))
