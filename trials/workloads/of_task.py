"""What the kinds that run a user's task class have in common: finding it, its parameters, its missing methods.

Imports no torch: a task is read from its source.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.training.task_source import (
    REQUIRED,
    UNREADABLE,
    TaskParameter,
    TaskProblem,
    TaskSource,
    read_task,
    split_target,
)
from trials.workloads.base import Knob, WorkloadProblem


def resolve_task(
    section: Mapping[str, Any], folder: Path, what: str
) -> tuple[Any, TaskSource | None, list[WorkloadProblem]]:
    """``task`` with the absolute path of its file, the task as read (None where it cannot be), what is wrong."""
    task = section.get("task")
    if not isinstance(task, str):
        return task, None, [WorkloadProblem("task", what, "write task: my_task.py:MyTask")]
    try:
        place, name = split_target(task)
        if place.endswith(".py"):
            task = f"{os.path.realpath(folder / place)}:{name}"
        return task, read_task(task), []
    except TaskProblem as problem:
        return task, None, [WorkloadProblem("task", problem.message, problem.way_out)]


def task_source(section: Mapping[str, Any]) -> TaskSource:
    """The task as read; nothing is known of one that cannot be read (``resolve`` has said so)."""
    try:
        return read_task(str(section["task"]))
    except (TaskProblem, KeyError):
        return TaskSource(Path(), "")


def task_knobs(source: TaskSource) -> list[Knob]:
    """The task's keywords as ``task.NAME``."""
    return [_task_knob(parameter) for parameter in source.parameters.values()]


def _task_knob(parameter: TaskParameter) -> Knob:
    default = None if parameter.default in (REQUIRED, UNREADABLE) else parameter.default
    return Knob(
        f"task.{parameter.name}",
        parameter.types or object,
        default,
        f"{parameter.name} of the task",
        choices=parameter.choices,
        is_equivalent=False,
    )


def evaluate_on_problems(section: Mapping[str, Any]) -> list[WorkloadProblem]:
    """``evaluate_on`` is absent, or a whole number above 0."""
    amount = section.get("evaluate_on")
    if amount is None or (isinstance(amount, int) and not isinstance(amount, bool) and amount > 0):
        return []
    return [
        WorkloadProblem(
            "evaluate_on", f"{amount!r} is not a whole number above 0", "give a number of held-out samples"
        )
    ]


def missing_methods(source: TaskSource, methods: Sequence[str]) -> list[WorkloadProblem]:
    """Missing methods are said at check time; a task with an unreadable base is left to the trial."""
    missing = [name for name in methods if name not in source.methods]
    if not missing or source.has_unread_base:
        return []
    return [
        WorkloadProblem(
            "task",
            f"{source.class_name} ({source.file.name}) has no method {', '.join(missing)}",
            f"a task has {', '.join(methods)}",
        )
    ]


def missing_parameter(source: TaskSource, config: Mapping[str, Any]) -> WorkloadProblem | None:
    """A keyword of the task without a default that the configuration does not set."""
    for parameter in source.parameters.values():
        if parameter.default is REQUIRED and f"task.{parameter.name}" not in config:
            return WorkloadProblem(
                f"task.{parameter.name}",
                f"{source.class_name}.__init__ has no default for it, and it is not set",
                "give it a value under parameters, or a default in the task",
            )
    return None


def threads_rejection(threads: Any, cpus: Any, instances: int = 1) -> WorkloadProblem | None:
    """More threads than cores do not run slower by their number, but far slower."""
    if not threads or not cpus or instances * threads <= cpus:
        return None
    if instances == 1:
        return WorkloadProblem(
            "threads", f"threads={threads} is more than the {cpus} cores of a trial", f"use at most {cpus}"
        )
    return WorkloadProblem(
        "threads",
        f"instances={instances} with threads={threads} each want {instances * threads} cores, a trial has {cpus}",
        f"use at most {cpus // instances}, or fewer instances",
    )
