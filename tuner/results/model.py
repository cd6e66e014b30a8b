"""What judging gives: frozen values, read by the command line, the tracker, the dashboards and the export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trials.contract import FailureKind, Outcome
from tuner.comparison import Difference, Estimate, LimitStatus
from tuner.objectives import Bound, Objective
from tuner.records.rows import MeasurementRecord, StudyRecord
from tuner.results.patterns import FailurePattern, FailureTable, Influence

BASELINE = 0


@dataclass(frozen=True)
class LimitResult:
    """A limit on one trial. ``gap``: how far it is broken, in the metric's unit (<= 0 met, inf unknown)."""

    bound: Bound
    status: LimitStatus
    value: float | None
    gap: float


@dataclass(frozen=True)
class TrialResult:
    """One configuration, judged.

    ``outcome`` None: not measured yet. ``losses`` are the objectives turned so that smaller is better, None
    unless complete. ``estimates`` rest on the confirmation runs once there are two, on all runs before.
    ``is_feasible`` (None unless complete) is False when its value breaks a limit, surely or not; the baseline's,
    from which limits are drawn, when it surely does. ``changes`` names the parameters that differ from the
    baseline's. ``gain`` is against the baseline, by objective. ``is_reliable`` False: its confirmation
    failed as often as it worked.
    """

    number: int
    config: Mapping[str, Any]
    proposed_by: str
    outcome: Outcome | None
    failure_kind: FailureKind | None
    message: str
    estimates: Mapping[str, Estimate]
    losses: tuple[float, ...] | None
    limits: tuple[LimitResult, ...]
    is_feasible: bool | None
    is_confirmed: bool
    is_reliable: bool
    changes: tuple[str, ...]
    gain: Mapping[str, Difference]
    phases: Mapping[str, float]
    log_dir: str
    measurements: tuple[MeasurementRecord, ...]
    on_front: bool = False
    is_tied_with: tuple[int, ...] = ()

    @property
    def has_undecided_limit(self) -> bool:
        """True while the interval of a limited metric contains the limit."""
        return bool(self.undecided_limits)

    @property
    def undecided_limits(self) -> tuple[LimitResult, ...]:
        """The limits that lie within the interval of their metric."""
        return tuple(limit for limit in self.limits if limit.status is LimitStatus.UNDECIDED)

    @property
    def point(self) -> tuple[float, ...]:
        """The losses of a complete trial. ValueError for another."""
        if self.losses is None:
            raise ValueError(f"trial {self.number} is not complete, it has no objective values")
        return self.losses

    @property
    def may_be_on_front(self) -> bool:
        """Complete, no limit broken, and not failing when measured again."""
        return self.losses is not None and self.is_feasible is not False and self.is_reliable


@dataclass(frozen=True)
class Recommendation:
    """Which trial to take, why, and what it gives up against others on the front (one line each).

    ``left_out`` says, one line a reason, which trials were no candidates although they were nearly chosen.
    ``nearest`` are the first others by the rule where it is the baseline.
    """

    trial: int
    reason: str
    gives_up: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    nearest: tuple[int, ...] = ()


@dataclass(frozen=True)
class NearestMiss:
    """Where nothing is feasible: the trial that breaks its limits least, and its worst limit."""

    trial: int
    limit: LimitResult

    def __str__(self) -> str:
        bound = self.limit.bound
        if self.limit.value is None:
            return f"trial {self.trial}, {bound.metric} was not measured (limit {bound})"
        sign = ">" if bound.is_upper else "<"
        return f"trial {self.trial}, {bound.metric} {self.limit.value:.6g} {sign} {bound.value:.6g}"


@dataclass(frozen=True)
class CutShort:
    """Trials that were cut since they could not reach the front; ``saved_s`` is an estimate against ``whole_s``,
    the median length of a whole trial (None: there is none to compare with).
    """

    trials: int = 0
    whole_s: float | None = None
    saved_s: float = 0.0


@dataclass(frozen=True)
class StudyResult:
    """A study, judged.

    ``front`` lists trial numbers, ascending; ``copies`` groups members with exactly the same values.
    ``noise_floor`` is the relative run-to-run standard deviation by metric, from the baseline's repeats.
    ``hypervolume`` is the front's, ``history`` the same over trials in order, by their search values
    (None and empty before the reference point is known). ``warnings`` are remarks on the numbers themselves.
    """

    record: StudyRecord
    bounds: tuple[Bound, ...]
    trials: tuple[TrialResult, ...]
    front: tuple[int, ...]
    copies: tuple[tuple[int, ...], ...]
    counts: Mapping[str, int]
    failures: Mapping[str, int]
    noise_floor: Mapping[str, float]
    hypervolume: float | None
    history: tuple[tuple[int, float], ...]
    nearest_miss: NearestMiss | None
    influences: tuple[Influence, ...]
    failure_patterns: tuple[FailurePattern, ...]
    recommended: Recommendation | None = None
    failure_table: FailureTable | None = None
    warnings: tuple[str, ...] = ()
    cut_short: CutShort = CutShort()

    @property
    def name(self) -> str:
        """The study's name."""
        return self.record.name

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is optimised, first the main one."""
        return self.record.objectives

    @property
    def has_baseline(self) -> bool:
        """True once trial 0 is in the records."""
        return BASELINE in self._by_number

    @property
    def baseline(self) -> TrialResult:
        """Trial 0. KeyError before it is recorded."""
        return self.trial(BASELINE)

    def trial(self, number: int) -> TrialResult:
        """A trial by its number. KeyError, naming the numbers there are, for another."""
        if number not in self._by_number:
            last = max(self._by_number, default=None)
            there = "no trials yet" if last is None else f"trials 0 to {last}"
            raise KeyError(f"study {self.name} has no trial {number}; it has {there}")
        return self._by_number[number]

    @property
    def front_trials(self) -> tuple[TrialResult, ...]:
        """The members of the front."""
        return tuple(self.trial(number) for number in self.front)

    @cached_property
    def _by_number(self) -> dict[int, TrialResult]:
        return {trial.number: trial for trial in self.trials}
