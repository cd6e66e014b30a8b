"""``tuner check``: what a space file says, without running anything."""

from __future__ import annotations

import json
from typing import Any

import click

from tuner.cli.options import find_space, json_option, parse_settings, set_option, space_argument, visible_gpus
from tuner.cli.text import shown_config, shown_duration
from tuner.space.model import StudyFile

ENUMERATION_LIMIT = 200_000


@click.command()
@space_argument
@set_option
@json_option
def check(space: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Read SPACE, count its configurations before and after rules, and print what a run would do.

    SPACE is a path or the name of a shipped file. Exit code 2 and file:line of every problem where it is wrong.
    """
    from tuner.space import load_study_file

    file = load_study_file(find_space(space), parse_settings(settings), gpus=visible_gpus())
    click.echo(json.dumps(describe(file), indent=2) if as_json else table_of(file))
    for warning in file.warnings:
        click.echo(f"warning: {warning}", err=True)


def describe(file: StudyFile) -> dict[str, Any]:
    """Everything ``check`` prints, as plain values."""
    size = file.space.size()
    valid = file.space.enumerate_valid(ENUMERATION_LIMIT) if size is not None and size <= ENUMERATION_LIMIT else None
    rejected: dict[str, int] = {}
    if valid is not None:
        for config in file.space.configs():
            if found := file.space.rejection(config):
                rejected[found.rule] = rejected.get(found.rule, 0) + 1
    budget, confirm = file.budget, file.confirm
    runs = 1 + confirm.baseline_repeats + budget.trials - 1 + confirm.repeats * (confirm.finalists + 1)
    return {
        "schema_version": 1,
        "study": file.name,
        "file": str(file.path),
        "parameters": [
            {"name": p["name"], **{k: v for k, v in p.items() if k != "name"}}
            for p in file.space.describe()["parameters"]
        ],
        "size": {"before_rules": size, "after_rules": None if valid is None else len(valid)},
        "rejected": rejected,
        "baseline": file.baseline,
        "objectives": [{"metric": o.metric, "direction": o.direction} for o in file.objectives],
        "limits": [c.formula for c in file.constraints],
        "budget": {"trials": budget.trials, "wall_time_s": budget.wall_time_s},
        "time": {
            "measurements": runs,
            "at_most_s": min(runs * budget.trial_timeout_s, budget.wall_time_s or float("inf")),
        },
        "warnings": list(file.warnings),
    }


def table_of(file: StudyFile) -> str:
    """What a person reads of ``describe``."""
    facts = describe(file)
    size = facts["size"]
    lines = [f"study       {file.name}  ({file.path})", "parameters"]
    width = max((len(p.name) for p in file.space.parameters), default=0)
    for parameter in file.space.parameters:
        when = f"   when {parameter.when}" if parameter.when is not None else ""
        lines.append(f"  {parameter.name:<{width}}  {parameter.domain}{when}")
    before = "continuous" if size["before_rules"] is None else f"{size['before_rules']:,} configurations"
    after = "not counted" if size["after_rules"] is None else f"{size['after_rules']:,}"
    lines.append(f"size        {before} before rules, {after} after")
    lines += [f"  {count:,} rejected by {rule}" for rule, count in facts["rejected"].items()]
    lines.append("objectives  " + ", ".join(f"{o.direction} {o.metric}" for o in file.objectives))
    lines += [f"limit       {formula}" for formula in facts["limits"]]
    lines.append("baseline    " + shown_config(file.baseline))
    lines.append(
        f"time        {facts['time']['measurements']} runs at most; with every one at its timeout "
        f"{shown_duration(facts['time']['at_most_s'])}; the first runs of the baseline tell the real pace"
    )
    return "\n".join(lines)
