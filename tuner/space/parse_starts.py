"""Where the search starts: the baseline (what the user runs today) and the user's own guesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.space.domains import Choices, Derived, Range, canonical
from tuner.space.errors import Problems, Where, known_names, shown
from tuner.space.parse_domains import is_finite
from tuner.space.space import Config, Parameter, Space, bundle_parts, config_key
from tuner.space.vocabulary import Vocabulary
from tuner.space.yaml_source import Map, Node, Sequence, plain


def read_baseline(
    node: Node | None, space: Space, vocabulary: Vocabulary, problems: Problems, where: Where
) -> Config:
    """The baseline: given values, for the rest the default where it is searched, else the first.

    ``where`` is named when the file has no baseline and the defaults break a rule.
    """
    given = {} if node is None else _given("baseline", node, space, vocabulary, problems)
    config = space.configure(given)
    _check_effect("baseline", node, given, config, space, problems)
    if not problems.found:
        way_out = "write a baseline that runs: baseline: {...}" if node is None else "change the baseline"
        place = where if node is None else node.where
        _check_runs("the baseline", config, space, place, way_out, problems)
        _warn_off_the_grid(config, space, place, problems)
    return config


def _warn_off_the_grid(config: Config, space: Space, where: Where, problems: Problems) -> None:
    """A baseline that no proposal can equal: it is measured, and the search goes on beside it."""
    for parameter in space.parameters:
        value, domain = config.get(parameter.name), parameter.domain
        if not isinstance(domain, Range) or not isinstance(value, int | float) or domain.contains(value):
            continue
        grid = domain.grid()
        if grid is None:
            continue
        beside = [*[v for v in grid if v < value][-1:], *[v for v in grid if v > value][:1]]
        near = ", ".join(map(shown, beside))
        place = "between" if len(beside) == 2 else "outside"
        problems.warn(
            where,
            f"baseline.{parameter.name}={shown(value)} is {place} the values that are searched ({near})",
        )


def read_try_first(
    node: Node | None, baseline: Config, space: Space, vocabulary: Vocabulary, problems: Problems
) -> tuple[Config, ...]:
    """The user's guesses, each once; what a guess does not say is as in the baseline."""
    if node is None:
        return ()
    if not isinstance(node, Sequence):
        problems.add(
            node.where,
            f"try_first={shown(plain(node))} is not a list",
            "write try_first: [{precision: bf16}]",
        )
        return ()
    guesses: dict[str, Config] = {}
    for item in node.items:
        config = read_guess("try_first", item, baseline, space, vocabulary, problems)
        if not problems.found:
            _warn_of_guess(item.where, config, baseline, guesses, space, problems)
        guesses[config_key(config)] = config
    guesses.pop(config_key(baseline), None)
    return tuple(guesses.values())


def read_guess(
    section: str, node: Node, baseline: Config, space: Space, vocabulary: Vocabulary, problems: Problems
) -> Config:
    """One configuration of the user's own; what it does not say is as in the baseline."""
    rest = {p.name: baseline[p.name] for p in space.parameters if _is_on_grid(p, baseline)}
    given = _given(section, node, space, vocabulary, problems)
    config = space.configure({**rest, **given})
    _check_effect(section, node, given, config, space, problems)
    if not problems.found:
        _check_runs("this guess", config, space, node.where, "change it, or delete it", problems)
    return config


def _is_on_grid(parameter: Parameter, config: Config) -> bool:
    if parameter.name not in config or isinstance(parameter.domain, Derived):
        return False
    return parameter.domain.contains(config[parameter.name])


def _given(section: str, node: Node, space: Space, vocabulary: Vocabulary, problems: Problems) -> Config:
    if not isinstance(node, Map):
        problems.add(node.where, f"{section}: {shown(plain(node))} is not a map", "write {precision: fp32}")
        return {}
    given: Config = {}
    for name, where, value_node in _flattened(node, "", space):
        parameter = space.by_name.get(name)
        if name in given:
            problems.add(where, f"{section}.{name} is given twice", "keep one")
        elif parameter is None:
            if name not in problems.left_out:
                problems.add(where, *_unknown(section, name, space, vocabulary))
        else:
            value, problem = _value(parameter, plain(value_node), vocabulary)
            given[name] = value
            if problem:
                problems.add(where, f"{section}: {problem}")
    return given


def _flattened(node: Map, prefix: str, space: Space) -> Iterator[tuple[str, Where, Node]]:
    for entry in node.entries:
        name = f"{prefix}{entry.key}"
        if isinstance(entry.node, Map) and name not in space.by_name and entry.node.entries:
            yield from _flattened(entry.node, f"{name}.", space)
        else:
            yield name, entry.where, entry.node


def _unknown(section: str, name: str, space: Space, vocabulary: Vocabulary) -> tuple[str, str]:
    for parameter in space.parameters:
        if parameter.is_bundle and name in bundle_parts(parameter.domain):
            return f"{section}.{name} is set by {parameter.name}", f"give {parameter.name} one of its labels"
    if vocabulary.is_known(name):
        return f"{section}.{name} is not among the parameters", f"add it there as a fixed value: {name}: ..."
    return f"{section}.{name} is not known", known_names(name, space.by_name)


def _value(parameter: Parameter, value: Any, vocabulary: Vocabulary) -> tuple[Any, str | None]:
    """The value as the configuration holds it (a label, a float in a float range); why it is not legal."""
    name, domain = parameter.name, parameter.domain
    if isinstance(domain, Derived):
        return value, f"{name} is computed ({domain.expression}); delete it here"
    if isinstance(domain, Choices):
        label = _label(domain, value)
        if label is not None:
            return label, None
        if domain.is_labelled or parameter.is_bundle:
            labels = [str(label) for label in domain.values()]
            return value, f"{name}={shown(value)} is none of its labels; {known_names(str(value), labels)}"
    if isinstance(domain, Range):
        if isinstance(value, bool) or not isinstance(value, int | float):
            if value is not None:
                return value, f"{name}={shown(value)} is not a number; write a number"
        elif is_finite(value) and not domain.is_integer:
            value = float(value)
    if not is_finite(value):
        return value, f"{name}={shown(value)} is not a finite number; write a number"
    return value, vocabulary.value_problem(name, value)


def _label(domain: Choices, value: Any) -> Any:
    if domain.contains(value):
        return value
    return next((c.label for c in domain.choices if canonical(c.value) == canonical(value)), None)


def _check_effect(
    section: str,
    node: Node | None,
    given: Mapping[str, Any],
    config: Config,
    space: Space,
    problems: Problems,
) -> None:
    """A value for a parameter that its condition switches off would be lost without a word."""
    for name in given.keys() - config.keys():
        when = space.by_name[name].when
        if node is not None and when is not None and not problems.found:
            message = f"{section}.{name}={shown(given[name])} has no effect"
            problems.add(
                node.where,
                f"{message}, for its condition does not hold: {when}",
                "delete it, or change what the condition names",
            )


def _check_runs(
    what: str, config: Config, space: Space, where: Where, way_out: str, problems: Problems
) -> None:
    rejection = space.rejection(config)
    if rejection is not None:
        problems.add(where, f"{what} cannot run: {rejection.reason}", way_out)


def _warn_of_guess(
    where: Where,
    config: Config,
    baseline: Config,
    others: Mapping[str, Config],
    space: Space,
    problems: Problems,
) -> None:
    if config_key(config) == config_key(baseline):
        problems.warn(where, "this guess is the baseline itself")
    elif config_key(config) in others:
        problems.warn(where, "this guess is given twice and tried once")
    elif not space.contains(config):
        problems.warn(
            where, "this guess lies outside the space: it is measured, and the search does not learn from it"
        )
