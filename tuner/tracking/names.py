"""Names that MLflow accepts, for metrics and parameters that may be called anything."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

MAX_NAME_LENGTH = 250  # MLflow's limit for a metric, a parameter or a tag

_SPOKEN = {"@": "_at_", "%": "_pct", "+": "_plus_", "&": "_and_", "=": "_eq_", "<": "_lt_", ">": "_gt_"}
_REFUSED = re.compile(r"[^\w.\- ]+")


def clean_name(original: str) -> str:
    """The name MLflow shows for ``original``; depends on nothing else, so it is the same in every run.

    A slash becomes a dot: some stores keep a metric as a file, where ``foo`` cannot lie beside ``foo/bar``.
    """
    text = "".join(_SPOKEN.get(letter, letter) for letter in re.sub(r"/+", ".", original))
    text = _REFUSED.sub("_", text)
    if text != original:
        text = re.sub(r"_+(?=[_.]|$)", "", text).strip("_ ")
    if text.startswith(".."):  # MLflow reads it as the folder above
        text = text.lstrip(".")
    text = text if text.strip("._- ") else "unnamed"
    return text if len(text) <= MAX_NAME_LENGTH else _suffixed(text, original)


def _suffixed(name: str, original: str) -> str:
    mark = hashlib.sha256(original.encode()).hexdigest()[:6]
    return f"{name[: MAX_NAME_LENGTH - 7]}_{mark}"


class NameBook:
    """Gives every original one clean name, and no two originals the same one.

    Where two would collide, the one met later gets a suffix made from its own text. Feed trials in the order
    of their numbers, and a replay finds the names that the study used.
    """

    def __init__(self) -> None:
        self._clean: dict[str, str] = {}
        self._taken: dict[str, str] = {}

    def name(self, original: str) -> str:
        """The clean name of ``original``."""
        if original not in self._clean:
            name = clean_name(original)
            if self._taken.get(name.lower(), original) != original:  # some databases compare without case
                name = _suffixed(name, original)
            self._clean[original] = name
            self._taken[name.lower()] = original
        return self._clean[original]

    def renamed(self, originals: list[str]) -> dict[str, str]:
        """Clean name -> original, for those of ``originals`` that MLflow refuses or that collided."""
        return {self.name(original): original for original in originals if self.name(original) != original}


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested maps as one level with dotted names: ``{engine: {precision: bf16}}`` -> ``{engine.precision:
    bf16}``.

    An empty map stays a value, so that nothing of a configuration is lost.
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
