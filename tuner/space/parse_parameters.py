"""The section ``parameters`` (and ``rules``) becomes parameters in dependency order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.space.domains import Choices, Derived, canonical, first_of
from tuner.space.errors import Problems, Where, known_names, nearest, shown
from tuner.space.expressions import Expression
from tuner.space.parse_domains import (
    DOMAIN_KEYS,
    FOREIGN_KEYS,
    Domain,
    has_values_of_maps,
    read_domain,
    read_expression,
)
from tuner.space.space import DEGREES, Parameter, Rule, bundle_parts, flat
from tuner.space.vocabulary import WORLD_FACTS, Vocabulary
from tuner.space.yaml_source import Map, Node, Sequence, plain

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
_ORPHANS = ("when", "step", "scale")  # keys of a domain that do not make one


@dataclass(frozen=True)
class _Named:
    """A parameter's node under its full name."""

    name: str
    where: Where
    node: Node


Words = dict[str, set[str]]
"""The names that have a value in expressions, each with the words that it may hold (for 'put it in
quotes').
"""


def read_parameters(
    node: Node, vocabulary: Vocabulary, problems: Problems
) -> tuple[tuple[Parameter, ...], Words]:
    """The parameters, those that others depend on first, and the names that rules may use.

    What is wrong is noted and left out.
    """
    if not isinstance(node, Map):
        problems.add(
            node.where,
            f"parameters={shown(plain(node))} is not a map",
            "write parameters: {precision: [fp32, bf16]}",
        )
        return (), {}
    named = _distinct(_flattened(node, "", vocabulary, problems), problems)
    parameters = [_parameter(one, vocabulary, problems) for one in named]
    wheres = {one.name: one.where for one in named}
    found = {parameter.name: parameter for parameter in parameters if parameter is not None}
    problems.left_out |= wheres.keys() - found.keys()
    _check_bundles(found, wheres, problems)
    names = _known_in_expressions(wheres, found.values(), vocabulary)
    for parameter in found.values():
        for key, expression in _expressions(parameter):
            _check_names(f"{parameter.name}.{key}", expression, names, wheres[parameter.name], problems)
    return _ordered(found, wheres, problems), names


def read_rules(node: Node | None, names: Words, problems: Problems) -> tuple[Rule, ...]:
    """The rules of the file, over the names that ``read_parameters`` gave."""
    if node is None:
        return ()
    if not isinstance(node, Sequence):
        problems.add(node.where, f"rules={shown(plain(node))} is not a list", 'write rules: ["a <= b"]')
        return ()
    rules = []
    for item in node.items:
        expression = read_expression("rule", item, problems)
        if expression is not None:
            _check_names("rule", expression, names, item.where, problems)
            rules.append(Rule(expression, item.where.line or 0))
    return tuple(rules)


def _known_in_expressions(
    named: Iterable[str], parameters: Iterable[Parameter], vocabulary: Vocabulary
) -> Words:
    words: Words = {name: set() for name in (*named, *vocabulary.knobs, *vocabulary.facts, *WORLD_FACTS)}
    for name, knob in vocabulary.knobs.items():
        words[name] = {choice for choice in knob.choices or () if isinstance(choice, str)}
    for parameter in parameters:
        words.setdefault(parameter.name, set())
        if isinstance(parameter.domain, Choices):
            words[parameter.name] |= {label for label in parameter.domain.values() if isinstance(label, str)}
        if parameter.is_bundle:
            words.update({part: words.get(part, set()) for part in bundle_parts(parameter.domain)})
    return words


def _flattened(node: Map, prefix: str, vocabulary: Vocabulary, problems: Problems) -> Iterator[_Named]:
    """Every parameter by its dotted name; nested groups and dotted names are the same thing."""
    for entry in node.entries:
        name = f"{prefix}{entry.key}"
        if not _NAME.fullmatch(name):
            clean = re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("_.") or "name"
            problems.add(
                entry.where, f"{name} is no name for a parameter", f"use letters, digits, _ and dots: {clean}"
            )
        elif isinstance(entry.node, Map) and _is_group(name, entry.node, vocabulary, problems):
            yield from _flattened(entry.node, f"{name}.", vocabulary, problems)
        else:
            yield _Named(name, entry.where, entry.node)


def _is_group(name: str, node: Map, vocabulary: Vocabulary, problems: Problems) -> bool:
    """Whether a map is a nested group; a map that only looks like a domain of another tool stays one
    parameter.
    """
    keys = set(node.keys)
    if not keys or keys & set(DOMAIN_KEYS):
        return False
    foreign = [
        key for key in (*FOREIGN_KEYS, *_ORPHANS) if key in keys and f"{name}.{key}" not in vocabulary.knobs
    ]
    for key in foreign:
        if key in FOREIGN_KEYS:
            entry = node.get(key)
            assert entry is not None
            problems.add(entry.where, f"{name}.{key} is not known", f"write {FOREIGN_KEYS[key]}")
    return not foreign


def _distinct(named: Iterable[_Named], problems: Problems) -> list[_Named]:
    """Each path once: the same path twice, or a path that is a value and a group, is an error."""
    kept: dict[str, _Named] = {}
    for one in named:
        first = kept.get(one.name)
        if first is not None:
            problems.add(
                one.where, f"{one.name} is given twice (first in line {first.where.line})", "keep one"
            )
        else:
            kept[one.name] = one
    for one in kept.values():
        for parent in _parents(one.name):
            if parent in kept:
                message = f"{one.name} lies inside {parent}, which has a value of its own"
                line = kept[parent].where.line
                problems.add(one.where, f"{message} (line {line})", "rename one of them")
    return list(kept.values())


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts)))


def _parameter(one: _Named, vocabulary: Vocabulary, problems: Problems) -> Parameter | None:
    is_bundle = (
        one.name not in vocabulary.knobs and _is_free(one.name, vocabulary) and has_values_of_maps(one.node)
    )
    problem = None if is_bundle else vocabulary.name_problem(one.name)
    if problem:
        problems.add(one.where, *problem)
        problems.left_out.add(nearest(one.name, vocabulary.knobs) or one.name)
        return None
    domain = read_domain(one.name, one.node, vocabulary, problems)
    when = _when(one, problems)
    if domain is None:
        return None
    default = _default_label(one.name, domain, vocabulary)
    if is_bundle:
        _check_bundle(one, domain, vocabulary, problems)
    return Parameter(one.name, domain, when, default, one.where.line or 0, is_bundle)


def _is_free(name: str, vocabulary: Vocabulary) -> bool:
    """A name of an open family stays one parameter, whatever its values are: it goes to the task or engine
    whole.
    """
    return name.partition(".")[0] not in vocabulary.families or "." not in name


def _when(one: _Named, problems: Problems) -> Expression | None:
    entry = one.node.get("when") if isinstance(one.node, Map) else None
    return None if entry is None else read_expression(f"{one.name}.when", entry.node, problems)


def _default_label(name: str, domain: Domain, vocabulary: Vocabulary) -> Any:
    """What rules see while the parameter is inactive: the knob's default (its label, where it has one).

    Where no knob says a default, the first or lowest value stands in, as it does in the baseline.
    """
    if name not in vocabulary.knobs:
        return None if isinstance(domain, Derived) else first_of(domain)
    default = vocabulary.default(name)
    if isinstance(domain, Choices) and domain.is_labelled:
        same = (c.label for c in domain.choices if canonical(c.value) == canonical(default))
        return next(same, default)
    return default


def _check_bundle(one: _Named, domain: Domain, vocabulary: Vocabulary, problems: Problems) -> None:
    assert isinstance(domain, Choices)
    for part in bundle_parts(domain):
        problem = vocabulary.name_problem(part)
        if problem:
            problems.add(one.where, f"{one.name}: {problem[0]}", problem[1])
    for choice in domain.choices:
        for part, value in flat(choice.value or {}).items():
            wrong = vocabulary.value_problem(part, value)
            if wrong:
                problems.add(one.where, f"{one.name}, choice {shown(choice.label)}: {wrong}")


def _check_bundles(found: Mapping[str, Parameter], wheres: Mapping[str, Where], problems: Problems) -> None:
    owner = {name: name for name in found}
    for parameter in found.values():
        for part in bundle_parts(parameter.domain) if parameter.is_bundle else ():
            if part in owner:
                message = f"{parameter.name} sets {part}, which {owner[part]} sets too"
                problems.add(wheres[parameter.name], message, "let one of them set it")
            owner[part] = parameter.name


def _expressions(parameter: Parameter) -> Iterator[tuple[str, Expression]]:
    if parameter.when is not None:
        yield "when", parameter.when
    if isinstance(parameter.domain, Derived):
        yield "expr", parameter.domain.expression


def _check_names(key: str, expression: Expression, known: Words, where: Where, problems: Problems) -> None:
    for name in sorted(expression.names - set(known)):
        if any(name in words for words in known.values()):
            way_out = f"if it is a text, put it in quotes: '{name}'"
        elif name.startswith("model."):
            facts = [fact for fact in known if fact.startswith("model.")]
            way_out = known_names(name, facts) if facts else "this workload knows no facts about its model"
        else:
            way_out = known_names(name, known)
        problems.add(where, f"{key}={shown(expression.text)} names {name}, which is not known", way_out)


def _ordered(
    found: Mapping[str, Parameter], wheres: Mapping[str, Where], problems: Problems
) -> tuple[Parameter, ...]:
    """File order, except that what an expression names comes before it; a circle is an error."""
    owners = {part: p.name for p in found.values() if p.is_bundle for part in bundle_parts(p.domain)}
    waiting = {parameter.name: _needs(parameter, found, owners) for parameter in found.values()}
    ordered: list[Parameter] = []
    while waiting:
        ready = next((name for name, needs in waiting.items() if not needs & waiting.keys()), None)
        if ready is None:
            circle = ", ".join(sorted(waiting))
            problems.add(
                wheres[next(iter(waiting))],
                f"{circle} wait for one another in their when or expr",
                "break the circle",
            )
            return tuple(found.values())
        ordered.append(found[ready])
        del waiting[ready]
    return tuple(ordered)


def _needs(parameter: Parameter, found: Mapping[str, Parameter], owners: Mapping[str, str]) -> set[str]:
    names = {name for _, expression in _expressions(parameter) for name in expression.names}
    if "world_size" in names and "world_size" not in found:
        names |= set(DEGREES)
    return {owners.get(name, name) for name in names if name in found or name in owners}
