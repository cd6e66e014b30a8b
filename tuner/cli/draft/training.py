"""The draft for a task class: the machine's knobs, and the task's own parameters from its source."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trials.metrics import Key
from trials.training.batch_plan import DEFAULT_MICRO_BATCH_SIZE
from trials.training.task_source import (
    REQUIRED,
    UNREADABLE,
    TaskParameter,
    TaskProblem,
    TaskSource,
    read_task,
    split_target,
)
from trials.workloads import workload
from trials.workloads.training import TASK_METHODS
from tuner.cli.draft.metrics import keys_in
from tuner.cli.draft.ranges import around, choices, doublings, of_any_number, written
from tuner.cli.draft.text import Draft, Parameter, commented, study_name
from tuner.cli.errors import CliError
from tuner.cli.hardware import Hardware

EXAMPLE_TASK = "trials.tasks.digits:Digits"
_SAMPLES, _SAMPLES_OF_TOKENS = 20_000, 2_000


def training_draft(task: str, folder: Path, hardware: Hardware) -> Draft:
    """The draft of a space file in ``folder``; a ``.py`` file in ``task`` is relative to where we are."""
    try:
        source = read_task(task)
        place, name = split_target(task)
    except TaskProblem as problem:
        raise CliError(f"--task {task}: {problem.message}; {problem.way_out}") from problem
    if place.endswith(".py"):
        place = os.path.relpath(place, folder)
    parameters = {**_knobs(hardware), **dict(_own(source, hardware))}
    unit, amount = _horizon(source)
    section = {"task": f"{place}:{name}", "train_for": {unit: amount}}
    _, problems = workload("training").resolve(section, folder)
    if problems:
        raise CliError(f"--task {task}: {problems[0].message}; {problems[0].way_out}")
    return Draft(
        study=study_name(name),
        about=f"Which settings train {name} fastest, and at which quality?",
        workload=[
            "kind: training",
            f"task: {written(section['task'])}",
            commented(
                f"train_for: {{{unit}: {amount}}}", "every trial sees the same data, so qualities compare", 38
            ),
        ],
        parameters=parameters,
        metrics=_metrics(source, unit),
        memory=(Key.PEAK_MEMORY_GIB, hardware.trial_memory_gib),
        ideas=_ideas(source, parameters),
    )


def tasks_here(folder: Path) -> list[str]:
    """Every class in the folder's Python files that has the methods of a task."""
    return [f"{path.name}:{name}" for path in sorted(folder.glob("*.py")) for name in _tasks_in(path)]


def _tasks_in(path: Path) -> Iterator[str]:
    try:
        classes = [n.name for n in ast.parse(path.read_bytes()).body if isinstance(n, ast.ClassDef)]
        for name in classes:
            if set(TASK_METHODS) <= read_task(f"{path}:{name}").methods:
                yield name
    except (OSError, SyntaxError, ValueError):  # not a file of ours to judge; TaskProblem is a ValueError
        return


def _knobs(hardware: Hardware) -> dict[str, Parameter]:
    batch = DEFAULT_MICRO_BATCH_SIZE
    cores = hardware.cores // max(1, hardware.gpus) or 1
    found = {"micro_batch_size": Parameter(doublings(batch, down=2, up=2), batch)}
    if len(hardware.precisions) > 1:
        found = {
            "precision": Parameter(choices(hardware.precisions), "fp32", "what this hardware is fast in"),
            **found,
        }
    found["loader_workers"] = Parameter(choices(range(min(cores, 4)) if cores > 1 else [0, 1]), 0)
    if hardware.gpus:
        found["pin_memory"] = Parameter("[false, true]", False)
    elif cores > 1:
        found["threads"] = Parameter(choices([cores // 2, cores]), cores, "of one operation")
    return found


def _own(source: TaskSource, hardware: Hardware) -> Iterator[tuple[str, Parameter]]:
    for parameter in source.parameters.values():
        if parameter.default is REQUIRED and not parameter.choices:
            raise CliError(
                f"--task: {source.class_name}.__init__ ({source.file.name}) has no default for "
                f"{parameter.name}; give it the value that you use today"
            )
        today = (
            parameter.choices[0] if parameter.default is REQUIRED and parameter.choices else parameter.default
        )
        domain = _domain(parameter, today, hardware)
        if domain is not None:
            yield f"task.{parameter.name}", Parameter(domain, today)


def _domain(parameter: TaskParameter, today: Any, hardware: Hardware) -> str | None:
    if today is UNREADABLE:
        return None
    if parameter.choices:
        return choices([today, *parameter.choices]) if len(parameter.choices) > 1 else None
    if isinstance(today, bool):
        return choices([today, not today])
    if float in parameter.types and isinstance(today, int):
        today = float(today)
    return around(parameter.name, today, hardware.cores, hardware.precisions)


def _horizon(source: TaskSource) -> tuple[str, int]:
    tokens = source.attributes.get("tokens_per_sample")
    if source.tokens_parameter is not None:
        tokens = source.parameters[source.tokens_parameter].default
    if isinstance(tokens, int) and tokens > 0:
        return "tokens", tokens * _SAMPLES_OF_TOKENS
    return "samples", _SAMPLES


def _metrics(source: TaskSource, unit: str) -> list[str]:
    """What a trial reports: as the task lists it, else what its file seems to score."""
    own = source.attributes.get("metrics") or keys_in(source.file)
    speed = Key.TOKENS_PER_S if unit == "tokens" else Key.SAMPLES_PER_S
    return [speed, *(own if isinstance(own, list | tuple) else ()), Key.TRAIN_LOSS_NATS]


def _kept(source: TaskSource, parameters: dict[str, Parameter]) -> Iterator[str]:
    """What stays at its default, as lines that only need their # taken away."""
    for name, parameter in source.parameters.items():
        if f"task.{name}" in parameters:
            continue
        today = parameter.default
        if today is UNREADABLE or today is None or isinstance(today, list | tuple | dict):
            yield commented(f"task.{name}: [...]", "left at its default; write the values to try", 38)
        else:
            domain = of_any_number(today) or choices([today])
            yield commented(f"task.{name}: {domain}", f"left at its default, {written(today)}", 38)


def _ideas(source: TaskSource, parameters: dict[str, Parameter]) -> list[str]:
    compiler = (
        "" if shutil.which("g++") or shutil.which("clang++") else "; it needs a C++ compiler, such as g++"
    )
    return [
        *_kept(source, parameters),
        f"compile: [false, true]                 # costs 10 s to a minute a trial, pays on long ones{compiler}",
        "activation_checkpointing: [none, full] # where memory is what limits the batch",
    ]
