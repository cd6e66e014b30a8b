"""The export document as YAML or JSON: for people, scripts and ``tuner verify``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml


def render_yaml(document: Mapping[str, Any]) -> str:
    """YAML in the order of the document."""
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=100)
    return text


def render_json(document: Mapping[str, Any]) -> str:
    """Indented JSON."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
