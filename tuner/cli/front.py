"""The table of a study's front, with the baseline to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.cli.table import table, table_width, terminal_width
from tuner.cli.text import shown_config, shown_measure, shown_number, shown_ratio
from tuner.comparison import Difference, LimitStatus
from tuner.results import StudyResult, TrialResult
from tuner.results.model import BASELINE
from tuner.results.wording import STATUS_WORDS, limit_words, limited

_BEST_OF_ONE = 5
"""Rows of a study with one objective: its front has one member, and the next best are of interest."""


def front_table(result: StudyResult) -> str:
    """The front, best in the first objective first, then the baseline; without a front the baseline alone."""
    members = _members(result)
    if result.has_baseline and result.baseline not in members and result.baseline.losses is not None:
        members.append(result.baseline)
    return trial_table(result, members)


def trial_table(result: StudyResult, trials: Sequence[TrialResult]) -> str:
    """A row for each of these trials: values, gain over the baseline, runs, configuration."""
    if not trials:
        return ""
    names, width = varying(result), terminal_width()
    rows, header = [_row(result, trial, names) for trial in trials], _header(result)
    if width is not None and table_width([row[:-1] for row in rows], header[:-1]) > width:
        rows = [_short_row(result, trial, names) for trial in trials]
        header = [*value_header(result), "configuration"]
    return table(rows, header, width)


def _header(result: StudyResult) -> list[str]:
    gains = [f"{objective.metric} vs baseline" for objective in result.objectives]
    first, *values = value_header(result)
    count = len(result.objectives)
    return [first, *values[:count], *gains, *values[count:], "runs", "configuration"]


def value_header(result: StudyResult) -> list[str]:
    """The head of ``value_cells``."""
    goals = [f"{str(o.direction)[:3]} {o.metric}" for o in result.objectives]
    return ["trial", *goals, *(_limits_on(result, metric) for metric in limited(result))]


def _limits_on(result: StudyResult, metric: str) -> str:
    """``accuracy >= 0.61``"""
    bounds = [bound for bound in result.bounds if bound.metric == metric]
    signs = (f"{'<=' if bound.is_upper else '>='} {shown_number(bound.value)}" for bound in bounds)
    return f"{metric} {', '.join(signs)}"


def _members(result: StudyResult) -> list[TrialResult]:
    main = result.objectives[0]
    members = list(result.front_trials)
    if len(result.objectives) == 1:
        members += [trial for trial in result.trials if trial.may_be_on_front and not trial.on_front]
    members.sort(key=lambda trial: (not trial.on_front, main.loss(trial.estimates[main.metric].value)))
    return members[: max(_BEST_OF_ONE, len(result.front))]


def _row(result: StudyResult, trial: TrialResult, names: list[str]) -> list[str]:
    gains = [shown_gain(trial.gain.get(objective.metric)) for objective in result.objectives]
    label, *values = value_cells(result, trial)
    count = len(result.objectives)
    return [label, *values[:count], *gains, *values[count:], _runs(trial), _config(trial, names)]


def _short_row(result: StudyResult, trial: TrialResult, names: list[str]) -> list[str]:
    """For a narrow terminal: the gain without its interval beside the value."""
    label, *values = value_cells(result, trial)
    gains = [trial.gain.get(objective.metric) for objective in result.objectives]
    short = [
        f"{value} {shown_gain(replace(gain, low=None, high=None))}" if gain is not None else value
        for value, gain in zip(values, gains, strict=False)
    ]
    return [label, *short, *values[len(short) :], _config(trial, names)]


def value_cells(result: StudyResult, trial: TrialResult) -> list[str]:
    """Number, values of the objectives and of what else is limited."""
    recommended = result.recommended is not None and result.recommended.trial == trial.number
    label = f"{trial.number:>3}{' *' if recommended else ''}{' baseline' if trial.number == BASELINE else ''}"
    return [
        label,
        *(_value(trial, o.metric, says_met=False) for o in result.objectives),
        *(_value(trial, metric, says_met=True) for metric in limited(result)),
    ]


def _config(trial: TrialResult, names: list[str]) -> str:
    ties = f"  (tie with {', '.join(map(str, trial.is_tied_with))})" if trial.is_tied_with else ""
    return shown_config(trial.config, names) + ties


def _value(trial: TrialResult, metric: str, *, says_met: bool) -> str:
    """The value with its interval, and how its limit stands."""
    estimate = trial.estimates.get(metric)
    text = "-" if estimate is None else shown_measure(estimate.value, estimate.low, estimate.high)
    word = limit_words(trial, metric)
    return f"{text} {word}".rstrip() if says_met or word != STATUS_WORDS[LimitStatus.MET] else text


def _runs(trial: TrialResult) -> str:
    first = next(iter(trial.estimates.values()), None)
    doubt = "" if trial.is_confirmed or trial.number == BASELINE else " unconfirmed"
    return f"{first.n_runs if first else 0}{doubt}"


def shown_gain(gain: Difference | None) -> str:
    """A gain over the baseline with its interval: ``x1.52 (1.49 to 1.55)``, or ``+0.1 ± 0.02``."""
    if gain is None:
        return ""
    if gain.is_ratio:
        text = shown_ratio(gain.value, gain.low, gain.high)
    else:
        text = f"{'+' if gain.value >= 0 else ''}{shown_measure(gain.value, gain.low, gain.high)}"
    return text if gain.low is None or gain.is_beyond_noise else f"{text} noise"


def varying(result: StudyResult) -> list[str]:
    """The parameters that were not the same everywhere; all of them where none varied."""
    seen: dict[str, set[str]] = {}
    for trial in result.trials:
        for name, value in trial.config.items():
            seen.setdefault(name, set()).add(repr(value))
    total = len(result.trials)
    inactive = {name for name in seen if sum(name in trial.config for trial in result.trials) < total}
    return [name for name, values in seen.items() if len(values) > 1 or name in inactive] or list(seen)
