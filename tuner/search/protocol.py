"""Who proposes the next configuration: ask and tell, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from trials.contract import FailureKind, Outcome
from tuner.objectives import Objective
from tuner.space.space import Config, Space


@dataclass(frozen=True)
class Observation:
    """What a sampler is told about a configuration that was measured.

    ``values`` are the objectives' values in the study's order, None unless complete and finite;
    ``violations`` one number per limit (<= 0 is met, inf where unknown), empty unless complete; ``errors``
    the standard error of each value, None where it is not known (empty: of none).
    A ``pruned`` trial was cut short because it could not reach the front any more: it has no ``values``, it
    has not failed, and ``partial`` holds the best guess of each objective by then (None: there is none), with
    ``errors`` of these guesses.
    """

    number: int
    config: Config
    outcome: Outcome
    failure_kind: FailureKind | None = None
    values: tuple[float, ...] | None = None
    violations: tuple[float, ...] = ()
    cost_s: float = 0.0
    errors: tuple[float | None, ...] = ()
    partial: tuple[float | None, ...] = ()

    @property
    def is_feasible(self) -> bool:
        """Complete, and every limit met."""
        return self.values is not None and all(v <= 0 for v in self.violations)


class Expected(NamedTuple):
    """What a model expects one run to give of one metric, in its unit: the middle, and 95% lie between."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Proposal:
    """A configuration to measure. ``reason`` is shown by ``show``: 'exploit', 'explore', 'random', ...

    A sampler with a model says what it expected: by objective metric, and the probability that the
    configuration runs and meets every limit. Both None where there is no model.
    """

    config: Config
    reason: str
    expected: Mapping[str, Expected] | None = None
    probability_ok: float | None = None


@dataclass(frozen=True)
class SearchProblem:
    """What a sampler is built from. ``budget_trials`` is the study's total."""

    space: Space
    objectives: tuple[Objective, ...]
    seed: int
    budget_trials: int


class Sampler(Protocol):
    """Proposes configurations that were never proposed or told before and that no rule rejects.

    Reproducible: the n-th ask after the same tells gives the same proposal, also in another process (an ask is
    seeded from (seed, number)); hence a study can be resumed by telling what the records hold.
    """

    def ask(self, number: int, pending: Sequence[Config]) -> Proposal | None:
        """The configuration for trial ``number``; ``pending`` ones are running now. None: nothing is left."""
        ...

    def tell(self, observation: Observation) -> None:
        """Learn a result. A configuration outside the space (a baseline off the grid) is accepted and not used."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """How many configurations each rule kept from being proposed, so far."""
        ...


Settings = Mapping[str, Any]
