"""The report page of a study: what to use, what it gains, what failed and why, how to repeat it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboards.pages import page
from dashboards.plots import front_png
from trials.contract import LOG_FILE, Outcome
from tuner.comparison import Difference
from tuner.records.rows import StudyRecord
from tuner.results import StudyResult, TrialResult
from tuner.results.wording import (
    advice,
    changes_text,
    estimate_text,
    gain_text,
    limit_words,
    limited,
    nearest_lines,
    number_text,
    value_text,
)

_LOG_LINES = 6
_LOG_BYTES = 65_536
_MOST_INFLUENCES = 8


@dataclass(frozen=True)
class FailureGroup:
    """The failures of one kind: which trials, and how the first one's log begins to complain."""

    kind: str
    trials: tuple[TrialResult, ...]
    log_lines: str


def report_html(record: StudyRecord, result: StudyResult, png: bytes | None = None) -> str:
    """One self-contained page; every text of the user's is escaped, no address outside the page is used.

    ``png`` is the picture of the front, where it is drawn already.
    """
    best = result.trial(result.recommended.trial) if result.recommended else None
    picture = base64.b64encode(png or front_png(result)).decode()
    return page(
        "report.html",
        record=record,
        result=result,
        best=best,
        changes=[(name, _old(name, result), value_text(best.config.get(name))) for name in best.changes]
        if best
        else [],
        gains=[(metric, gain_text(gain), verdict(gain, metric, result)) for metric, gain in best.gain.items()]
        if best
        else [],
        front=result.front_trials,
        failures=failure_groups(result),
        influences=result.influences[:_MOST_INFLUENCES],
        environment={name: _plain(value) for name, value in environment_of(record).items()},
        picture=f"data:image/png;base64,{picture}",
        advice=advice(result),
        nearest=nearest_lines(result),
        limited=limited(result),
        status_of=limit_words,
        label_of=changes_text,
        value_of=estimate_text,
        gain_of=gain_text,
        table=result.failure_table,
        number=number_text,
    )


def verdict(gain: Difference, metric: str, result: StudyResult) -> str:
    """``better``, ``worse``, or ``within the noise``: by the interval, and the objective's direction."""
    if not gain.is_beyond_noise:
        return "within the noise"
    objective = next(o for o in result.objectives if o.metric == metric)
    neutral = 1.0 if gain.is_ratio else 0.0
    return "better" if objective.loss(gain.value) < objective.loss(neutral) else "worse"


def failure_groups(result: StudyResult) -> list[FailureGroup]:
    """Failures by kind, the most frequent first."""
    by_kind: dict[str, list[TrialResult]] = {}
    for trial in result.trials:
        if trial.outcome is Outcome.FAILED:
            by_kind.setdefault(str(trial.failure_kind or "failed"), []).append(trial)
    groups = [FailureGroup(kind, tuple(trials), first_lines(trials[0])) for kind, trials in by_kind.items()]
    return sorted(groups, key=lambda group: -len(group.trials))


def first_lines(trial: TrialResult) -> str:
    """The last lines of a failed trial's log, where the reason stands; its message where the log is gone."""
    path = Path(trial.log_dir) / LOG_FILE
    if not trial.log_dir or not path.is_file():
        return trial.message
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _LOG_BYTES))
        lines = stream.read().decode(errors="replace").rstrip().splitlines()
    return "\n".join(line[:300] for line in lines[-_LOG_LINES:]) or trial.message


def environment_of(record: StudyRecord) -> Mapping[str, Any]:
    """The fingerprint of machine and libraries of the last run that has one."""
    runs = [run for trial in record.trials for run in trial.measurements if run.environment]
    return runs[-1].environment if runs else {}


def _plain(value: Any) -> str:
    """A list as its words, true and null as everywhere else."""
    return ", ".join(map(value_text, value)) if isinstance(value, list | tuple) else value_text(value, 200)


def _old(name: str, result: StudyResult) -> str:
    baseline = result.baseline.config if result.has_baseline else {}
    return value_text(baseline[name]) if name in baseline else "not set"
