"""What a study is for (objectives) and what it must not exceed (constraints)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trials.contract import FailureKind, is_comparable, why_not_comparable
from trials.measurement.statistics import examples_to_decide
from trials.metrics import CATALOGUE, Direction, counts_nothing, unit_of

_USUAL_CHANGES = 0.01
"""Share of the answers that a quantised model gives otherwise, for a first guess."""


@dataclass(frozen=True)
class Objective:
    """A metric to optimise."""

    metric: str
    direction: Direction

    def loss(self, value: float) -> float:
        """The value turned so that smaller is better."""
        return self.direction.sign * value


class LimitKind(StrEnum):
    """How a limit is written; the last four refer to the baseline's measured value."""

    MAX = "max"
    MIN = "min"
    MAX_INCREASE = "max_increase"
    MAX_DECREASE = "max_decrease"
    MAX_RELATIVE = "max_relative"
    MIN_RELATIVE = "min_relative"

    @property
    def is_upper(self) -> bool:
        """True where values above the bound are the bad ones."""
        return self in (LimitKind.MAX, LimitKind.MAX_INCREASE, LimitKind.MAX_RELATIVE)

    @property
    def needs_baseline(self) -> bool:
        """True where the bound is known only after the baseline has been measured."""
        return self not in (LimitKind.MAX, LimitKind.MIN)


@dataclass(frozen=True)
class Constraint:
    """A limit on a metric. ``amount`` is in the metric's own unit (or a ratio for the relative kinds)."""

    metric: str
    kind: LimitKind
    amount: float
    line: int = 0

    @property
    def formula(self) -> str:
        """The limit as a reader checks it: ``val_loss_nats <= baseline + 0.02``."""
        sign = "<=" if self.kind.is_upper else ">="
        bound = {
            LimitKind.MAX: f"{self.amount:g}",
            LimitKind.MIN: f"{self.amount:g}",
            LimitKind.MAX_INCREASE: f"baseline + {self.amount:g}",
            LimitKind.MAX_DECREASE: f"baseline - {self.amount:g}",
            LimitKind.MAX_RELATIVE: f"{self.amount:g} x baseline",
            LimitKind.MIN_RELATIVE: f"{self.amount:g} x baseline",
        }[self.kind]
        return f"{self.metric} {sign} {bound}"

    def too_coarse(self, examples: int, baseline: float = 1.0) -> str | None:
        """Why so many ``examples`` cannot show what the limit allows, and how many can; None where they do.

        For a share of right answers: it moves in steps of 1 / examples. ``baseline`` is its value (for a ratio).
        """
        if not self.kind.needs_baseline or unit_of(self.metric) != "fraction":
            return None
        is_ratio = self.kind in (LimitKind.MAX_RELATIVE, LimitKind.MIN_RELATIVE)
        allowed = abs(1 - self.amount) * abs(baseline) if is_ratio else self.amount
        if allowed == 0 or examples * allowed > 1 - 1e-9:
            return None
        return (
            f"{self.formula}: {examples} examples move it in steps of {1 / examples:.2g}, coarser than the "
            f"{allowed:.2g} that is allowed; evaluate on at least {math.ceil(1 / allowed - 1e-9):,}"
        )

    def undecidable(self, examples: int, level: float = 1.0) -> str | None:
        """Why so few ``examples`` cannot decide a limit on a recovery, whatever a model answers; None where they can.

        ``level`` is the share that the reference answers rightly (1 is the best case).
        """
        if not self.metric.endswith("_recovery_pct") or self.kind is not LimitKind.MIN:
            return None
        loss = 1 - self.amount / 100
        if loss <= 0:
            return f"{self.formula}: no number of examples shows that nothing is lost; allow a little, 99.5"
        least = examples_to_decide(loss, level=level)
        if examples >= least:
            return None
        usual = examples_to_decide(loss, _USUAL_CHANGES, level)
        return (
            f"{self.formula}: {examples:,} examples cannot decide it, even if a model answers all of them alike; "
            f"evaluate on at least {least:,}, or {usual:,} where {_USUAL_CHANGES:.0%} of the answers change"
        )

    def freeze(self, baseline: float | None) -> Bound:
        """The bound as a number. ValueError where a relative limit has no usable baseline (missing, NaN, 0)."""
        if not self.kind.needs_baseline:
            return Bound(self.metric, self.kind.is_upper, self.amount, self.formula)
        if baseline is None or not is_comparable(baseline):
            raise ValueError(
                f"{self.formula}: the baseline has no finite {self.metric}; write an absolute max or min"
            )
        if self.kind in (LimitKind.MAX_RELATIVE, LimitKind.MIN_RELATIVE):
            if baseline == 0:
                raise ValueError(
                    f"{self.formula}: the baseline's {self.metric} is 0; write an absolute max or min"
                )
            return Bound(self.metric, self.kind.is_upper, self.amount * baseline, self.formula)
        sign = 1 if self.kind is LimitKind.MAX_INCREASE else -1
        return Bound(self.metric, self.kind.is_upper, baseline + sign * self.amount, self.formula)


@dataclass(frozen=True)
class Bound:
    """A limit with its number known and frozen."""

    metric: str
    is_upper: bool
    value: float
    formula: str

    def violation(self, value: float | None) -> float:
        """By how much ``value`` breaks the limit: <= 0 is met; infinity where it is missing, NaN or infinite."""
        if value is None or not math.isfinite(value):
            return math.inf
        return value - self.value if self.is_upper else self.value - value

    def __str__(self) -> str:
        return f"{self.metric} {'<=' if self.is_upper else '>='} {self.value:.6g}"


def is_feasible(bounds: tuple[Bound, ...], values: Mapping[str, float]) -> bool:
    """True when every limit is met by these values."""
    return all(bound.violation(values.get(bound.metric)) <= 0 for bound in bounds)


def direction_of(
    metric: str, objectives: Sequence[Objective], constraints: Sequence[Constraint] = ()
) -> Direction | None:
    """Which way a metric is better: by the objectives, else the catalogue, else the side that is limited."""
    for objective in objectives:
        if objective.metric == metric:
            return objective.direction
    if metric in CATALOGUE:
        return CATALOGUE[metric].direction
    for constraint in constraints:
        if constraint.metric == metric:
            return Direction.MINIMIZE if constraint.kind.is_upper else Direction.MAXIMIZE
    return None


def why_invalid(
    objectives: Sequence[Objective], values: Mapping[str, float]
) -> tuple[FailureKind, str] | None:
    """Why a run that ended well still has no objective values: one is missing, NaN, infinite, or counts nothing.

    None where every objective is there and says something. Only such a run may be complete: a proposer that is told
    NaN or infinity keeps it for ever.
    """
    for objective in objectives:
        if objective.metric not in values:
            return FailureKind.MISSING_METRIC, _not_reported(objective.metric, values)
        value = values[objective.metric]
        if not is_comparable(value):
            said = f"not finite ({value})" if not math.isfinite(value) else why_not_comparable(value)
            return FailureKind.NON_FINITE, f"{objective.metric} is {said}"
        if counts_nothing(objective.metric, value, objective.direction):
            return FailureKind.UNSTABLE, f"{objective.metric} is {value:g}: nothing was completed"
    return None


def _not_reported(metric: str, values: Mapping[str, float]) -> str:
    near = difflib.get_close_matches(metric, list(values), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    came = ", ".join(sorted(values)) or "nothing"
    return f"{metric} was not reported; what came: {came}{hint}"
