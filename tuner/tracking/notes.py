"""The description that MLflow shows on a run's page, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.comparison import Difference, Estimate
from tuner.results import StudyResult, TrialResult

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")


def study_note(result: StudyResult) -> str:
    """The recommendation and the front as a table."""
    lines = [_headline(result), ""]
    if result.front:
        metrics = [objective.metric for objective in result.objectives]
        lines += [
            _row(["trial", "changes from the baseline", *metrics, "confirmed"]),
            _row(["---"] * (len(metrics) + 3)),
        ]
        lines += [_member(trial, metrics) for trial in result.front_trials]
    lines += ["", f"Stopped: {_plain(result.record.stopped_because or 'still running')}"]
    lines += ["", "The interactive front is under Artifacts, `pareto_front.html`."]
    return "\n".join(lines)


def trial_note(trial: TrialResult) -> str:
    """Why a trial failed, and how to run it again by itself."""
    lines = []
    if trial.message:
        lines.append(f"**{trial.failure_kind or trial.outcome}**: {_plain(trial.message)}")
    if trial.log_dir:
        lines.append(f"Run it again by itself: `python -m trials {trial.log_dir}/spec.json`")
    return "\n\n".join(lines)


def _headline(result: StudyResult) -> str:
    found = result.recommended
    if found is None:
        miss = f" Nearest: {_plain(str(result.nearest_miss))}." if result.nearest_miss else ""
        return f"**No trial meets every limit.**{miss}"
    gains = result.trial(found.trial).gain
    words = ", ".join(f"{_plain(metric)} {_gain(gain)}" for metric, gain in gains.items())
    against = f" Against the baseline: {words}." if words else ""
    return f"**Recommended: trial {found.trial}** ({_plain(found.reason)}).{against}"


def _member(trial: TrialResult, metrics: Sequence[str]) -> str:
    changed = ", ".join(f"{name}={trial.config[name]}" for name in trial.changes if name in trial.config)
    cells = [str(trial.number), changed or "baseline", *(_value(trial.estimates.get(key)) for key in metrics)]
    return _row([*map(_plain, cells), "yes" if trial.is_confirmed else "no"])


def _gain(gain: Difference) -> str:
    form = "{:.3g}x" if gain.is_ratio else "{:+.3g}"
    if gain.low is None or gain.high is None:
        return form.format(gain.value)
    return f"{form.format(gain.value)} ({form.format(gain.low)} to {form.format(gain.high)})"


def _value(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    half = (
        ""
        if estimate.low is None or estimate.high is None
        else f" ± {(estimate.high - estimate.low) / 2:.2g}"
    )
    return f"{estimate.value:.5g}{half} {estimate.unit if estimate.unit != '1' else ''}".strip()


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line: a configuration may hold anything."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
