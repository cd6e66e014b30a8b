"""The JSON Schema of the space file, for editors (``# yaml-language-server: $schema=./space.schema.json``).

It helps while typing; what counts is ``tuner check``, which knows the workload too. Written to
``search_spaces/space.schema.json`` by ``python -m tuner.space.schema FILE``; a test keeps the two equal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from trials.metrics import CATALOGUE, Direction
from tuner.objectives import LimitKind
from tuner.space.fields import SECTIONS, Field
from tuner.space.file import REQUIRED_SECTIONS
from tuner.space.parse_domains import SCALES
from tuner.space.parse_goals import SELECTION_RULES

SCHEMA_ID = "space.schema.json"
_SCALAR = ["string", "number", "boolean", "null"]
_EXPRESSION = {"type": "string", "description": 'an expression in quotes: "data_parallel_degree > 1"'}


def schema() -> dict[str, Any]:
    """The schema as plain data."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "tuner space file",
        "type": "object",
        "required": list(REQUIRED_SECTIONS),
        "additionalProperties": False,
        "properties": {**_own_sections(), **{name: _settings(fields) for name, fields in SECTIONS.items()}},
        "$defs": {
            "parameters": {"type": "object", "additionalProperties": {"$ref": "#/$defs/parameter"}},
            "parameter": _parameter(),
            "config": {"type": "object", "description": "parameter: value"},
            "limit": _limit(),
            "objective": _objective(),
        },
    }


def _own_sections() -> dict[str, Any]:
    return {
        "study": {"type": "string", "description": "the study's name (default: the file's)"},
        "workload": {
            "type": "object",
            "description": "what one trial runs",
            "required": ["kind"],
            "properties": {"kind": {"type": "string", "examples": ["training", "inference", "serving", "command"]}},
        },
        "parameters": {
            "$ref": "#/$defs/parameters",
            "description": "list = choice, map = range or expression, scalar = fixed",
        },
        "rules": {"type": "array", "items": _EXPRESSION, "description": "what must hold"},
        "baseline": {"$ref": "#/$defs/config", "description": "what you run today; the rest takes defaults"},
        "try_first": {"type": "array", "items": {"$ref": "#/$defs/config"}, "description": "your guesses"},
        "objectives": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/objective"}},
        "constraints": {
            "type": "object",
            "description": "limits by metric",
            "properties": {
                key: {"$ref": "#/$defs/limit", "description": info.definition}
                for key, info in CATALOGUE.items()
            },
            "additionalProperties": {"$ref": "#/$defs/limit"},
        },
        "selection": _selection(),
    }  # fmt: skip


def _settings(fields: tuple[Field, ...]) -> dict[str, Any]:
    properties = {
        field.key: {
            **field.type.schema,
            "description": field.help,
            **({} if field.low is None else {"minimum": field.low}),
            **({} if field.high is None else {"maximum": field.high}),
        }
        for field in fields
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _parameter() -> dict[str, Any]:
    when = {"when": _EXPRESSION}
    number = {"type": "number"}
    return {
        "anyOf": [
            {"type": _SCALAR, "description": "fixed"},
            {"type": "array", "minItems": 1, "description": "choice"},
            _closed(
                {"choices": {"type": ["array", "object"]}, **when}, ["choices"], "choice; a map gives labels"
            ),
            _closed(
                {"min": number, "max": number, "step": number, "scale": {"enum": list(SCALES)}, **when},
                ["min", "max"],
                "range; whole numbers stay whole",
            ),
            _closed({"value": {}, **when}, ["value"], "fixed list or map"),
            _closed({"expr": _EXPRESSION, **when}, ["expr"], "computed from other parameters"),
            {
                "type": "object",
                "description": "group: the names below are dotted with this one",
                "propertyNames": {
                    "not": {"enum": ["choices", "min", "max", "value", "expr", "when", "step", "scale"]}
                },
                "additionalProperties": {"$ref": "#/$defs/parameter"},
            },
        ]
    }


def _closed(properties: dict[str, Any], required: list[str], description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _limit() -> dict[str, Any]:
    amount = {"type": ["number", "string"], "examples": [6, "900 ms", "6 GiB", "1%"]}
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {str(kind): amount for kind in LimitKind},
    }


def _objective() -> dict[str, Any]:
    own = _closed(
        {"metric": {"type": "string"}, "direction": {"enum": [str(direction) for direction in Direction]}},
        ["metric", "direction"],
        "a metric of your own",
    )
    return {"anyOf": [{"type": "string", "examples": [str(key) for key in CATALOGUE]}, own]}


def _selection() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "which point of the front to recommend",
        "additionalProperties": False,
        "properties": {
            "rule": {"enum": list(SELECTION_RULES)},
            **{str(direction): {"type": "string", "description": "a metric"} for direction in Direction},
            "within": {"type": "object", "description": "metric: distance from its best value"},
        },
    }


def schema_text() -> str:
    """The schema as the text of its file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text(), encoding="utf-8")
