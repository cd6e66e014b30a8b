"""A recorded space as distributions of Optuna's, which holds scalars only and takes 1, 1.0 and true for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tuner.space.domains import Range, canonical
from tuner.space.yaml_source import scalar_text

_NUMBERS = (int, float)
_SCALARS = (str, bool, int, float, type(None))


@dataclass(frozen=True)
class Column:
    """A searched parameter: its distribution, and how a value of a configuration is written there.

    ``is_text``: Optuna cannot hold the choices as they are, so it gets them as text.
    """

    name: str
    distribution: BaseDistribution
    written: Callable[[Any], Any]
    is_text: bool = False

    def holds(self, config: Mapping[str, Any]) -> bool:
        """Whether the configuration has a value that can be written."""
        if self.name not in config:
            return False
        is_number = isinstance(self.distribution, IntDistribution | FloatDistribution)
        return not is_number or _is_number(config[self.name])


def columns_of(
    described: Mapping[str, Mapping[str, Any]], configs: Sequence[Mapping[str, Any]]
) -> list[Column]:
    """A column for every choice and range of a space (as ``Space.describe`` says it); fixed and derived
    parameters have none.

    Values that lie outside the space (a baseline may) widen their column, so that every trial can be shown.
    """
    columns = []
    for name, domain in described.items():
        seen = [config[name] for config in configs if name in config]
        if "choices" in domain:
            columns.append(_of_choices(name, [*map(_label, domain["choices"]), *seen]))
        elif "min" in domain:
            columns.append(_of_range(name, domain, [value for value in seen if _is_number(value)]))
    return columns


def _label(choice: Any) -> Any:
    is_labelled = isinstance(choice, dict) and choice.keys() == {"label", "value"}
    return choice["label"] if is_labelled else choice


def _of_choices(name: str, values: Iterable[Any]) -> Column:
    distinct = list({canonical(value): value for value in values}.values())
    are_scalars = all(isinstance(value, _SCALARS) for value in distinct)
    if are_scalars and len(set(distinct)) == len(distinct):
        return Column(name, CategoricalDistribution(distinct), lambda value: value)
    texts = [scalar_text(value) for value in distinct]
    return Column(name, CategoricalDistribution(texts), scalar_text, is_text=True)


def _of_range(name: str, described: Mapping[str, Any], seen: Sequence[float]) -> Column:
    is_integer = all(isinstance(described[key], int) for key in ("min", "max")) and isinstance(
        described.get("step", 1), int
    )
    step = described.get("step")
    domain = Range(described["min"], described["max"], step, described["scale"], is_integer)
    low, high = min([domain.low, *seen]), max([domain.last, *seen])
    is_log = domain.scale != "linear" and low > 0
    if not all(map(domain.contains, seen)):
        step = None  # a value off the grid
    if is_integer and all(isinstance(value, int) for value in seen):
        whole = 1 if is_log or step is None else int(step)
        return Column(name, IntDistribution(int(low), int(high), log=is_log, step=whole), int)
    spacing = None if is_log or is_integer else step
    return Column(name, FloatDistribution(float(low), float(high), log=is_log, step=spacing), float)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)
