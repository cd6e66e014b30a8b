"""The export document as YAML or JSON: for people, scripts and ``tuner verify``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from tuner.space.yaml_source import read_scalar


class _Dumper(yaml.SafeDumper):
    """Writes text so that readers of YAML 1.1 and 1.2 find text again: ``"on"``, ``"1e-05"`` in quotes."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors: a list that appears twice is written twice."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_plain = isinstance(read_scalar(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else "'")


_Dumper.add_representer(str, _text)


def render_yaml(document: Mapping[str, Any]) -> str:
    """YAML in the order of the document."""
    text: str = yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def render_json(document: Mapping[str, Any]) -> str:
    """Indented JSON."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
