"""``tuner show STUDY --all``: every trial in one table, in the order in which they were begun."""

from __future__ import annotations

from tuner.cli.front import value_cells, value_header
from tuner.cli.table import table, terminal_width
from tuner.cli.text import shown_trial
from tuner.results import StudyResult, TrialResult


def all_trials_table(result: StudyResult) -> str:
    """Number, how it ended, the columns of the front's table, and what differs from the baseline."""
    if not result.trials:
        return f"{result.name}: nothing is measured yet"
    first, *values = value_header(result)
    header = [first, "outcome", *values, "runs", "configuration"]
    return table([_row(result, trial) for trial in result.trials], header, terminal_width())


def _row(result: StudyResult, trial: TrialResult) -> list[str]:
    label, *values = value_cells(result, trial)
    baseline = result.baseline.config if result.has_baseline else {}
    config = shown_trial(trial.config, baseline, list(dict.fromkeys((*baseline, *trial.config))))
    runs = str(sum(run.outcome is not None and not run.is_discarded for run in trial.measurements))
    return [label, _outcome(trial), *values, runs, config]


def _outcome(trial: TrialResult) -> str:
    """``front, confirmed``, ``breaks a limit``, ``failed (timeout)``."""
    if trial.outcome is None:
        return "not measured"
    if trial.on_front:
        return f"front, {'confirmed' if trial.is_confirmed else 'not confirmed'}"
    if trial.is_feasible is False:
        return "breaks a limit"
    return f"{trial.outcome}{f' ({trial.failure_kind})' if trial.failure_kind else ''}"
