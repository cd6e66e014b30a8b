"""Finds the training and inference configurations that no other measured configuration beats.

The public names, each imported when it is first used, so that ``import tuner`` costs nothing::

    file = tuner.load_study_file(Path("space.yaml"))       # or SpaceError with every problem
    with tuner.Records.open("tuner.db") as records:
        result = tuner.judge(records.study(file.name))     # a StudyResult: front, limits, gains
        print(result.front, tuner.as_json(result)["hypervolume"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.objectives import Constraint, Objective
    from tuner.records.errors import RecordsError
    from tuner.records.repository import Records
    from tuner.results import StudyResult, TrialResult, as_json, judge
    from tuner.space import SpaceError, StudyFile, load_study_file

__version__ = "0.1.0"

_HOMES = {
    "Constraint": "tuner.objectives",
    "Objective": "tuner.objectives",
    "Records": "tuner.records.repository",
    "RecordsError": "tuner.records.errors",
    "SpaceError": "tuner.space",
    "StudyFile": "tuner.space",
    "StudyResult": "tuner.results",
    "TrialResult": "tuner.results",
    "as_json": "tuner.results",
    "judge": "tuner.results",
    "load_study_file": "tuner.space",
}

__all__ = [
    "Constraint",
    "Objective",
    "Records",
    "RecordsError",
    "SpaceError",
    "StudyFile",
    "StudyResult",
    "TrialResult",
    "as_json",
    "judge",
    "load_study_file",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tuner' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
