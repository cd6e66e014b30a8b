"""One parameter's value in the file becomes a domain: choices, range, fixed, derived."""

from __future__ import annotations

import math
from typing import Any

from tuner.space.domains import MAX_GRID, Choice, Choices, Derived, Fixed, Range, canonical
from tuner.space.errors import Problems, Where, known_names, shown
from tuner.space.expressions import Expression, ExpressionError, parse_expression
from tuner.space.range_limits import number_problem, range_problem
from tuner.space.vocabulary import Vocabulary
from tuner.space.yaml_source import Entry, Map, Node, Scalar, Sequence, plain

Domain = Choices | Range | Fixed | Derived
SCALES = ("linear", "log", "log2")
DOMAIN_KEYS = {
    "choices": ("choices", "when"),
    "value": ("value", "when"),
    "expr": ("expr", "when"),
    "min": ("min", "max", "step", "scale", "when"),
    "max": ("min", "max", "step", "scale", "when"),
}
"""By the key that says what a map is: the keys that it may have."""

FOREIGN_KEYS = {
    "values": "choices", "low": "min", "high": "max", "lower": "min", "upper": "max", "log": "scale: log",
    "distribution": "scale", "q": "step",
}  # fmt: skip
"""Words of other tools for the same things."""


def read_domain(name: str, node: Node, vocabulary: Vocabulary, problems: Problems) -> Domain | None:
    """The domain that a parameter's node describes; None, with the problems noted, where there is none."""
    before = len(problems.found)
    domain = _domain(name, node, problems)
    if domain is None or len(problems.found) > before:
        return None
    _check_values(name, domain, node, vocabulary, problems)
    return domain


def read_expression(key: str, node: Node, problems: Problems) -> Expression | None:
    """The expression in a node; None, with the problem noted, where there is none."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        text = shown(plain(node))
        problems.add(
            node.where, f"{key}={text} is not an expression to YAML", 'put the expression in quotes: "a > 1"'
        )
        return None
    try:
        return parse_expression(node.value)
    except ExpressionError as error:
        problems.add(node.where, f"{key}={shown(node.value)} {error}")
        return None


def _domain(name: str, node: Node, problems: Problems) -> Domain | None:
    if isinstance(node, Scalar):
        return Fixed(node.value)
    if isinstance(node, Sequence):
        return _choices(
            name, [(plain(item), plain(item), item.where) for item in node.items], node.where, problems
        )
    kind = next((key for key in DOMAIN_KEYS if key in node.keys), None)
    if kind is None:  # a nested group is taken apart before
        message = f"{name}={shown(plain(node))} says no values"
        problems.add(node.where, message, "write choices, min and max, value or expr")
        return None
    _report_strangers(name, node, kind, problems)
    return _of_kind(name, kind, node, problems)


def _report_strangers(name: str, node: Map, kind: str, problems: Problems) -> None:
    for entry in node.entries:
        if entry.key not in DOMAIN_KEYS[kind]:
            own = FOREIGN_KEYS.get(entry.key)
            way_out = f"write {own}" if own else known_names(entry.key, DOMAIN_KEYS[kind])
            problems.add(entry.where, f"{name}.{entry.key} does not go with {kind}", way_out)


def _of_kind(name: str, kind: str, node: Map, problems: Problems) -> Domain | None:
    entry = next(entry for entry in node.entries if entry.key == kind)
    if kind == "choices":
        return _labelled_or_listed(name, entry, problems)
    if kind == "value":
        return Fixed(plain(entry.node))
    if kind == "expr":
        expression = read_expression(f"{name}.expr", entry.node, problems)
        return None if expression is None else Derived(expression)
    return _range(name, node, problems)


def _labelled_or_listed(name: str, entry: Entry, problems: Problems) -> Domain | None:
    node = entry.node
    if isinstance(node, Sequence):
        return _domain(name, node, problems)
    if isinstance(node, Map):
        for choice in node.entries:
            if choice.label is None:
                problems.add(
                    choice.where, f"{name}: null is no label", "give the choice a name, for example default"
                )
        pairs = [(choice.label, plain(choice.node), choice.where) for choice in node.entries]
        return _choices(name, pairs, node.where, problems)
    text = shown(node.value)
    problems.add(
        node.where,
        f"{name}.choices={text} is not a list",
        f"write choices: [{text}, ...] or labels with values",
    )
    return None


def _choices(
    name: str, pairs: list[tuple[Any, Any, Where]], where: Where, problems: Problems
) -> Domain | None:
    kept: dict[str, Choice] = {}
    for label, value, place in pairs:
        if isinstance(label, str) and label != value and not label.isprintable():
            problems.add(place, f"{name}: {label!r} cannot be printed", "give the choice another name")
        same = kept.get(canonical(value))
        if same is None:
            kept[canonical(value)] = Choice(label, value)
        else:
            dropped = (
                shown(value) if same.label == label else f"{shown(label)}, the same as {shown(same.label)},"
            )
            problems.warn(place, f"{name}: {dropped} is given twice and tried once")
    if not kept:
        problems.add(where, f"{name} has no choices", "write at least one, or delete the parameter")
        return None
    return Choices(tuple(kept.values()))


def _range(name: str, node: Map, problems: Problems) -> Range | None:
    low, high, step = (_number(name, key, node, problems) for key in ("min", "max", "step"))
    scale = _scale(name, node, problems)
    for key, bound in (("min", low), ("max", high)):
        if node.get(key) is None:
            problems.add(node.where, f"{name} has no {key}", f"write {{min: {low or 1}, max: {high or 8}}}")
        elif bound is None:
            return None
    if low is None or high is None or scale is None:
        return None
    reason = range_problem(low, high, step, scale)
    if reason:
        problems.add(node.where, f"{name}={_range_text(low, high, step, scale)} {reason}")
        return None
    domain = _typed_range(low, high, step, scale)
    if domain.last < domain.high:
        problems.warn(
            node.where, f"{name}: {domain.high:g} is never tried, the last value is {domain.last:g}"
        )
    return domain


def _typed_range(low: float, high: float, step: float | None, scale: str) -> Range:
    numbers = (low, high) if step is None else (low, high, step)
    if all(isinstance(number, int) for number in numbers):
        return Range(low, high, step, scale, is_integer=True)
    return Range(float(low), float(high), None if step is None else float(step), scale, is_integer=False)


def _number(name: str, key: str, node: Map, problems: Problems) -> float | None:
    entry = node.get(key)
    if entry is None:
        return None
    value = plain(entry.node)
    if isinstance(value, int | float) and not isinstance(value, bool):
        reason = number_problem(key, value)
        if reason is None:
            return value
    elif isinstance(entry.node, Scalar) and entry.node.is_quoted:
        reason = "is not a number; write it without quotes"
    else:
        reason = "is not a number; write a number"
    problems.add(entry.where, f"{name}.{key}={shown(value)} {reason}")
    return None


def _scale(name: str, node: Map, problems: Problems) -> str | None:
    entry = node.get("scale")
    if entry is None:
        return "linear"
    value = plain(entry.node)
    if value in SCALES:
        return str(value)
    problems.add(entry.where, f"{name}.scale={shown(value)} is not known", f"write {', '.join(SCALES)}")
    return None


def _range_text(low: float, high: float, step: float | None, scale: str) -> str:
    middle = "" if step is None else f", step: {step:g}"
    return f"{{min: {low:g}, max: {high:g}{middle}, scale: {scale}}}"


def _check_values(name: str, domain: Domain, node: Node, vocabulary: Vocabulary, problems: Problems) -> None:
    places = _places(node)
    for value in _values_to_check(domain):
        where = places.get(canonical(value), node.where)
        problem = vocabulary.value_problem(name, value)
        if problem:
            problems.add(where, problem)
        elif not is_finite(value):
            problems.add(where, f"{name}={value} is not a finite number", "write a number")


def _values_to_check(domain: Domain) -> list[Any]:
    if isinstance(domain, Choices):
        return [choice.value for choice in domain.choices]
    if isinstance(domain, Fixed):
        return [domain.value]
    if isinstance(domain, Range):
        grid = domain.grid() if (domain.count() or MAX_GRID) <= 64 else None
        return list(grid) if grid else [domain.low, domain.high]
    return []


def _places(node: Node) -> dict[str, Where]:
    """Where each listed value stands, by its canonical text."""
    entry = node.get("choices") if isinstance(node, Map) else None
    listed = entry.node if entry is not None else node
    if isinstance(listed, Sequence):
        return {canonical(plain(item)): item.where for item in listed.items}
    if entry is not None and isinstance(listed, Map):
        return {canonical(plain(choice.node)): choice.where for choice in listed.entries}
    return {}


def is_finite(value: Any) -> bool:
    """Whether every number of a value is one, and not beyond what a float holds."""
    if isinstance(value, int | float):
        try:
            return math.isfinite(value)
        except OverflowError:
            return False
    if isinstance(value, list | dict):
        return all(is_finite(item) for item in (value.values() if isinstance(value, dict) else value))
    return True


def has_values_of_maps(node: Node) -> bool:
    """Whether it is a labelled choice among maps (and null): parameters that move together."""
    entry = node.get("choices") if isinstance(node, Map) else None
    if entry is None or not isinstance(entry.node, Map) or not entry.node.entries:
        return False
    values = [choice.node for choice in entry.node.entries]
    return any(isinstance(value, Map) for value in values) and all(
        isinstance(value, Map) or (isinstance(value, Scalar) and value.value is None) for value in values
    )


__all__ = [
    "DOMAIN_KEYS",
    "FOREIGN_KEYS",
    "Domain",
    "has_values_of_maps",
    "is_finite",
    "read_domain",
    "read_expression",
]
