"""The description that MLflow shows on a run's page, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.results import StudyResult, TrialResult
from tuner.results.wording import advice, estimate_text, nearest_lines, value_text

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
        return f"**No trial {'meets every limit' if result.trials else 'has been run yet'}.**{miss}"
    what = advice(result)
    near = "".join(f" Nearest: {_plain(line)}." for line in nearest_lines(result))
    return f"**{_plain(what[:1].upper() + what[1:])}** ({_plain(found.reason)}).{near}"


def _member(trial: TrialResult, metrics: Sequence[str]) -> str:
    changed = ", ".join(
        f"{name}={value_text(trial.config[name])}" for name in trial.changes if name in trial.config
    )
    cells = [
        str(trial.number),
        changed or "baseline",
        *(estimate_text(trial.estimates.get(key)) for key in metrics),
    ]
    doubt = ", limit undecided" if trial.has_undecided_limit else ""
    return _row([*map(_plain, cells), f"{'yes' if trial.is_confirmed else 'no'}{doubt}"])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line: a configuration may hold anything."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
