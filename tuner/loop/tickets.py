"""One measurement to take: what the trial is given, and whether it must be taken once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from trials.contract import FailureKind, Outcome, Purpose, TrialSpec
from tuner.space.model import StudyFile
from tuner.space.space import Config

_ITS_OWN_FAULT = frozenset(
    {
        FailureKind.CRASH,
        FailureKind.UNSUPPORTED,
        FailureKind.ENGINE_START,
        FailureKind.NON_FINITE,
        FailureKind.MISSING_METRIC,
    }
)
"""Failures that foreign load does not cause: the same would happen again."""
_FROM_OUTSIDE = frozenset({FailureKind.KILLED, FailureKind.INTERRUPTED})


@dataclass(frozen=True)
class Ticket:
    """One measurement to take: which trial, why, with which seed; ``is_cold`` marks the run to throw away."""

    number: int
    purpose: Purpose
    seed: int
    round_number: int | None = None
    is_cold: bool = False
    attempt: int = 1


def trial_spec(
    file: StudyFile,
    ticket: Ticket,
    config: Config,
    measurement_id: str,
    folder: Path,
    report_at: tuple[float, ...] = (),
) -> TrialSpec:
    """What the trial is given; the study's trials share a cache beside their folders."""
    return TrialSpec(
        study=file.name,
        trial_number=ticket.number,
        measurement_id=measurement_id,
        purpose=ticket.purpose,
        workload=file.workload,
        config=file.space.resolve(config),
        seed=ticket.seed,
        trial_dir=folder,
        cache_dir=folder.parent / "cache",
        parameters=tuple(p.name for p in file.space.parameters),
        wanted=file.wanted,
        timeout_s=file.budget.trial_timeout_s,
        memory_limit_gib=file.resources.memory_gib,
        report_at=report_at,
    )


class Ended(Protocol):
    """A measurement as it came, or as it is recorded."""

    @property
    def outcome(self) -> Outcome | None:
        """How it ended."""
        ...

    @property
    def failure_kind(self) -> FailureKind | None:
        """Why it failed."""
        ...

    @property
    def message(self) -> str:
        """What there is to say about it."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """``contaminated`` among them where something disturbed it."""
        ...


def what_spoiled(run: Ended) -> str | None:
    """What came from outside and spoiled the measurement; None where its result stands."""
    if run.failure_kind in _FROM_OUTSIDE:
        return f"{run.failure_kind}: {run.message}"
    contaminated = run.facts.get("contaminated")
    return str(contaminated) if contaminated and run.failure_kind not in _ITS_OWN_FAULT else None


def second_attempt(ticket: Ticket, run: Ended) -> Ticket | None:
    """The ticket to measure again with; None where the result stands. Nothing is taken more than twice.

    A cold run is thrown away whatever disturbed it, so only one that did not end by itself is taken again.
    """
    is_disturbed_cold = ticket.is_cold and run.outcome is Outcome.COMPLETE
    if ticket.attempt > 1 or is_disturbed_cold or what_spoiled(run) is None:
        return None
    purpose = Purpose.RETRY if ticket.purpose is Purpose.SEARCH else ticket.purpose
    return replace(ticket, purpose=purpose, attempt=2)
