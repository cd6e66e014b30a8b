"""``tuner check``: what a space file says, without running anything."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from tuner.cli.options import find_space, json_option, parse_settings, set_option, space_argument, visible_gpus
from tuner.cli.text import shown_config, shown_duration, shown_value
from tuner.space.domains import Choice, Choices, Fixed, Range
from tuner.space.model import StudyFile
from tuner.space.space import Parameter, Space

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
    """Everything ``check`` prints, as plain values.

    A continuous parameter cannot be counted: sizes are then of the other parameters, and it is named.
    """
    continuous = [p.name for p in file.space.parameters if isinstance(p.domain, Range) and p.domain.is_continuous]
    countable = replace(
        file.space,
        parameters=tuple(
            replace(p, domain=Fixed(p.default)) if p.name in continuous else p for p in file.space.parameters
        ),
    )
    size = countable.size()
    valid, rejected = _after_rules(countable) if size is not None and size <= ENUMERATION_LIMIT else (None, {})
    budget, confirm = file.budget, file.confirm
    runs = confirm.baseline_repeats + budget.trials + confirm.repeats * (confirm.finalists + 1)
    return {
        "schema_version": 1,
        "study": file.name,
        "file": str(file.path),
        "parameters": file.space.describe()["parameters"],
        "size": {"before_rules": size, "after_rules": valid, "continuous": continuous},
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


def _after_rules(space: Space) -> tuple[int, dict[str, int]]:
    """How many configurations no rule rejects, and how many each rule does."""
    rejected: dict[str, int] = {}
    valid = 0
    for config in space.configs():
        if found := space.rejection(config):
            rejected[found.rule] = rejected.get(found.rule, 0) + 1
        else:
            valid += 1
    return valid, rejected


def table_of(file: StudyFile) -> str:
    """What a person reads of ``describe``."""
    facts = describe(file)
    size = facts["size"]
    lines = [f"study       {file.name}  ({file.path})", "parameters"]
    width = max((len(p.name) for p in file.space.parameters), default=0)
    for parameter in file.space.parameters:
        lines.append(f"  {parameter.name:<{width}}  {shown_domain(parameter)}")
    times = "".join(f" x any {name}" for name in size["continuous"])
    after = f"too many to count (over {ENUMERATION_LIMIT:,})" if size["after_rules"] is None else f"{size['after_rules']:,}"
    lines.append(f"size        {size['before_rules']:,}{times} before rules, {after} after")
    lines += [f"  {count:,} rejected by {rule}" for rule, count in facts["rejected"].items()]
    lines.append("objectives  " + ", ".join(f"{o.direction} {o.metric}" for o in file.objectives))
    lines += [f"limit       {formula}" for formula in facts["limits"]]
    lines.append("baseline    " + shown_config(file.baseline))
    lines.append(
        f"time        {facts['time']['measurements']} runs at most; with every one at its timeout "
        f"{shown_duration(facts['time']['at_most_s'])}; the first runs of the baseline tell the real pace"
    )
    return "\n".join(lines)


def shown_domain(parameter: Parameter) -> str:
    """The values of a parameter, with how many there are, and when it is active."""
    domain = parameter.domain
    if isinstance(domain, Choices):
        shown = ", ".join(_shown_choice(choice) for choice in domain.choices)
        text = f"{shown}  ({len(domain.choices)})"
    elif isinstance(domain, Range):
        count = domain.count()
        scale = "" if domain.scale == "linear" else f", {domain.scale} scale"
        text = f"{domain.low:g} to {domain.high:g}{scale}  ({'continuous' if count is None else count})"
    elif isinstance(domain, Fixed):
        text = f"{shown_value(domain.value)}  (fixed)"
    else:
        text = f"= {domain.expression.text}"
    return text if parameter.when is None else f"{text}   when {parameter.when.text}"


def _shown_choice(choice: Choice) -> str:
    """Words bare, numbers and booleans as JSON; text that looks like something else is quoted."""
    if isinstance(choice.label, str) and not _looks_like_another_type(choice.label):
        return choice.label
    return json.dumps(choice.label)


def _looks_like_another_type(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return not text.strip()
    return True
