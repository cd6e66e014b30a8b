"""``tuner show STUDY --why N``: why a trial was proposed, what was expected of it, and what came."""

from __future__ import annotations

from typing import Any

from trials.contract import Outcome
from tuner.cli.table import table, terminal_width
from tuner.cli.text import first_line, shown_config, shown_measure
from tuner.records.rows import Forecast, TrialRecord
from tuner.results import StudyResult, TrialResult
from tuner.results.plain import json_safe, plain_estimate

_PHRASES = {
    "baseline": "your own configuration, to compare everything with",
    "try_first": "you asked for it (try_first)",
    "user": "you asked for it (tuner try)",
    "random": "by chance",
    "grid": "next in the order of the file",
    "spread": "explore: far from everything measured before, while there was too little for a model",
    "explore": "explore: the model is unsure there, and it may be better than the front",
    "exploit": "exploit: the model expects it to be better than the front",
    "model": "the largest gain that the model expects",
    "neighbour of the baseline": "neighbour: one change away from your own configuration",
    "exhaustive": "everything that is left fits the budget",
}


def why_plain(result: StudyResult, number: int) -> dict[str, Any]:
    """The answer as plain values; keys are public API. KeyError for a trial that is not there."""
    trial, record = result.trial(number), _record(result, number)
    plain = {
        "schema_version": 1,
        "study": result.name,
        "trial": number,
        "proposed_by": trial.proposed_by,
        "why": reason_text(trial),
        "outcome": None if trial.outcome is None else str(trial.outcome),
        "message": trial.message,
        "is_feasible": trial.is_feasible,
        "probability_ok": record.forecast.probability_ok if record.forecast else None,
        "objectives": [_objective(o.metric, trial, record.forecast) for o in result.objectives],
    }
    safe: dict[str, Any] = json_safe(plain)
    return safe


def why_text(result: StudyResult, number: int) -> str:
    """The answer for a person."""
    trial, forecast = result.trial(number), _record(result, number).forecast
    lines = [
        f"trial {number}: {shown_config(trial.config, list(trial.config))}",
        f"proposed: {reason_text(trial)}",
    ]
    if forecast is None:
        lines.append("no model expected anything of it")
    else:
        rows = [_row(o.metric, trial, forecast) for o in result.objectives]
        lines += ["", table(rows, ["metric", "expected of one run", "came", "verdict"], terminal_width()), ""]
        if forecast.probability_ok is not None:
            lines.append(f"expected to run and to meet the limits: {forecast.probability_ok:.0%}")
    lines.append(f"what came: {_ending(trial)}")
    return "\n".join(lines)


def reason_text(trial: TrialResult) -> str:
    """Why it was proposed, and when it was measured again."""
    reason = _PHRASES.get(trial.proposed_by, trial.proposed_by)
    confirmed = sum(run.purpose == "confirm" for run in trial.measurements)
    if confirmed:
        reason += f"; confirm: measured {confirmed} times more, as a finalist or beside them"
    return reason


def _record(result: StudyResult, number: int) -> TrialRecord:
    return next(trial for trial in result.record.trials if trial.number == number)


def _objective(metric: str, trial: TrialResult, forecast: Forecast | None) -> dict[str, Any]:
    expected = forecast.expected.get(metric) if forecast else None
    came = trial.estimates.get(metric)
    return {
        "metric": metric,
        "expected": None if expected is None else dict(zip(("value", "low", "high"), expected, strict=True)),
        "came": None if came is None else plain_estimate(came),
        "verdict": _verdict(metric, trial, forecast),
    }


def _row(metric: str, trial: TrialResult, forecast: Forecast) -> list[str]:
    expected, came = forecast.expected.get(metric), trial.estimates.get(metric)
    return [
        metric,
        "-" if expected is None else shown_measure(*expected),
        "-" if came is None else shown_measure(came.value, came.low, came.high),
        _verdict(metric, trial, forecast) or "",
    ]


def _verdict(metric: str, trial: TrialResult, forecast: Forecast | None) -> str | None:
    """Whether the value lies in the interval that was expected; None where either is not there."""
    expected = forecast.expected.get(metric) if forecast else None
    came = trial.estimates.get(metric)
    if expected is None or came is None:
        return None
    _, low, high = expected
    if low <= came.value <= high:
        return "as expected"
    return "higher than expected" if came.value > high else "lower than expected"


def _ending(trial: TrialResult) -> str:
    if trial.outcome is Outcome.COMPLETE:
        front = "on the front" if trial.on_front else "not on the front"
        return f"complete, {'meets' if trial.is_feasible else 'breaks'} the limits, {front}"
    if trial.outcome is None:
        return "nothing yet"
    kind = f" ({trial.failure_kind})" if trial.failure_kind else ""
    return f"{trial.outcome}{kind}: {first_line(trial.message)}"
