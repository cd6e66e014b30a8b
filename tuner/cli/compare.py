"""``tuner show A B``: two studies, or two generations of one, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.cli.front import shown_gain, varying
from tuner.cli.table import table, terminal_width
from tuner.cli.text import plural, shown_config, shown_measure, shown_number, styled
from tuner.comparison import Estimate, gain_over_baseline
from tuner.loop.fingerprint import machine_differences
from tuner.loop.recall import known_environment
from tuner.pareto import dominates
from tuner.results import StudyResult, TrialResult
from tuner.space.definition import definition_differences
from tuner.space.space import config_key

SCHEMA_VERSION = 1
_MOST_SHARED = 20
Pair = tuple[StudyResult, StudyResult]


def compared(results: Pair, names: tuple[str, str]) -> dict[str, Any]:
    """The comparison as plain values; its keys are public API. Numbers of a pair are in the order of ``names``."""
    one, other = results
    records = (one.record, other.record)
    return {
        "schema_version": SCHEMA_VERSION,
        "studies": [_study(result, name) for result, name in zip(results, names, strict=True)],
        "settings": definition_differences(records[0].definition, records[1].definition),
        "environment": machine_differences(known_environment(records[0]), known_environment(records[1])),
        "front": [*_front(one, other, names[0]), *_front(other, one, names[1])],
        "shared": list(_shared(results)),
    }


def _study(result: StudyResult, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "generation": result.record.generation,
        "trials": len(result.trials),
        "counts": {str(outcome): n for outcome, n in result.counts.items()},
        "front": list(result.front),
        "recommended": result.recommended.trial if result.recommended else None,
        "stopped_because": result.record.stopped_because,
    }


def _front(result: StudyResult, other: StudyResult, name: str) -> Iterator[dict[str, Any]]:
    """The members of a front, and which of the other's they are beaten by (None: other objectives)."""
    is_same = result.objectives == other.objectives
    main = result.objectives[0]
    for trial in sorted(result.front_trials, key=lambda t: main.loss(t.estimates[main.metric].value)):
        beaten = [o.number for o in other.front_trials if is_same and dominates(o.point, trial.point)]
        yield {
            "study": name,
            "trial": trial.number,
            "config": dict(trial.config),
            "is_confirmed": trial.is_confirmed,
            "metrics": {key: _numbers(trial.estimates[key]) for key in _judged(result, trial)},
            "beaten_by": beaten if is_same else None,
        }


def _shared(results: Pair) -> Iterator[dict[str, Any]]:
    """Configurations that both have measured, with the second's gain over the first."""
    theirs = {config_key(t.config): t for t in results[1].trials if t.losses is not None}
    for ours in results[0].trials:
        other = theirs.get(config_key(ours.config))
        if ours.losses is None or other is None:
            continue
        keys = [key for key in _judged(results[0], ours) if key in other.estimates]
        yield {
            "trials": [ours.number, other.number],
            "config": dict(ours.config),
            "metrics": {key: _pair(ours.estimates[key], other.estimates[key]) for key in keys},
        }


def _judged(result: StudyResult, trial: TrialResult) -> list[str]:
    """The metrics that the study judges by, objectives first."""
    keys = [o.metric for o in result.objectives] + [bound.metric for bound in result.bounds]
    return [key for key in dict.fromkeys(keys) if key in trial.estimates]


def _numbers(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "unit": estimate.unit}


def _pair(ours: Estimate, theirs: Estimate) -> dict[str, Any]:
    change = gain_over_baseline(theirs, ours)
    return {
        "values": [_numbers(ours), _numbers(theirs)],
        "change": {
            "kind": "ratio" if change.is_ratio else "difference",
            "value": change.value,
            "low": change.low,
            "high": change.high,
            "is_beyond_noise": change.is_beyond_noise,
        },
    }


def comparison_text(plain: Mapping[str, Any], results: Pair) -> str:
    """The same for a person."""
    names = list(dict.fromkeys([*varying(results[0]), *varying(results[1])]))
    one, other = (study["name"] for study in plain["studies"])
    parts = [
        "\n".join(_headline(study) for study in plain["studies"]),
        _listed(f"settings that differ (was: {one}, now: {other})", plain["settings"]),
        _listed(f"machines that differ (was: {one}, now: {other})", plain["environment"]),
        _front_table(plain["front"], names),
        _shared_table(plain["shared"], results, names),
    ]
    return "\n\n".join(part for part in parts if part)


def _headline(study: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{n} {outcome}" for outcome, n in study["counts"].items())
    return styled(
        f"{study['name']}: {plural(study['trials'], 'trial')} ({counts}), front of {len(study['front'])}", "1"
    )


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)]) if lines else ""


def _front_table(members: Sequence[Mapping[str, Any]], names: list[str]) -> str:
    if not members:
        return "neither has a front yet"
    keys = list(dict.fromkeys(key for member in members for key in member["metrics"]))
    rows = [
        [
            member["study"],
            f"{member['trial']}{'' if member['is_confirmed'] else ' unconfirmed'}",
            *(_shown(member["metrics"].get(key)) for key in keys),
            ", ".join(map(str, member["beaten_by"] or ())),
            shown_config(member["config"], names),
        ]
        for member in members
    ]
    header = ["front of", "trial", *keys, "beaten by the other's", "configuration"]
    return table(rows, header, terminal_width())


def _shared_table(shared: Sequence[Mapping[str, Any]], results: Pair, names: list[str]) -> str:
    if not shared:
        return "no configuration was measured in both"
    keys = list(dict.fromkeys(key for row in shared for key in row["metrics"]))
    trials = [(results[0].trial(row["trials"][0]), results[1].trial(row["trials"][1])) for row in shared]
    rows = [
        [
            f"{ours.number} / {theirs.number}",
            *(_change(ours, theirs, key) if key in theirs.estimates else "" for key in keys),
            shown_config(ours.config, names),
        ]
        for ours, theirs in trials[:_MOST_SHARED]
    ]
    title = f"measured in both: {plural(len(shared), 'configuration')} (the second against the first)"
    more = (
        [f"... and {len(shared) - _MOST_SHARED} more; --json has them all"]
        if len(shared) > _MOST_SHARED
        else []
    )
    return "\n".join([title, table(rows, ["trials", *keys, "configuration"], terminal_width()), *more])


def _change(ours: TrialResult, theirs: TrialResult, key: str) -> str:
    before, after = ours.estimates[key], theirs.estimates[key]
    change = shown_gain(gain_over_baseline(after, before))
    return f"{shown_number(before.value)} -> {shown_number(after.value)} {change}"


def _shown(numbers: Mapping[str, Any] | None) -> str:
    return "" if numbers is None else shown_measure(numbers["value"], numbers["low"], numbers["high"])
