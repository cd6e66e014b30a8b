"""What the workload lets a file say: names of parameters, legal values, defaults, facts, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trials.metrics import CATALOGUE
from trials.workloads import Knob, Workload
from tuner.space.errors import is_control, known_names, shown
from tuner.space.yaml_source import read_scalar

WORLD_FACTS = ("world_size", "gpus", "cpus")
_BOOLEAN_WORDS = {
    "on": "true",
    "yes": "true",
    "off": "false",
    "no": "false",
    "true": "true",
    "false": "false",
}


@dataclass(frozen=True)
class Vocabulary:
    """The names and values that are legal. Without a usable workload every name is, so that other problems
    show.
    """

    workload: Workload | None = None
    section: Mapping[str, Any] = field(default_factory=dict)
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    families: tuple[str, ...] = ()
    is_open: bool = True
    metrics: tuple[str, ...] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: Workload, section: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary of a resolved section."""
        metrics = workload.metrics(section)
        return cls(
            workload,
            section,
            workload.knobs(section),
            tuple(workload.families),
            workload.accepts_unknown_parameters(section),
            None if metrics is None else tuple(map(str, metrics)),
            workload.facts(section),
        )

    def is_known(self, name: str) -> bool:
        """Whether a parameter may have this name by itself: a knob, or of an open family."""
        if name in self.knobs:
            return True
        family, dot, _ = name.partition(".")
        # a family whose names could be read off (a task's parameters) holds those and no others
        is_listed = any(knob.startswith(f"{family}.") for knob in self.knobs)
        return bool(dot) and family in self.families and not is_listed

    def name_problem(self, name: str) -> tuple[str, str] | None:
        """Why no parameter can have this name, and the way out; None where one can."""
        if self.is_open or self.is_known(name):
            return None
        kind = self.workload.kind if self.workload else "?"
        return f"{name} is no parameter of {kind}", known_names(name, self.knobs)

    def value_problem(self, name: str, value: Any) -> str | None:
        """Why no trial, or not this knob, can take the value, with the way out; None where they can."""
        if held := _control_characters(value):
            return f"{name}={shown(value)} holds the control character {held}; write it without"
        knob = self.knobs.get(name)
        problem = knob.problem(value) if knob and value is not None else None
        if knob is None or problem is None:
            return None
        way_out = _way_out(knob, value)
        return f"{name}={shown(value)} {problem}" + (f"; {way_out}" if way_out else "")

    def default(self, name: str) -> Any:
        """The knob's default; None where no knob of that name is known."""
        knob = self.knobs.get(name)
        return knob.default if knob else None

    def metric_problem(self, metric: str) -> tuple[str, str] | None:
        """Why a metric cannot be judged by, and the way out; None where it can, or only running tells."""
        if not metric.isprintable() or not metric or metric != metric.strip():
            return (
                f"{metric!r} is no name for a metric",
                "write letters, digits and _, as the trial prints it",
            )
        if self.metrics is None or metric in self.metrics:
            return None
        kind = self.workload.kind if self.workload else "?"
        return f"{metric} is not reported by this {kind} workload", known_names(metric, self.metrics)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics to propose when a name is not known."""
        return self.metrics if self.metrics is not None else tuple(map(str, CATALOGUE))


def _control_characters(value: Any) -> str:
    """The first character that a text, or one of its parts, should not hold; tabs and ends of lines it may."""
    if isinstance(value, list):
        return next(filter(None, map(_control_characters, value)), "")
    if isinstance(value, dict):
        return _control_characters([*value, *value.values()])
    if not isinstance(value, str):
        return ""
    return next((f"U+{ord(c):04X}" for c in value if is_control(c) and c not in "\t\n\r"), "")


def _way_out(knob: Knob, value: Any) -> str:
    """What to write instead of a value of the wrong type; empty where the knob's own words say enough."""
    if not isinstance(value, str):
        same = [choice for choice in knob.choices or () if str(choice) == str(value)]
        return f'write "{value}" in quotes' if same else ""
    types = knob.type if isinstance(knob.type, tuple) else (knob.type,)
    if bool in types and value.lower() in _BOOLEAN_WORDS:
        return f"write {_BOOLEAN_WORDS[value.lower()]}"
    read = read_scalar(value)
    if not isinstance(read, str) and knob.problem(read) is None:
        return f"write {value} without quotes"
    without_underscores = read_scalar(value.replace("_", ""))
    if not isinstance(without_underscores, str) and knob.problem(without_underscores) is None:
        return f"write {without_underscores}"
    if knob.choices:
        found = known_names(value, [choice for choice in knob.choices if isinstance(choice, str)])
        return found if found.startswith("did") else ""
    return ""
