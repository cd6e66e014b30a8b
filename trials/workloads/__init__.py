"""The kinds of workload. Light: nothing heavy is imported before ``load_runner``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from trials.workloads.base import Knob, Workload, WorkloadProblem

if TYPE_CHECKING:
    from trials.context import TrialContext
    from trials.contract import Measurement

_SHIPPED = {
    "training": "trials.workloads.training:TrainingWorkload",
    "command": "trials.workloads.command:CommandWorkload",
    "inference": "trials.workloads.inference:InferenceWorkload",
    "serving": "trials.workloads.serving:ServingWorkload",
}
ENTRY_POINT_GROUP = "tuner.workloads"


def workload_names() -> list[str]:
    """The kinds that can be written after ``kind:``, plugins included."""
    return sorted({*_SHIPPED, *_plugins()})


def workload(kind: str) -> Workload:
    """The workload of that kind; KeyError where there is none."""
    target = _SHIPPED.get(kind) or _plugins()[kind]
    loaded: Workload = _load(target)()
    return loaded


def load_runner(kind: str) -> Callable[[TrialContext], Measurement]:
    """Import the heavy part of a kind (inside the trial's process only)."""
    runner: Callable[[TrialContext], Measurement] = _load(workload(kind).runner)
    return runner


@cache
def _plugins() -> Mapping[str, str]:
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _load(target: str):  # type: ignore[no-untyped-def]  # whatever the name leads to
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


__all__ = ["Knob", "Workload", "WorkloadProblem", "load_runner", "workload", "workload_names"]
