"""What makes two space files the same study: compared when a study goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tuner.space.errors import shown
from tuner.space.model import StudyFile
from tuner.space.space import flat


def study_definition(study_file: StudyFile) -> dict[str, Any]:
    """Workload, space, baseline, objectives and constraints as plain JSON.

    Paths below the file's folder are written relative to it, so that a folder may be moved. Budget, resources
    and the like are left out: they may change while a study goes on.
    """
    folder = os.path.abspath(study_file.path.parent)  # noqa: PTH100 - text to compare with, not a place to go
    return {
        "workload": _relative(dict(study_file.workload), f"{folder}{os.sep}"),
        **study_file.space.describe(),
        "baseline": study_file.baseline,
        "objectives": [{"metric": o.metric, "direction": str(o.direction)} for o in study_file.objectives],
        "constraints": [
            {"metric": c.metric, "kind": str(c.kind), "amount": c.amount} for c in study_file.constraints
        ],
    }


def definition_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line for each thing that differs: ``parameters.precision: was ..., now ...``. Empty where nothing
    does.
    """
    before, after = _lines(old), _lines(new)
    differences = []
    for key in dict.fromkeys((*before, *after)):
        if key not in after:
            differences.append(f"{key}: was {before[key]}, now not there")
        elif key not in before:
            differences.append(f"{key}: new, {after[key]}")
        elif before[key] != after[key]:
            differences.append(f"{key}: was {before[key]}, now {after[key]}")
    return differences


def _lines(definition: Mapping[str, Any]) -> dict[str, str]:
    lines = {f"workload.{key}": shown(value) for key, value in flat(definition.get("workload", {})).items()}
    for section in ("parameters", "baseline"):
        lines.update(
            {f"{section}.{name}": _said(value) for name, value in definition.get(section, {}).items()}
        )
    lines.update({f"rule {text}": "holds" for text in definition.get("rules", ())})
    lines["objectives"] = ", ".join(
        f"{o['metric']} {o['direction']}" for o in definition.get("objectives", ())
    )
    lines.update(
        {f"limit {c['metric']} {c['kind']}": shown(c["amount"]) for c in definition.get("constraints", ())}
    )
    return lines


def _said(value: Any) -> str:
    """A domain's description without its outer braces; the whole text, or a change at its end would not
    show.
    """
    text = json.dumps(value, ensure_ascii=False)
    return text[1:-1] if isinstance(value, dict) else text


def _relative(value: Any, folder: str) -> Any:
    if isinstance(value, str):
        return value.replace(folder, "")
    if isinstance(value, Mapping):
        return {str(key): _relative(item, folder) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_relative(item, folder) for item in value]
    return value
