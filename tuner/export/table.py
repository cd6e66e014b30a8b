"""Every trial of a study as CSV: one row each, failed ones too; a column for each parameter and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from tuner.results import StudyResult, TrialResult
from tuner.space.yaml_source import scalar_text

_FACTS = (
    "number", "outcome", "failure_kind", "message", "proposed_by", "is_feasible", "is_confirmed", "on_front",
)  # fmt: skip


def render_csv(result: StudyResult) -> str:
    """The table with its header.

    Parameters are ``config.NAME``, empty where inactive; their values read back as YAML 1.2 scalars, so that
    1, 1.0, true and "1" stay apart. A metric is three columns: ``KEY``, ``KEY_low``, ``KEY_high``.
    """
    names = _distinct(name for trial in result.trials for name in trial.config)
    metrics = _distinct(key for trial in result.trials for key in trial.estimates)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = [f"{key}{end}" for key in metrics for end in ("", "_low", "_high")]
    writer.writerow([*_FACTS, *(f"config.{name}" for name in names), *ends])
    for trial in result.trials:
        writer.writerow([*_facts(trial), *_config(trial, names), *_values(trial, metrics)])
    return text.getvalue()


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _facts(trial: TrialResult) -> list[str]:
    return [_cell(getattr(trial, fact)) for fact in _FACTS]


def _config(trial: TrialResult, names: list[str]) -> list[str]:
    return [scalar_text(trial.config[name]) if name in trial.config else "" for name in names]


def _values(trial: TrialResult, metrics: list[str]) -> list[str]:
    estimates = [trial.estimates.get(key) for key in metrics]
    return [
        "" if estimate is None else _cell(getattr(estimate, end))
        for estimate in estimates
        for end in ("value", "low", "high")
    ]


def _cell(value: Any) -> str:
    """The first line of a text, without what could play with a terminal."""
    if value is None:
        return ""
    if isinstance(value, str):
        return "".join(char for char in next(iter(value.splitlines()), "") if char.isprintable())
    return scalar_text(value)
