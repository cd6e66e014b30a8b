"""The largest load that meets the service level, by a short ramp that does not take for granted that more is worse.

Levels double until the server no longer keeps up with what comes. A level that is missed although the server kept up
does not end the ramp (batching can make a higher load answer faster); two in a row do. Then the gap between
the largest level met and the smallest one missed above it is halved, in ratios, and the largest level met is measured
once more: that window's numbers are the result. Where that one misses, the next smaller level met takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trials.contract import FailureKind, MetricValue, TrialFailure
from trials.metrics import Key, unit_of
from trials.serving.load_settings import CONCURRENCY, Find
from trials.serving.window import Window

KEPT_UP = 0.9
"""A server that completes less than this share of what comes falls behind."""
CLOSE_ENOUGH = 1.1
MISSES_IN_A_ROW = 2
LOWEST_SHARE = 1 / 16
"""How far below the first level a level is looked for where that one is missed."""


@dataclass(frozen=True)
class Probe:
    """A level of load and what came of it. ``is_behind``: the server (or the client) could not keep up."""

    level: float
    misses: tuple[str, ...]
    is_behind: bool
    window: Window | None

    @property
    def is_met(self) -> bool:
        """Whether the service level held."""
        return not self.misses and not self.is_behind


@dataclass
class Ramp:
    """Looks for the level; ``probe`` loads the server at one and says what came of it."""

    find: Find
    probe: Callable[[float], Probe]
    event: Callable[..., None]
    probes: list[Probe] = field(default_factory=list)

    def run(self, start: float) -> tuple[Probe, MetricValue]:
        """The final probe at the level found, and the capacity. TrialFailure where no level meets the SLO."""
        start = self._legal(min(max(start, self.find.low or 0.0), self.find.high or math.inf))
        self._double_from(start)
        self._go_down_from(start)
        self._halve_gap()
        return self._confirmed()

    def _double_from(self, level: float) -> None:
        in_a_row = 0
        while self._may_go_on():
            probe = self._try(level)
            in_a_row = 0 if probe.is_met else in_a_row + 1
            if probe.is_behind or in_a_row >= MISSES_IN_A_ROW or level >= (self.find.high or math.inf):
                return
            level = self._legal(min(2 * level, self.find.high or math.inf))

    def _go_down_from(self, start: float) -> None:
        lowest = max(self.find.low or 0.0, start * LOWEST_SHARE, 1.0 if self._is_whole else 0.0)
        level = start
        while not self._best() and self._may_go_on() and level > lowest:
            level = self._legal(max(level / 2, lowest))
            if self._known(level):
                return
            self._try(level)

    def _halve_gap(self) -> None:
        while self._may_go_on():
            best = self._best()
            above = [p.level for p in self.probes if best and p.level > best.level and not p.is_met]
            if best is None or not above or min(above) / best.level <= CLOSE_ENOUGH:
                return
            level = self._legal(math.sqrt(best.level * min(above)))
            if self._known(level):
                return
            self._try(level)

    def _confirmed(self) -> tuple[Probe, MetricValue]:
        """Measured again: of many probes near the edge, the one that was lucky would win."""
        for met in sorted((p for p in self.probes if p.is_met), key=lambda p: -p.level):
            again = self._try(met.level, purpose="confirm")
            if again.is_met and again.window:
                return again, self._capacity(again)
        tried = "; ".join(f"{p.level:.4g}: {', '.join(p.misses) or 'fell behind'}" for p in self.probes)
        raise TrialFailure(
            FailureKind.UNSTABLE, f"no level of {self.find.what} meets the service level ({tried})"
        )

    def _capacity(self, final: Probe) -> MetricValue:
        window = final.window
        assert window is not None
        value = len(window.in_time) / window.seconds
        missed = [p.level for p in self.probes if not p.is_met and p.level > final.level]
        above = f"missed at {min(missed):.4g}" if missed else "nothing above it was missed"
        return MetricValue(
            value,
            unit_of(Key.CAPACITY_REQUESTS_PER_S),
            len(window.in_time),
            low=value,
            high=value * min(missed) / final.level if missed else None,
            method=f"{self.find.what} {final.level:.4g} meets the service level, measured twice; {above} "
            f"({len(self.probes)} probes)",
        )

    def _try(self, level: float, purpose: str = "probe") -> Probe:
        probe = self.probe(level)
        self.probes.append(probe)
        misses = ", ".join(probe.misses) or ("fell behind" if probe.is_behind else "")
        self.event(purpose, level=round(level, 4), is_met=probe.is_met, misses=misses)
        return probe

    def _best(self) -> Probe | None:
        return max((p for p in self.probes if p.is_met), key=lambda p: p.level, default=None)

    def _may_go_on(self) -> bool:
        return len(self.probes) < self.find.probes

    def _known(self, level: float) -> bool:
        return any(math.isclose(p.level, level, rel_tol=0.01) for p in self.probes)

    @property
    def _is_whole(self) -> bool:
        return self.find.what == CONCURRENCY

    def _legal(self, level: float) -> float:
        """Concurrency is a whole number of at least 1."""
        return float(max(1, round(level))) if self._is_whole else level


def fell_behind(window: Window, rate: float | None) -> bool:
    """Whether fewer requests were completed than came (a closed loop never falls behind)."""
    if rate is None:
        return False
    came = window.counted / window.seconds
    return len(window.in_time) / window.seconds < KEPT_UP * came


__all__ = ["Probe", "Ramp", "fell_behind"]
