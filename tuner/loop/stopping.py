"""When a search has had enough: time, failures that repeat, no gain any more."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from trials.contract import FailureKind, Measurement, Outcome
from tuner.objectives import Objective
from tuner.pareto import FrontTracker
from tuner.search.protocol import Observation

_ORDINARY = {FailureKind.OUT_OF_MEMORY, FailureKind.TIMEOUT, FailureKind.NON_FINITE, FailureKind.INTERRUPTED}
"""Failures that a region of a space may have for good reasons; many in a row say nothing about the set-up."""
_SMALLEST_GAIN = 0.001
"""Share of the hypervolume: less is not worth going on for, however quiet the machine."""
_SURELY = 2 * math.sqrt(2)
"""Standard errors that a value is made worse by before it counts: the front that it is held against has its own."""


class TimeBudget:
    """Wall time of a study, and how many further measurements fit into what is left.

    ``limit_s`` None never ends. ``spent_s`` is what earlier runs of the same study took; ``at_once`` is how
    many measurements run side by side.
    """

    def __init__(
        self, limit_s: float | None, clock: Callable[[], float], spent_s: float = 0.0, at_once: int = 1
    ) -> None:
        self.limit_s = limit_s if limit_s is not None else float("inf")
        self._clock = clock
        self._begin = clock() - spent_s
        self._at_once = at_once
        self._total_s, self._count = 0.0, 0

    def add(self, seconds: float) -> None:
        """One complete measurement took so long."""
        self._total_s += seconds
        self._count += 1

    @property
    def left_s(self) -> float:
        """Seconds left; infinite without a limit."""
        return self.limit_s - (self._clock() - self._begin)

    @property
    def room(self) -> float:
        """How many whole measurements of mean duration fit into the time left; infinite while none is known."""
        mean_s = self._total_s / self._count if self._count else 0.0
        if mean_s <= 0 or math.isinf(self.left_s):
            return math.inf
        return self._at_once * math.floor(self.left_s / mean_s)

    def is_over(self) -> bool:
        """True when no time is left."""
        return self.left_s <= 0


class FailureStreak:
    """Counts equal failures in a row: when every trial dies of one cause, the set-up is wrong."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cause: tuple[FailureKind | None, str] | None = None
        self._first_message = ""
        self._count = 0

    def add(self, measurement: Measurement) -> None:
        """Count a measurement of the search."""
        if measurement.outcome is not Outcome.FAILED or measurement.failure_kind in _ORDINARY:
            self._cause, self._count = None, 0
            return
        cause = (measurement.failure_kind, _essence(measurement.message))
        if cause != self._cause:
            self._cause, self._count, self._first_message = cause, 0, measurement.message
        self._count += 1

    @property
    def is_full(self) -> bool:
        """True when the limit is reached."""
        return self._count >= self._limit

    @property
    def explanation(self) -> str:
        """What happened, for the user."""
        kind = self._cause[0] if self._cause else None
        return f"{self._count} equal failures in a row ({kind}), the first was: {self._first_message}"


class GainWatch:
    """Follows the hypervolume of the feasible front; speaks up after ``patience`` trials without gain.

    A gain counts when it is beyond the noise: with every objective made worse by twice the standard error of
    a difference, the trials since the last gain still add to the front that there was then. So a lucky run is
    no gain, and several small steps that together leave the noise are one.
    """

    def __init__(self, objectives: Sequence[Objective], patience: int | None) -> None:
        self._objectives = tuple(objectives)
        self._patience = patience
        self._noise: Mapping[str, float] = {}
        self._front: FrontTracker | None = None
        self._sure: FrontTracker | None = None  # the front at the last gain, and what is surely better since
        self._best = 0.0  # hypervolume of the front at the last gain
        self._since = 0

    @property
    def hypervolume(self) -> float:
        """Hypervolume of the feasible trials so far."""
        return self._front.hypervolume if self._front else 0.0

    def begin(self, reference: Mapping[str, float], noise_floor: Mapping[str, float]) -> None:
        """The baseline is known: the reference point, and by metric the relative spread from run to run.

        That spread stands in where an observation does not know its own error.
        """
        self._noise = noise_floor
        corner = [o.loss(reference[o.metric]) for o in self._objectives]
        self._front, self._sure = FrontTracker(corner), FrontTracker(corner)

    def add(self, observation: Observation) -> None:
        """Count a trial of the search."""
        self._since += observation.number != 0  # the baseline is what others must gain upon
        if self._front is None or self._sure is None or not observation.is_feasible:
            return
        point = [o.loss(v) for o, v in zip(self._objectives, observation.values or (), strict=True)]
        self._front.add(point)
        errors = self._errors(observation)
        sure = self._sure.add([loss + _SURELY * error for loss, error in zip(point, errors, strict=True)])
        if sure > self._best * (1 + _SMALLEST_GAIN):
            self._sure = self._front.copy()
            self._best, self._since = self._front.hypervolume, 0

    def _errors(self, observation: Observation) -> list[float]:
        """The standard error of each objective; of the baseline's relative spread where it is not known."""
        values = observation.values or ()
        known = observation.errors or (None,) * len(values)
        return [
            abs(value) * self._noise.get(o.metric, 0.0) if error is None else error
            for o, value, error in zip(self._objectives, values, known, strict=True)
        ]

    def why_stop(self) -> str | None:
        """The reason to stop, or None."""
        if self._patience is None or self._since < self._patience:
            return None
        return f"no gain in the last {self._since} trials"


def _essence(message: str) -> str:
    """First and last line, where the cause stands in a message that ends with a log, without numbers."""
    lines = message.strip().splitlines() or [""]
    return re.sub(r"[0-9a-f]*\d[0-9a-f.]*", "#", f"{lines[0][:200]} {lines[-1][:200]}")
