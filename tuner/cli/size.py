"""How large a space is, before rules and after them, and what the rules take away."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from tuner.space.domains import Choices, Derived, Fixed, Range, canonical
from tuner.space.space import Rejection, Space

MOST_COUNTED = 20_000
"""Configurations that are held against the rules one by one, about half a second's work."""
_DRAWN = 2_000


@dataclass(frozen=True)
class Size:
    """How many configurations: ``before`` rules, ``after`` them (None: too many to count, then about
    ``share`` of them hold the rules), those ``rejected`` by rule. ``continuous`` parameters cannot be counted
    and are left out. ``not_installed``: why a package is needed -> the parameter whose value needs it.
    ``useless``: by parameter the values that no configuration after rules has.
    """

    before: int | None
    after: int | None
    share: float | None
    rejected: dict[str, int]
    continuous: list[str]
    not_installed: dict[str, str]
    useless: dict[str, list[Any]] = field(default_factory=dict)


def size_of(space: Space) -> Size:
    """Count a space; a larger one is judged by configurations drawn at random."""
    continuous = [p.name for p in space.parameters if p.domain.count() is None]
    held = [replace(p, domain=Fixed(p.default)) if p.name in continuous else p for p in space.parameters]
    countable = replace(space, parameters=tuple(held))
    before = countable.size()
    if before is not None and before <= MOST_COUNTED:
        found, seen = _looked_through(countable)
        useless = _useless(countable, seen) if len(found) < before else {}
        return Size(
            before, before - len(found), None, _counted(found), continuous, _not_installed(found), useless
        )
    found = _rejections_of_some(countable)
    return Size(before, None, 1 - len(found) / _DRAWN, {}, continuous, _not_installed(found))


def _looked_through(space: Space) -> tuple[list[Rejection], dict[str, set[str]]]:
    """The rejections of all configurations, and the values that the others have."""
    seen: dict[str, set[str]] = {p.name: set() for p in space.parameters if p.is_searched}
    found = []
    for config in space.configs():
        if rejection := space.rejection(config):
            found.append(rejection)
        else:
            for name, values in seen.items():
                values.add(canonical(config.get(name)))
    return found, seen


def _useless(space: Space, seen: dict[str, set[str]]) -> dict[str, list[Any]]:
    values = {name: list(_values(space.by_name[name].domain)) for name in seen}
    useless = {name: [v for v in known if canonical(v) not in seen[name]] for name, known in values.items()}
    return {name: found for name, found in useless.items() if found}


def _counted(found: list[Rejection]) -> dict[str, int]:
    return dict(Counter(rejection.rule for rejection in found))


def _not_installed(found: list[Rejection]) -> dict[str, str]:
    return {rejection.reason: rejection.not_installed for rejection in found if rejection.not_installed}


def _rejections_of_some(space: Space) -> list[Rejection]:
    """Those of configurations drawn at random."""
    chance = random.Random(0)
    searched = [p for p in space.parameters if p.is_searched]
    values = {p.name: list(islice(_values(p.domain), MOST_COUNTED)) for p in searched}
    drawn = (
        space.configure({name: chance.choice(known) for name, known in values.items()}) for _ in range(_DRAWN)
    )
    return [rejection for config in drawn if (rejection := space.rejection(config))]


def _values(domain: Choices | Range | Fixed | Derived) -> Iterator[Any]:
    """The values of a domain; of a long range of whole numbers, some that are spread evenly over it."""
    if isinstance(domain, Derived):
        return iter(())
    count = domain.count() or 0
    if isinstance(domain, Range) and domain.is_integer and count > MOST_COUNTED:
        step = int(domain.step or 1) * -(-count // MOST_COUNTED)
        return iter(range(int(domain.low), int(domain.high) + 1, step))
    return domain.values()
