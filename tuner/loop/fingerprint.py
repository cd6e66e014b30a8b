"""Whether two measurements come from machines whose numbers compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_MATTERS = ("cpu_model", "cpu_flags", "cores_held", "gpu", "gpu_memory_gib", "torch", "cuda", "driver")
"""Keys of ``trials.measurement.environment``. Kernel and Python move numbers less than the noise does."""


def machine_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One line for each thing that moves numbers and differs: ``torch: was 2.12.0, now 2.13.0``.

    What only one side knows is not compared: an engine without torch reports no version of it.
    """
    return _differences(_MATTERS, before, now)


def harmless_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The same for everything else that both sides know: worth saying, and no reason to stop."""
    return _differences([key for key in before if key not in _MATTERS], before, now)


def _differences(keys: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    pairs = [(key, before[key], now[key]) for key in keys if key in before and key in now]
    return [
        f"{_name(key)}: was {_shown(key, was)}, now {_shown(key, is_now)}"
        for key, was, is_now in pairs
        if _shown(key, was) != _shown(key, is_now)
    ]


def _name(key: str) -> str:
    return "cores" if key == "cores_held" else key


def _shown(key: str, value: Any) -> str:
    """Which cores they are differs from slot to slot; how many they are does not."""
    if key == "cores_held":
        return str(len(value))
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
