"""What the records hold for a study that goes on: what was learned, what is owed, what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from trials.contract import FailureKind, Outcome, Purpose
from tuner.execution.cut import GUESSED
from tuner.execution.kept import kept_measurement
from tuner.loop.failure import without_values
from tuner.loop.fingerprint import machine_differences
from tuner.loop.tickets import Ticket, what_spoiled
from tuner.objectives import Objective
from tuner.records.repository import Records
from tuner.records.rows import GIVEN, MeasurementRecord, StudyRecord, TrialRecord
from tuner.results import TrialResult
from tuner.search.protocol import Observation


def observation_of(trial: TrialResult, objectives: Sequence[Objective]) -> Observation:
    """A judged trial as a sampler is told of it."""
    values = None if trial.losses is None else tuple(trial.estimates[o.metric].value for o in objectives)
    guessed = _guessed(trial) if trial.outcome is Outcome.PRUNED else {}
    unknown: tuple[float | None, float | None] = (None, None)
    rows = [guessed.get(o.metric, unknown) for o in objectives] if guessed else []
    if values is not None:
        rows = [(None, trial.estimates[o.metric].error) for o in objectives]
    return Observation(
        number=trial.number,
        config=dict(trial.config),
        outcome=trial.outcome or Outcome.FAILED,
        failure_kind=trial.failure_kind,
        values=values,
        violations=tuple(limit.gap for limit in trial.limits),
        # how long it took until it was cut is not what a whole trial costs
        cost_s=0.0 if trial.outcome is Outcome.PRUNED else trial.phases.get("wall_s", 0.0),
        errors=tuple(error for _, error in rows),
        partial=tuple(value for value, _ in rows) if values is None else (),
    )


def _guessed(trial: TrialResult) -> dict[str, tuple[float, float | None]]:
    """What a trial that was cut looked like then, by metric, with the standard error."""
    cut = [run for run in trial.measurements if run.outcome is Outcome.PRUNED]
    return dict(cut[-1].facts.get(GUESSED, {})) if cut else {}


def settled(runs: Iterable[MeasurementRecord]) -> list[MeasurementRecord]:
    """The measurements that ended and count, whatever they gave."""
    return [
        run
        for run in runs
        if run.outcome is not None
        and not run.is_discarded
        and run.failure_kind is not FailureKind.INTERRUPTED
        and run.purpose is not Purpose.VERIFY
    ]


def owed_tickets(record: StudyRecord, seed: int) -> list[Ticket]:
    """Searched configurations that have no result: the run was cut, if only before a second attempt."""
    return [_owed(trial, seed) for trial in record.trials[1:] if not settled(trial.measurements)]


def missing_repeats(runs: Iterable[MeasurementRecord], repeats: int, seed: int) -> list[int]:
    """Which of ``repeats`` runs with seeds ``seed``, ``seed + 1``, ... are missing among the settled ones."""
    seeds = [run.seed for run in runs]
    absent = [repeat for repeat in range(repeats) if seed + repeat not in seeds]
    return absent[: max(0, repeats - len(seeds))]  # under another seed, runs taken before count all the same


def next_round(record: StudyRecord) -> int:
    """The number of the next interleaved round."""
    rounds = [run.round_number for trial in record.trials for run in trial.measurements]
    return 1 + max((number for number in rounds if number is not None), default=-1)


def known_environment(record: StudyRecord) -> Mapping[str, Any]:
    """The machine that the study's numbers come from; empty before there are any."""
    kept = (run for trial in record.trials for run in settled(trial.measurements))
    return next((run.environment for run in kept if run.environment), {})


def spent_s(record: StudyRecord) -> float:
    """Seconds that earlier runs of this generation spent measuring.

    Measurements that ran side by side count once. How long one ran whose driver was killed nobody knows: it
    may have been closed days later, so it counts as nothing.
    """
    spans = sorted(
        (run.started_at, run.started_at + timedelta(seconds=run.phases.get("wall_s", 0.0)))
        for trial in record.trials
        for run in trial.measurements
        if run.outcome is not None and run.started_at >= record.created_at  # else taken over: paid for before
    )
    total, reached = timedelta(), datetime.min.replace(tzinfo=record.created_at.tzinfo)
    for begin, end in spans:
        total += max(timedelta(), end - max(begin, reached))
        reached = max(reached, end)
    return total.total_seconds()


def durations_s(record: StudyRecord) -> list[float]:
    """How long complete measurements took, cold ones aside."""
    return [
        run.phases["wall_s"]
        for trial in record.trials
        for run in settled(trial.measurements)
        if run.outcome is Outcome.COMPLETE and "wall_s" in run.phases
    ]


def adopt_finished(records: Records, study: str) -> list[int]:
    """Take over measurements that had ended when the run that took them died before it could record them.

    Returns the trials' numbers. A baseline's is not taken over: its cold run cannot be told from a repeat.
    """
    unfinished = records.unfinished(study)
    if not unfinished:
        return []
    record = records.study(study)
    environment, adopted = known_environment(record), []
    for trial in record.trials:
        for run in trial.measurements:
            if run.outcome is None and run.purpose is not Purpose.BASELINE:
                is_adopted = _adopt(records, record.objectives, trial, run, environment)
                adopted += [trial.number] if is_adopted else []
    return adopted


def _adopt(
    records: Records,
    objectives: Sequence[Objective],
    trial: TrialRecord,
    run: MeasurementRecord,
    environment: Mapping[str, Any],
) -> bool:
    kept = kept_measurement(Path(run.log_dir), run.measurement_id)
    if kept is None or machine_differences(environment, kept[1].environment):
        return False
    spec, measurement = kept[0], without_values(kept[1], objectives)
    is_first = run.purpose is not Purpose.RETRY and not _spoiled(trial, run.round_number)
    measurement = replace(measurement, facts={**measurement.facts, GIVEN: dict(spec.config)})
    is_discarded = is_first and what_spoiled(measurement) is not None
    records.finish_measurement(run.measurement_id, measurement, is_discarded=is_discarded)
    return True


def _owed(trial: TrialRecord, seed: int) -> Ticket:
    if _spoiled(trial, None):
        return Ticket(trial.number, Purpose.RETRY, seed, attempt=2)
    return Ticket(trial.number, Purpose.SEARCH, seed)


def _spoiled(trial: TrialRecord, round_number: int | None) -> bool:
    """Whether a first attempt of this round (None: of the search) was thrown away as spoiled."""
    return any(
        run.is_discarded and run.round_number == round_number and what_spoiled(run) is not None
        for run in trial.measurements
    )
