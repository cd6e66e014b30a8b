"""The user's own code, found by ``package.module:name`` or ``file.py:name`` (inside the trial's process only)."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from trials.contract import FailureKind, TrialFailure
from trials.training.task_source import TaskProblem, split_target

PREFIX = "task."


def named(target: str) -> Any:
    """What the target leads to; TrialFailure where it leads nowhere."""
    try:
        place, name = split_target(target)
    except TaskProblem as problem:
        raise TrialFailure(FailureKind.CRASH, f"{problem.message}; {problem.way_out}") from problem
    found = getattr(_module(place), name, None)
    if found is None:
        raise TrialFailure(FailureKind.CRASH, f"{place} has no {name}")
    return found


def make_task(target: str, config: Mapping[str, Any], methods: tuple[str, ...]) -> Any:
    """The class constructed with the ``task.*`` values; TrialFailure where it is none or lacks a method."""
    found = named(target)
    name = target.rpartition(":")[2]
    if not isinstance(found, type):
        raise TrialFailure(FailureKind.CRASH, f"{target} is no class")
    missing = [method for method in methods if not callable(getattr(found, method, None))]
    if missing:
        raise TrialFailure(
            FailureKind.CRASH, f"{name} has no method {', '.join(missing)}; a task has {', '.join(methods)}"
        )
    keywords = {key.removeprefix(PREFIX): value for key, value in config.items() if key.startswith(PREFIX)}
    return found(**keywords)


def _module(place: str) -> ModuleType:
    """A module by name, or a ``.py`` file by path, whose folder is importable too (a task may have
    helpers).
    """
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = Path(place)
    if not path.is_file():
        raise TrialFailure(FailureKind.CRASH, f"there is no file {path}")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known  # the model beside the task
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TrialFailure(FailureKind.CRASH, f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickling look a class's module up by name
    spec.loader.exec_module(module)
    return module
