"""Objectives, constraints and selection: what a study is for."""

from __future__ import annotations

from typing import Any

from trials.metrics import CATALOGUE, Direction, Key
from tuner.objectives import Constraint, LimitKind, Objective
from tuner.space.errors import Problems, known_names, nearest, shown
from tuner.space.fields import report_unknown, text_of
from tuner.space.model import Selection
from tuner.space.units import UnitError, in_unit_of, ratio
from tuner.space.vocabulary import Vocabulary
from tuner.space.yaml_source import Entry, Map, Node, Sequence, plain

SELECTION_RULES = ("knee", "first_objective")
_SPEEDS = (Key.TOKENS_PER_S, Key.SAMPLES_PER_S, Key.WALL_TIME_S)
_QUALITIES = (Key.VAL_LOSS_NATS, Key.PERPLEXITY, Key.ACCURACY)


def example_objectives(vocabulary: Vocabulary) -> str:
    """What to write, with metrics that this workload reports where that is known."""
    if vocabulary.metrics is None:
        return "write objectives: [tokens_per_s, val_loss_nats]"
    own = [f"{{metric: {name}, direction: maximize}}" for name in vocabulary.metrics if name not in CATALOGUE]
    qualities = [*(key for key in _QUALITIES if key in vocabulary.metrics), *own]
    speeds = [key for key in _SPEEDS if key in vocabulary.metrics]
    return f"write objectives: [{', '.join([*speeds[:1], *qualities[:1]])}]"


def read_objectives(node: Node, vocabulary: Vocabulary, problems: Problems) -> tuple[Objective, ...]:
    """The objectives, in the order of the file."""
    if not isinstance(node, Sequence) or not node.items:
        message = f"objectives={shown(plain(node))} is not a list with at least one metric"
        problems.add(node.where, message, example_objectives(vocabulary))
        return ()
    objectives: dict[str, Objective] = {}
    for item in node.items:
        objective = _objective(item, vocabulary, problems)
        if objective is not None and objective.metric in objectives:
            problems.add(item.where, f"objective {objective.metric} is given twice", "keep one")
        elif objective is not None:
            objectives[objective.metric] = objective
    return tuple(objectives.values())


def _objective(node: Node, vocabulary: Vocabulary, problems: Problems) -> Objective | None:
    if isinstance(node, Map):
        return _spelled_out(node, vocabulary, problems)
    metric = text_of(node)
    if metric is None:
        message = f"objective {shown(plain(node))} is not a metric"
        problems.add(node.where, message, example_objectives(vocabulary))
        return None
    if _is_refused(metric, node, vocabulary, problems):
        return None
    if metric in CATALOGUE:
        return Objective(metric, CATALOGUE[metric].direction)
    near = nearest(metric, CATALOGUE)
    meant = f", or did you mean {near}?" if near else ""
    way_out = f"write {{metric: {metric}, direction: maximize}} or minimize{meant}"
    problems.add(node.where, f"objective {metric} has no known direction", way_out)
    return None


def _spelled_out(node: Map, vocabulary: Vocabulary, problems: Problems) -> Objective | None:
    report_unknown(node, ("metric", "direction"), "objective: ", problems)
    metric, direction = (_text_at(node, key) for key in ("metric", "direction"))
    if metric is None:
        problems.add(node.where, "an objective has no metric", "write {metric: f1, direction: maximize}")
        return None
    if direction not in tuple(Direction):
        said = node.get("direction")
        given = "no direction" if said is None else f"direction={shown(plain(said.node))}"
        problems.add(node.where, f"objective {metric} has {given}", "write direction: maximize or minimize")
        return None
    if _is_refused(metric, node, vocabulary, problems):
        return None
    if metric in CATALOGUE and CATALOGUE[metric].direction != direction:
        problems.warn(
            node.where, f"objective {metric}: {direction}, where {CATALOGUE[metric].direction} is usual"
        )
    return Objective(metric, Direction(direction))


def _is_refused(metric: str, node: Node, vocabulary: Vocabulary, problems: Problems) -> bool:
    problem = vocabulary.metric_problem(metric)
    if problem:
        problems.add(node.where, *problem)
    return problem is not None


def read_constraints(node: Node | None, vocabulary: Vocabulary, problems: Problems) -> tuple[Constraint, ...]:
    """The limits, each with its amount in the metric's own unit."""
    if node is None:
        return ()
    if not isinstance(node, Map):
        problems.add(
            node.where,
            f"constraints={shown(plain(node))} is not a map",
            "write constraints: {peak_memory_gib: {max: 6}}",
        )
        return ()
    return tuple(limit for entry in node.entries for limit in _limits(entry, vocabulary, problems))


def _limits(entry: Entry, vocabulary: Vocabulary, problems: Problems) -> list[Constraint]:
    metric, node = entry.key, entry.node
    problem = vocabulary.metric_problem(metric)
    if problem:
        problems.add(entry.where, *problem)
        return []
    if not isinstance(node, Map) or not node.entries:
        message = f"constraints.{metric}={shown(plain(node))} does not say which kind of limit it is"
        problems.add(
            entry.where, message, f"write {metric}: {{max: ...}} or {', '.join(list(LimitKind)[1:])}"
        )
        return []
    report_unknown(node, tuple(LimitKind), f"constraints.{metric}.", problems)
    read = [_limit(metric, one, problems) for one in node.entries if one.key in tuple(LimitKind)]
    limits = [limit for limit in read if limit is not None]
    amounts = {limit.kind: limit.amount for limit in limits}
    low, high = amounts.get(LimitKind.MIN), amounts.get(LimitKind.MAX)
    if low is not None and high is not None and low > high:
        message = f"constraints.{metric}: min={low:g} lies above max={high:g}, so no trial can meet both"
        problems.add(entry.where, message, "swap them, or delete one")
    return limits


def _limit(metric: str, entry: Entry, problems: Problems) -> Constraint | None:
    kind, value = LimitKind(entry.key), plain(entry.node)
    try:
        amount = _amount(metric, kind, value)
    except UnitError as error:
        problems.add(entry.where, f"constraints.{metric}.{kind}={shown(value)} {error}")
        return None
    return Constraint(metric, kind, amount, entry.where.line or 0)


def _amount(metric: str, kind: LimitKind, value: Any) -> float:
    if kind in (LimitKind.MAX_RELATIVE, LimitKind.MIN_RELATIVE):
        amount = ratio(value)
        if amount <= 0:
            raise UnitError("must be above 0; write 1.0 for as much as the baseline")
        return amount
    amount = in_unit_of(metric, value)
    if kind.needs_baseline and amount < 0:
        opposite = LimitKind.MAX_DECREASE if kind is LimitKind.MAX_INCREASE else LimitKind.MAX_INCREASE
        raise UnitError(f"must not be negative; write a number from 0 up, or {opposite}")
    return amount


def read_selection(
    node: Node | None, objectives: tuple[Objective, ...], vocabulary: Vocabulary, problems: Problems
) -> Selection:
    """Which point of the front to recommend."""
    if node is None:
        return Selection()
    if not isinstance(node, Map):
        problems.add(
            node.where, f"selection={shown(plain(node))} is not a map", "write selection: {rule: knee}"
        )
        return Selection()
    report_unknown(node, ("rule", *Direction, "within"), "selection.", problems)
    ways = [entry for entry in node.entries if entry.key in ("rule", *Direction)]
    if len(ways) != 1:
        problems.add(
            node.where, "selection needs one of rule, maximize, minimize", "write selection: {rule: knee}"
        )
        return Selection()
    within = _within(node.get("within"), objectives, vocabulary, problems)
    if ways[0].key == "rule":
        return _by_rule(ways[0], node, problems)
    metric = plain(ways[0].node)
    _check_judged(ways[0], metric, vocabulary, problems)
    return Selection(ways[0].key, str(metric), within)


def _by_rule(entry: Entry, node: Map, problems: Problems) -> Selection:
    rule = plain(entry.node)
    if rule not in SELECTION_RULES:
        names = (*SELECTION_RULES, *Direction)
        problems.add(entry.where, f"selection.rule={shown(rule)} is not known", known_names(str(rule), names))
        return Selection()
    if node.get("within") is not None:
        problems.add(
            node.where,
            f"selection.within does not go with rule: {rule}",
            "write maximize: METRIC instead of rule",
        )
    return Selection(str(rule))


def _within(
    entry: Entry | None, objectives: tuple[Objective, ...], vocabulary: Vocabulary, problems: Problems
) -> dict[str, float]:
    if entry is None:
        return {}
    if not isinstance(entry.node, Map):
        problems.add(
            entry.where,
            f"selection.within={shown(plain(entry.node))} is not a map",
            "write within: {val_loss_nats: 0.01}",
        )
        return {}
    distances: dict[str, float] = {}
    directed = {objective.metric for objective in objectives} | set(CATALOGUE)
    for one in entry.node.entries:
        _check_judged(one, one.key, vocabulary, problems)
        if one.key not in directed:
            problems.add(
                one.where,
                f"selection.within.{one.key} has no known direction",
                "make it an objective with a direction",
            )
        try:
            distances[one.key] = in_unit_of(one.key, plain(one.node))
        except UnitError as error:
            problems.add(one.where, f"selection.within.{one.key}={shown(plain(one.node))} {error}")
    return distances


def _check_judged(entry: Entry, metric: Any, vocabulary: Vocabulary, problems: Problems) -> None:
    if not isinstance(metric, str):
        problems.add(
            entry.where,
            f"selection.{entry.key}={shown(metric)} is not a metric",
            "write one of the objectives",
        )
        return
    problem = vocabulary.metric_problem(metric)
    if problem:
        problems.add(entry.where, *problem)


def _text_at(node: Map, key: str) -> str | None:
    entry = node.get(key)
    return None if entry is None else text_of(entry.node)
