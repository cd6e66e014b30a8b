"""The space: parameters, their conditions, and the rules between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trials.workloads import Knob, Workload
from tuner.space.domains import Choice, Choices, Derived, Fixed, Range, canonical, first_of
from tuner.space.errors import shown
from tuner.space.expressions import Expression, ExpressionError

Config = dict[str, Any]
"""A configuration: active parameter name -> value; a labelled choice holds its label, ``Space.resolve``
replaces it by its value. Values are what YAML and JSON know; 1, 1.0 and True are three different values."""

DEGREES = ("data_parallel_degree", "tensor_parallel_degree", "pipeline_parallel_degree")
"""Their product is the fact ``world_size``; one that is not given counts as 1."""

MAX_COUNTED = 500_000
"""Combinations of deciding parameters that ``size`` looks at before it gives up."""


def config_key(config: Mapping[str, Any]) -> str:
    """One text per configuration (canonical JSON, keys sorted): equal exactly when the configurations are."""
    return canonical(dict(config))


@dataclass(frozen=True)
class Parameter:
    """A tunable value. ``when`` (an Expression or None) says when it is active; ``default`` is what it holds
    in rules while inactive; ``line`` is where the file names it.

    ``is_bundle``: its values are maps of other parameters, which the trial gets instead of it.
    """

    name: str
    domain: Choices | Range | Fixed | Derived
    when: Expression | None
    default: Any
    line: int
    is_bundle: bool = False

    @property
    def is_searched(self) -> bool:
        """True where there is more than one value to choose from."""
        return self.domain.count() != 1

    @property
    def start(self) -> Any:
        """The value where nobody says one: the default where it is in the domain, else the first."""
        if isinstance(self.domain, Derived) or self.domain.contains(self.default):
            return self.default
        return first_of(self.domain)


@dataclass(frozen=True)
class Rule:
    """A combination that must hold."""

    expression: Expression
    line: int

    @property
    def text(self) -> str:
        """As written in the file; rejections are counted by it."""
        return self.expression.text


@dataclass(frozen=True)
class Rejection:
    """Why a configuration is not run: ``rule`` is the text to count by, ``reason`` is for the reader.

    ``not_installed`` names the parameter whose value needs a package that is missing, where that is all.
    """

    rule: str
    reason: str
    not_installed: str = ""


@dataclass(frozen=True)
class Space:
    """Parameters in dependency order (a condition names earlier ones only), rules, facts.

    ``held``: what names that are no parameters hold in expressions (knobs their defaults, facts values).
    ``world`` holds ``cpus`` and ``gpus`` of one slot. Without a ``workload`` only the file's rules count.
    """

    parameters: tuple[Parameter, ...]
    rules: tuple[Rule, ...] = ()
    held: Mapping[str, Any] = field(default_factory=dict)
    world: Mapping[str, Any] = field(default_factory=dict)
    workload: Workload | None = field(default=None, compare=False, repr=False)
    section: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    knobs: Mapping[str, Knob] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def by_name(self) -> dict[str, Parameter]:
        """The parameters by name."""
        return {parameter.name: parameter for parameter in self.parameters}

    def is_active(self, parameter: Parameter, values: Mapping[str, Any]) -> bool:
        """Whether the parameter takes part, given the (label) values of the parameters before it.

        A condition that cannot be computed counts as false here; ``rejection`` says why.
        """
        if parameter.when is None:
            return True
        try:
            return parameter.when.holds(self._names(values))
        except ExpressionError:
            return False

    def configure(self, values: Mapping[str, Any]) -> Config:
        """The configuration for values of searched parameters: drops inactive ones, adds fixed and derived.

        A searched parameter that is not given takes its ``start``; a derived one that cannot be computed is
        left out, and ``rejection`` says why.
        """
        config: Config = {}
        for parameter in self.parameters:
            if not self.is_active(parameter, config):
                continue
            if parameter.name in values and not isinstance(parameter.domain, Derived):
                config[parameter.name] = values[parameter.name]
            else:
                config.update(self._unsaid(parameter, config))
        return config

    def rejection(self, config: Mapping[str, Any]) -> Rejection | None:
        """The first rule (file's, then the workload's own) that the configuration breaks, or None."""
        names = self._names(config) if self._conditional or self.rules else {}
        return (
            self._conditional_rejection(config, names)
            or self._rule_rejection(names)
            or self._workload_rejection(config)
        )

    def contains(self, config: Mapping[str, Any]) -> bool:
        """Whether each value lies in its domain and exactly the active parameters are there (rules aside)."""
        active: set[str] = set()
        for parameter in self.parameters:
            if not self.is_active(parameter, config):
                continue
            active.add(parameter.name)
            if parameter.name not in config or not self._is_legal(parameter, config):
                return False
        return active == set(config)

    def resolve(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the trial gets: labels replaced; ``None`` ("leave the default") dropped."""
        resolved: dict[str, Any] = dict(config)
        for parameter in self._labelled:
            if parameter.name in resolved:
                resolved.update(_unpacked(parameter, resolved.pop(parameter.name)))
        return {name: value for name, value in resolved.items() if value is not None}

    def size(self) -> int | None:
        """How many configurations before rules (conditions respected).

        None where a parameter is continuous, or so many combinations decide over conditions that counting
        them would take minutes.
        """
        total = 1
        for group in self._groups():
            count = self._count(group)
            if count is None:
                return None
            total *= count
        return total

    def configs(self) -> Iterator[Config]:
        """Every configuration before rules, lazily, in a fixed order. ValueError where a range is
        continuous.
        """
        endless = [p.name for p in self.parameters if p.domain.count() is None]
        if endless:
            raise ValueError(f"{', '.join(endless)} is continuous; give it a step or choices")
        return self._walk(self.parameters)

    def enumerate_valid(self, at_most: int) -> list[Config] | None:
        """Every configuration that no rule rejects; None where continuous, or more than ``at_most`` must be
        looked at.
        """
        if any(parameter.domain.count() is None for parameter in self.parameters):
            return None
        valid: list[Config] = []
        for looked_at, config in enumerate(self.configs()):
            if looked_at >= at_most:
                return None
            if self.rejection(config) is None:
                valid.append(config)
        return valid

    def describe(self) -> dict[str, Any]:
        """A plain, stable description (for records, comparison on resume, and the export)."""
        parameters = {
            p.name: p.domain.describe() if p.when is None else {**p.domain.describe(), "when": p.when.text}
            for p in sorted(self.parameters, key=lambda p: p.name)
        }
        return {"parameters": parameters, "rules": [rule.text for rule in self.rules]}

    # what names hold in expressions

    @cached_property
    def _held(self) -> dict[str, Any]:
        return {**self.held, **self.world, **{p.name: p.default for p in self.parameters}}

    @cached_property
    def _names_world_size(self) -> bool:
        expressions = [rule.expression for rule in self.rules]
        for parameter in self.parameters:
            expressions += _expressions(parameter)
        return any("world_size" in expression.names for expression in expressions)

    def _names(self, values: Mapping[str, Any]) -> dict[str, Any]:
        names = {**self._held, **values}
        for parameter in self._labelled:
            if parameter.is_bundle and parameter.name in values:
                names.update(_unpacked(parameter, values[parameter.name]))
        if self._names_world_size and "world_size" not in self.by_name:
            degrees = [names.get(name) or 1 for name in DEGREES]
            names["world_size"] = math.prod(d for d in degrees if isinstance(d, int) and d > 0)
        return names

    def _unsaid(self, parameter: Parameter, config: Config) -> Config:
        if not isinstance(parameter.domain, Derived):
            return {parameter.name: parameter.start}
        try:
            return {parameter.name: self._derive(parameter.domain, config)}
        except ExpressionError:
            return {}

    def _derive(self, domain: Derived, config: Mapping[str, Any]) -> Any:
        value = domain.expression.evaluate(self._names(config))
        if isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError("gives a number that is not finite")
        return value

    def _is_legal(self, parameter: Parameter, config: Mapping[str, Any]) -> bool:
        if not isinstance(parameter.domain, Derived):
            return parameter.domain.contains(config[parameter.name])
        computed = self._unsaid(parameter, dict(config))
        return parameter.name in computed and canonical(computed) == canonical(
            {parameter.name: config[parameter.name]}
        )

    # rejections

    @cached_property
    def _labelled(self) -> tuple[Parameter, ...]:
        return tuple(
            p
            for p in self.parameters
            if p.is_bundle or (isinstance(p.domain, Choices) and p.domain.is_labelled)
        )

    @cached_property
    def _conditional(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.when is not None or isinstance(p.domain, Derived))

    def _conditional_rejection(self, config: Mapping[str, Any], names: Mapping[str, Any]) -> Rejection | None:
        for parameter in self._conditional:
            try:
                is_active = parameter.when is None or parameter.when.holds(names)
            except ExpressionError as error:
                return Rejection(
                    f"{parameter.name}: when {parameter.when}", f"when {parameter.when}: {error}"
                )
            if is_active and isinstance(parameter.domain, Derived):
                problem = self._derived_problem(parameter, parameter.domain, config)
                if problem:
                    return Rejection(f"{parameter.name}: {parameter.domain.expression}", problem)
        return None

    def _derived_problem(
        self, parameter: Parameter, domain: Derived, config: Mapping[str, Any]
    ) -> str | None:
        try:
            value = self._derive(domain, config)
        except ExpressionError as error:
            return f"{parameter.name}: {domain.expression}: {error}"
        knob = self.knobs.get(parameter.name)
        problem = knob.problem(value) if knob and value is not None else None
        return f"{parameter.name}={shown(value)} ({domain.expression}) {problem}" if problem else None

    def _rule_rejection(self, names: Mapping[str, Any]) -> Rejection | None:
        for rule in self.rules:
            try:
                if not rule.expression.holds(names):
                    return Rejection(rule.text, f"{rule.text} does not hold{_with(rule.expression, names)}")
            except ExpressionError as error:
                return Rejection(rule.text, f"{rule.text}: {error}{_with(rule.expression, names)}")
        return None

    def _workload_rejection(self, config: Mapping[str, Any]) -> Rejection | None:
        if self.workload is None:
            return None
        problem = self.workload.rejection(self.section, self.resolve(config), self.world)
        if problem is None:
            return None
        reason = f"{problem.key}: {problem.message}"
        return Rejection(
            f"workload: {problem.key}",
            f"{reason}; {problem.way_out}" if problem.way_out else reason,
            problem.key if problem.is_not_installed else "",
        )

    # counting and listing

    def dependencies(self, parameter: Parameter) -> set[str]:
        """The parameters that its condition and its expression name."""
        names = {name for expression in _expressions(parameter) for name in expression.names}
        return set(self._owners(names))

    def _owners(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if name in self.by_name:
                yield name
            elif name == "world_size":
                yield from self._owners(DEGREES)
            elif name in self._bundled:
                yield self._bundled[name]

    @cached_property
    def _bundled(self) -> dict[str, str]:
        return {part: p.name for p in self.parameters if p.is_bundle for part in bundle_parts(p.domain)}

    def _groups(self) -> list[list[Parameter]]:
        """Parameters that conditions tie together; the sizes of the groups multiply."""
        group_of = {parameter.name: {parameter.name} for parameter in self.parameters}
        for parameter in self.parameters:
            for other in self.dependencies(parameter):
                if group_of[other] is not group_of[parameter.name]:
                    merged = group_of[other] | group_of[parameter.name]
                    group_of.update(dict.fromkeys(merged, merged))
        groups = {id(group): group for group in group_of.values()}
        return [[p for p in self.parameters if p.name in group] for group in groups.values()]

    def _count(self, group: list[Parameter]) -> int | None:
        counts = {parameter.name: parameter.domain.count() for parameter in group}
        known = {name: count for name, count in counts.items() if count is not None}
        if len(known) < len(counts):
            return None
        deciding = {name for parameter in group for name in self.dependencies(parameter)}
        deciders = tuple(parameter for parameter in group if parameter.name in deciding)
        followers = [parameter for parameter in group if parameter.name not in deciding]
        if math.prod(known[parameter.name] for parameter in deciders) > MAX_COUNTED:
            return None
        return sum(
            math.prod(known[p.name] for p in followers if self.is_active(p, values))
            for values in self._walk(deciders)
        )

    def _walk(self, parameters: tuple[Parameter, ...]) -> Iterator[Config]:
        """Every assignment of these parameters, depth first without recursion; the first parameter changes
        slowest.
        """
        stack = [self._branches(parameters, {}, 0)]
        while stack:
            branch = next(stack[-1], None)
            if branch is None:
                stack.pop()
                continue
            values, index = branch
            if index == len(parameters):
                yield values
            else:
                stack.append(self._branches(parameters, values, index))

    def _branches(
        self, parameters: tuple[Parameter, ...], values: Config, index: int
    ) -> Iterator[tuple[Config, int]]:
        """Set what has no alternative, then one branch for each value of the next parameter that has."""
        for position in range(index, len(parameters)):
            parameter = parameters[position]
            if not self.is_active(parameter, values):
                continue
            if not parameter.is_searched:
                values.update(self._unsaid(parameter, values))
                continue
            assert not isinstance(parameter.domain, Derived)
            for value in parameter.domain.values():
                yield {**values, parameter.name: value}, position + 1
            return
        yield values, len(parameters)


def bundle_parts(domain: Any) -> list[str]:
    """The names of the parameters that a bundle's values hold, each once."""
    maps = [choice.value for choice in domain.choices if isinstance(choice.value, dict)]
    return list(dict.fromkeys(name for values in maps for name in flat(values)))


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested maps as dotted names."""
    flattened: dict[str, Any] = {}
    for name, value in values.items():
        is_group = isinstance(value, dict) and value
        flattened.update(flat(value, f"{prefix}{name}.") if is_group else {f"{prefix}{name}": value})
    return flattened


def _unpacked(parameter: Parameter, label: Any) -> dict[str, Any]:
    """What a labelled choice stands for; a value that is no label (a baseline off the grid) stands for
    itself.
    """
    assert isinstance(parameter.domain, Choices)
    choice = parameter.domain.find(label)
    value = label if choice is None else choice.value
    if parameter.is_bundle:
        return flat(value) if isinstance(value, dict) else {}
    return {parameter.name: value}


def _expressions(parameter: Parameter) -> list[Expression]:
    found = [] if parameter.when is None else [parameter.when]
    return [*found, parameter.domain.expression] if isinstance(parameter.domain, Derived) else found


def _with(expression: Expression, names: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name}={shown(names.get(name))}" for name in sorted(expression.names))
    return f" with {values}" if values else ""


__all__ = [
    "Choice",
    "Choices",
    "Config",
    "Derived",
    "Fixed",
    "Parameter",
    "Range",
    "Rejection",
    "Rule",
    "Space",
    "bundle_parts",
    "config_key",
    "flat",
]
