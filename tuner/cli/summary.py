"""A judged study as a person reads it: the front, the gain, the limits, what failed, what to do next."""

from __future__ import annotations

import math

from trials.contract import Outcome
from tuner.cli.text import shown_config, shown_interval, shown_number, styled, table
from tuner.comparison import Difference
from tuner.results import StudyResult, TrialResult
from tuner.results.model import BASELINE

_MOST_INFLUENCES = 5


def summary_of(result: StudyResult) -> str:
    """The whole summary."""
    parts = [
        _headline(result),
        _front(result),
        _recommended(result),
        _limits(result),
        _outcomes(result),
        _influences(result),
    ]
    return "\n\n".join(part for part in parts if part)


def _headline(result: StudyResult) -> str:
    confirmed = sum(trial.is_confirmed for trial in result.front_trials)
    counts = ", ".join(f"{n} {outcome}" for outcome, n in result.counts.items())
    what = f"front of {len(result.front)} ({confirmed} confirmed)" if result.front else "no trial meets the limits"
    return styled(f"{result.name}: {what} out of {len(result.trials)} trials ({counts})", "1")


def _front(result: StudyResult) -> str:
    if not result.front:
        return f"nearest miss: {result.nearest_miss}" if result.nearest_miss else ""
    main = result.objectives[0]
    members = sorted(result.front_trials, key=lambda trial: main.loss(trial.estimates[main.metric].value))
    rows = [_row(result, trial) for trial in members]
    if result.has_baseline and BASELINE not in result.front:
        rows.append(_row(result, result.baseline))
    metrics = [f"{o.metric} ({'higher' if o.direction.sign < 0 else 'lower'} is better)" for o in result.objectives]
    gains = [f"{o.metric} vs baseline" for o in result.objectives]
    return table(rows, ["trial", *metrics, *gains, "runs", "configuration"])


def _row(result: StudyResult, trial: TrialResult) -> list[str]:
    recommended = result.recommended is not None and result.recommended.trial == trial.number
    label = f"{trial.number}{' *' if recommended else ''}{' baseline' if trial.number == BASELINE else ''}"
    values = []
    for objective in result.objectives:
        estimate = trial.estimates.get(objective.metric)
        values.append(
            shown_interval(estimate.value, estimate.low, estimate.high) if estimate is not None else "not measured"
        )
    gains = [shown_gain(trial.gain.get(o.metric)) for o in result.objectives]
    first = next(iter(trial.estimates.values()), None)
    runs = f"{first.n_runs if first else 0}{'' if trial.is_confirmed or trial.number == BASELINE else ' unconfirmed'}"
    ties = f"  (tie with {', '.join(map(str, trial.is_tied_with))})" if trial.is_tied_with else ""
    return [label, *values, *gains, runs, shown_config(trial.config, _varying(result)) + ties]


def shown_gain(gain: Difference | None) -> str:
    """A gain over the baseline with its interval: ``x1.52 [1.49, 1.55]`` or a difference."""
    if gain is None:
        return ""
    mark = "x" if gain.is_ratio else ""
    text = f"{mark}{gain.value:.3g}" if gain.is_ratio else f"{gain.value:+.3g}"
    if gain.low is None or gain.high is None:
        return text
    text += f" [{gain.low:.3g}, {gain.high:.3g}]"
    return text if gain.is_beyond_noise else f"{text} within noise"


def _recommended(result: StudyResult) -> str:
    if result.recommended is None:
        return ""
    lines = [f"* recommended: trial {result.recommended.trial}, {result.recommended.reason}"]
    return "\n".join([*lines, *(f"  gives up: {line}" for line in result.recommended.gives_up)])


def _limits(result: StudyResult) -> str:
    lines = []
    for position, bound in enumerate(result.bounds):
        judged = [t.limits[position] for t in result.trials if len(t.limits) > position]
        broken = sum(limit.gap > 0 for limit in judged)
        lines.append(f"limit {bound} ({bound.formula}): {broken} of {len(judged)} trials break it")
    return "\n".join(lines)


def _outcomes(result: StudyResult) -> str:
    lines = []
    for kind, count in result.failures.items():
        first = next(t for t in result.trials if t.outcome is Outcome.FAILED and t.failure_kind == kind)
        message = (first.message.strip().splitlines() or ["(no message)"])[0]
        lines.append(f"{count} failed, {kind}: trial {first.number}: {message[:160]}\n  log: {first.log_dir}")
    lines += [f"{n} configurations were rejected by the rule: {rule}" for rule, n in result.record.rejected.items()]
    for pattern in result.failure_patterns:
        values = ", ".join(f"{name}={value}" for name, value in pattern.values.items())
        lines.append(f"fails often: {pattern.failed} of {pattern.n} trials with {values}")
    return "\n".join(lines)


def _influences(result: StudyResult) -> str:
    found = [i for i in result.influences if i.share >= 0.05]
    found.sort(key=lambda influence: -influence.share)
    lines = []
    for influence in found[:_MOST_INFLUENCES]:
        if influence.rank_correlation is not None and not math.isnan(influence.rank_correlation):
            detail = f"rank correlation {influence.rank_correlation:+.2f}"
        else:
            detail = ", ".join(f"{level.label}: {shown_number(level.mean)}" for level in influence.levels)
        lines.append(
            f"{influence.parameter} goes with {influence.share:.0%} of {influence.metric} "
            f"over {influence.n} trials ({detail})"
        )
    return "\n".join(["what mattered (a hint: a search does not try values evenly)", *lines]) if lines else ""


def _varying(result: StudyResult) -> list[str]:
    """The parameters that were not the same everywhere."""
    seen: dict[str, set[str]] = {}
    for trial in result.trials:
        for name, value in trial.config.items():
            seen.setdefault(name, set()).add(repr(value))
    total = len(result.trials)
    return [
        name
        for name, values in seen.items()
        if len(values) > 1 or sum(name in trial.config for trial in result.trials) < total
    ] or list(seen)
