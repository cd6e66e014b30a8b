"""A draft of a space file, and the text of it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from trials.metrics import Key
from tuner.cli.draft.metrics import objectives_of
from tuner.cli.draft.ranges import written
from tuner.cli.hardware import Hardware

_MEMORY_SHARE = 0.75


@dataclass(frozen=True)
class Parameter:
    """``domain`` is YAML that holds ``today``, the value of the baseline."""

    domain: str
    today: Any
    comment: str = ""


@dataclass(frozen=True)
class Draft:
    """What is known before the first trial. ``workload`` are lines; ``metrics`` are those that a trial reports.

    ``memory`` is the metric that can be limited, and how much of it there is in GiB; ``limits`` are further ones, each
    a line with its comment; ``ideas`` are parameters that are left out, ``doubts`` what to think of before believing
    the objectives.
    """

    study: str
    about: str
    workload: list[str]
    parameters: Mapping[str, Parameter]
    metrics: Collection[str]
    memory: tuple[Key, float]
    limits: Mapping[str, str] = field(default_factory=dict)
    ideas: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    budget: str = "{trials: 20, wall_time: 15 min, trial_timeout: 2 min}"


def text_of(draft: Draft, hardware: Hardware) -> str:
    """The file."""
    parameters = draft.parameters.items()
    objectives = objectives_of(draft.metrics)
    lines = [
        "# yaml-language-server: $schema=./space.schema.json",
        f"# {draft.about} Written by tuner init; change what you like.",
        f"# This machine: {hardware}.",
        "# Help in an editor: tuner schema > space.schema.json",
        f"study: {written(draft.study)}",
        "",
        "workload:",
        *(f"  {line}" for line in draft.workload),
        "",
        commented("parameters:", "a list is a choice, min and max a range, one value is fixed"),
        *(commented(f"  {written(name)}: {one.domain}", one.comment) for name, one in parameters),
        *(f"  # {idea}" for idea in draft.ideas),
        "",
        commented("baseline:", "what you run today; every gain is measured against it"),
        *(f"  {written(name)}: {written(one.today)}" for name, one in parameters),
        "",
        *(f"# {doubt}" for doubt in draft.doubts),
        f"objectives: [{', '.join(objectives)}]",
        *_constraint_lines(draft, objectives),
        "",
        *_resource_lines(hardware),
        f"budget: {draft.budget}",
        commented(
            "confirm: {finalists: 3, repeats: 3}", "the best are measured again, in turns with the baseline"
        ),
    ]
    return "\n".join(lines) + "\n"


def study_name(text: str) -> str:
    """A legal name of a study: ``ByteLM`` -> ``byte_lm``."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
    return re.sub(r"\W+", "_", snake, flags=re.ASCII).strip("_")[:60] or "study"


def commented(line: str, comment: str, width: int = 40) -> str:
    """The line with a comment where the other comments are."""
    return f"{line:<{width}} # {comment}" if comment else line


def _constraint_lines(draft: Draft, objectives: list[str]) -> list[str]:
    metric, there_is = draft.memory
    limit = max(1, math.floor(there_is * _MEMORY_SHARE))
    lines = ["constraints:", commented(f"  {metric}: {{max: {limit}}}", f"of {there_is:.0f} GiB")]
    lines += [commented(f"  {line}", comment) for line, comment in draft.limits.items()]
    if Key.ACCURACY in draft.metrics and Key.ACCURACY not in objectives:
        lines.append(
            commented(f"  {Key.ACCURACY}: {{max_decrease: 0.02}}", "at most two points below the baseline")
        )
    return lines


def _resource_lines(hardware: Hardware) -> list[str]:
    if hardware.gpus < 2:
        return []
    return [
        "resources: {gpus: 1}",
        commented(f"search: {{concurrent_trials: {hardware.gpus}}}", "one on each GPU"),
    ]
