"""A judged study as a person reads it: the front, the gain, the limits, what failed, what mattered."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path

from trials.contract import FailureKind, Outcome
from tuner.cli.front import front_table
from tuner.cli.table import fitted, terminal_width
from tuner.cli.text import first_line, plural, shown_duration, shown_number, styled
from tuner.comparison import LimitStatus
from tuner.results import StudyResult
from tuner.results.judging import NOT_MEASURED
from tuner.results.model import BASELINE
from tuner.results.patterns import Influence
from tuner.results.wording import advice, nearest_lines, share_text

UNFINISHED = "unfinished"
_MOST_INFLUENCES = 5
_MOST_LEVELS = 4
_LEAST_SHARE = 0.05


def summary_of(result: StudyResult) -> str:
    """The whole summary."""
    parts = [
        styled(headline(result), "1"),
        _nearest_miss(result),
        front_table(result),
        _recommended(result),
        _unconfirmed(result),
        _limits(result),
        _outcomes(result),
        _influences(result),
    ]
    return "\n\n".join(_fitted(part) for part in parts if part)


def _fitted(part: str) -> str:
    width = terminal_width()
    return "\n".join(line if "\x1b" in line else fitted(line, width, indent=4) for line in part.splitlines())


def headline(result: StudyResult) -> str:
    """How many trials, how they ended, how large the front is."""
    if not result.trials:
        return f"{result.name}: nothing is measured yet"
    counts = ", ".join(f"{n} {word}" for word, n in _counts(result).items())
    among = f"{plural(len(result.trials), 'trial')} ({counts})"
    if result.front and len(result.objectives) == 1:
        objective = result.objectives[0]
        return f"{result.name}: the {_way(objective.direction.sign)} {objective.metric} of {among}"
    if result.front:
        confirmed = sum(trial.is_confirmed for trial in result.front_trials)
        return f"{result.name}: Pareto front of {len(result.front)} ({confirmed} confirmed) out of {among}"
    if result.nearest_miss is not None:
        return f"{result.name}: none of {among} meets the limits"
    return f"{result.name}: nothing to recommend yet, {among}"


def _counts(result: StudyResult) -> dict[str, int]:
    """Trials by outcome; one that was cut short has not failed, it runs again when the study goes on."""
    cut = result.failures.get(FailureKind.INTERRUPTED, 0)
    words = {NOT_MEASURED: UNFINISHED}  # whether it runs is another matter: its run may have been killed
    counts = {words.get(str(outcome), str(outcome)): n for outcome, n in result.counts.items()}
    counts["failed"] = counts.get("failed", 0) - cut
    return {word: n for word, n in {**counts, "interrupted": cut}.items() if n}


def _way(sign: float) -> str:
    return "highest" if sign < 0 else "lowest"


def _nearest_miss(result: StudyResult) -> str:
    miss = result.nearest_miss
    if miss is None:
        return ""
    bound, gap = miss.limit.bound, miss.limit.gap
    by = f", by {shown_number(gap)}" if math.isfinite(gap) else ""
    share = f" ({share_text(gap / abs(bound.value))} of the limit)" if by and bound.value else ""
    return f"nearest miss: {miss}{by}{share}"


def _recommended(result: StudyResult) -> str:
    if result.recommended is None:
        return ""
    found = result.recommended
    kept = f" ({advice(result)})" if found.trial == BASELINE and len(result.trials) > 1 else ""
    lines = [f"* recommended: trial {found.trial}{kept}, {found.reason}"]
    lines += [f"  gives up: {line}" for line in found.gives_up]
    lines += [f"  nearest: {near}" for near in nearest_lines(result)]
    return "\n".join([*lines, *(f"  {line}" for line in found.left_out)])


def _unconfirmed(result: StudyResult) -> str:
    """Which members of the front were not measured again, why, and the command that does it."""
    record = result.record
    open_ones = [t.number for t in result.front_trials if not t.is_confirmed and t.number != BASELINE]
    finalists = record.notes.get("finalists")
    if not open_ones or finalists is None or record.stopped_because is None:
        return ""
    why = f"not among the {plural(finalists, 'finalist')}" if finalists else "confirm.finalists is 0"
    named = f"trial{'s' * (len(open_ones) > 1)} {', '.join(map(str, open_ones))}"
    return f"not confirmed: {named} ({why}); confirm all of the front with: {confirming(result)}"


def confirming(result: StudyResult) -> str:
    """The command that measures every member of the front again."""
    all_of_them = sum(number != BASELINE for number in result.front)
    return f"tuner run {shlex.quote(_near(result.record.file_path))} --set confirm.finalists={all_of_them}"


def _near(path: str) -> str:
    """The path as seen from here, where it lies below."""
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here)


def _limits(result: StudyResult) -> str:
    lines = []
    for position, bound in enumerate(result.bounds):
        judged = [t.limits[position] for t in result.trials if len(t.limits) > position]
        formula = "" if "baseline" not in bound.formula else f" ({bound.formula.split(' ', 2)[2]})"
        broken = sum(limit.gap > 0 for limit in judged)
        undecided = sum(limit.status is LimitStatus.UNDECIDED for limit in judged)
        text = (
            f"{broken} of {plural(len(judged), 'measured trial')} {'breaks' if broken == 1 else 'break'} it"
        )
        lines.append(
            f"limit {bound}{formula}: {text}" + (f", {undecided} within noise of it" if undecided else "")
        )
    return "\n".join(lines)


def _outcomes(result: StudyResult) -> str:
    lines = []
    for kind, count in result.failures.items():
        if kind == FailureKind.INTERRUPTED:
            continue
        first = next(t for t in result.trials if t.outcome is Outcome.FAILED and t.failure_kind == kind)
        lines.append(f"{count} failed, {kind}: trial {first.number}: {first_line(first.message)}")
        lines.append(f"  log: {first.log_dir}")
    lines += _cut_short(result)
    lines += [
        f"{plural(n, 'configuration')} rejected by the rule: {rule}"
        for rule, n in result.record.rejected.items()
    ]
    for pattern in result.failure_patterns:
        values = " and ".join(f"{name}={value}" for name, value in pattern.values.items())
        lines.append(f"fails often: {values} ({pattern.failed} of {pattern.n} trials)")
    return "\n".join([*lines, *(f"note: {remark}" for remark in result.warnings)])


def _cut_short(result: StudyResult) -> list[str]:
    cut = result.cut_short
    if not cut.trials:
        return []
    saved = ""
    if cut.whole_s is not None:
        saved = (
            f", about {shown_duration(cut.saved_s)} saved (a whole trial takes {shown_duration(cut.whole_s)})"
        )
    first = next(trial for trial in result.trials if trial.outcome is Outcome.PRUNED)
    return [
        f"{plural(cut.trials, 'trial')} cut short{saved}: they could not reach the front any more; "
        f"the first was trial {first.number}: {first_line(first.message)}"
    ]


def _influences(result: StudyResult) -> str:
    found = [influence for influence in result.influences if influence.share >= _LEAST_SHARE]
    found.sort(key=lambda influence: -influence.share)
    if not found:
        return ""
    lines = [f"  {_influence(influence)}" for influence in found[:_MOST_INFLUENCES]]
    return "\n".join(["what mattered (a hint: a search does not try values evenly)", *lines])


def _influence(influence: Influence) -> str:
    text = f"{influence.parameter}: {influence.share:.0%} of the variation of {influence.metric}"
    rho = influence.rank_correlation
    if rho is not None and not math.isnan(rho):
        return f"{text} ({'rises' if rho > 0 else 'falls'} with it, rank correlation {rho:+.2f})"
    levels = [f"{level.label}: {shown_number(level.mean)}" for level in influence.levels]
    if len(levels) > _MOST_LEVELS:
        levels = [*levels[:2], "...", *levels[-2:]]
    return f"{text} ({', '.join(levels)})"
