"""Queries that read the records; a whole study takes six of them, however many trials it has."""

from __future__ import annotations

import difflib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, select

from trials.contract import FailureKind, Outcome, Purpose
from tuner.records import codec
from tuner.records.errors import UnknownStudy
from tuner.records.rows import MeasurementRecord, StudyRecord, StudySummary, TrialRecord
from tuner.records.tables import environments, measurements, studies, trials

UNFINISHED = "unfinished"
"""What ``StudySummary.counts`` calls a trial that no measurement has ended for: it runs, or was cut off."""

_RANKS: dict[int, str] = {
    3: Outcome.COMPLETE.value,
    2: Outcome.PRUNED.value,
    1: Outcome.FAILED.value,
    0: UNFINISHED,
}


def study_id(connection: Connection, name: str, generation: int | None = None) -> int:
    """The row of a study's generation, the latest where None. UnknownStudy with the nearest names."""
    query = select(studies.c.id).where(studies.c.name == name)
    if generation is not None:
        query = query.where(studies.c.generation == generation)
    found = connection.scalar(query.order_by(studies.c.generation.desc()).limit(1))
    if found is None:
        raise _unknown(connection, name)
    return int(found)


def load_study(
    connection: Connection, name: str, generation: int | None, only: Collection[int] | None
) -> StudyRecord:
    """A study with all its trials (or ``only`` these), in the order of their numbers."""
    row_id = study_id(connection, name, generation)
    row = connection.execute(select(studies).where(studies.c.id == row_id)).one()
    return StudyRecord(
        name=row.name,
        generation=row.generation,
        created_at=datetime.fromisoformat(row.created_at),
        updated_at=datetime.fromisoformat(row.updated_at),
        file_text=row.file_text,
        file_path=row.file_path,
        definition=json.loads(row.definition),
        objectives=codec.objectives_from_text(row.objectives),
        constraints=codec.constraints_from_text(row.constraints),
        bounds=None if row.bounds is None else codec.bounds_from_text(row.bounds),
        reference_point=(
            None if row.reference_point is None else codec.numbers_from_plain(json.loads(row.reference_point))
        ),
        rejected=json.loads(row.rejected),
        stopped_because=row.stopped_because,
        trials=_trials(connection, _chosen(row_id, only)),
        notes=json.loads(row.notes),
    )


def trial_count(connection: Connection, name: str) -> int:
    """How many trials the latest generation of a study has."""
    of_study = trials.c.study_id == study_id(connection, name)
    return int(connection.scalar(select(func.count()).select_from(trials).where(of_study)) or 0)


def unfinished(connection: Connection, name: str) -> list[int]:
    """Numbers of the trials of the latest generation that have a measurement without an outcome."""
    is_open = and_(_chosen(study_id(connection, name), None), measurements.c.outcome.is_(None))
    return list(connection.scalars(_of(is_open, trials.c.number).distinct().order_by(trials.c.number)))


def load_summaries(connection: Connection) -> list[StudySummary]:
    """The latest generation of every study, the one that was written to last first."""
    newest = select(func.max(studies.c.id)).group_by(studies.c.name)
    rows = connection.execute(
        select(
            studies.c.id,
            studies.c.name,
            studies.c.generation,
            studies.c.created_at,
            studies.c.updated_at,
            studies.c.stopped_because,
        )
        .where(studies.c.id.in_(newest))
        .order_by(studies.c.updated_at.desc(), studies.c.id.desc())
    ).all()
    counts, taken, log_dirs = _outcomes(connection), _measurement_counts(connection), _log_dirs(connection)
    return [
        StudySummary(
            name=row.name,
            generation=row.generation,
            created_at=datetime.fromisoformat(row.created_at),
            updated_at=datetime.fromisoformat(row.updated_at),
            trials=sum(counts[row.id].values()),
            measurements=taken.get(row.id, 0),
            counts=dict(counts[row.id]),
            stopped_because=row.stopped_because,
            log_dirs=tuple(log_dirs[row.name]),
        )
        for row in rows
    ]


def _unknown(connection: Connection, name: str) -> UnknownStudy:
    known = list(connection.scalars(select(studies.c.name).distinct()))
    near = difflib.get_close_matches(name, known, n=3)
    if name in known:
        return UnknownStudy(f"study {name!r} has no such generation")
    if near:
        return UnknownStudy(f"no study {name!r} in these records; did you mean {' or '.join(near)}?")
    names = ", ".join(sorted(known)[:10]) or "none"
    return UnknownStudy(f"no study {name!r} in these records; recorded are: {names}")


def _chosen(row_id: int, only: Collection[int] | None) -> ColumnElement[bool]:
    """The condition that a trial is one of those asked for."""
    of_study = trials.c.study_id == row_id
    return of_study if only is None else and_(of_study, trials.c.number.in_(only))


def _trials(connection: Connection, chosen: ColumnElement[bool]) -> tuple[TrialRecord, ...]:
    rows = connection.execute(select(trials).where(chosen).order_by(trials.c.number)).all()
    numbers = {row.id: row.number for row in rows}
    taken: dict[int, list[MeasurementRecord]] = defaultdict(list)
    machines = _environments(connection, chosen)
    columns = [column for column in measurements.c if column.name not in ("owner", "examples_id")]
    for row in connection.execute(_of(chosen, *columns).order_by(measurements.c.id)):
        taken[row.trial_id].append(_measurement(row, numbers[row.trial_id], machines))
    return tuple(
        TrialRecord(
            row.number,
            json.loads(row.config),
            row.proposed_by,
            tuple(taken[row.id]),
            row.reused_from,
            None if row.forecast is None else codec.forecast_from_text(row.forecast),
        )
        for row in rows
    )


def _of(chosen: ColumnElement[bool], *columns: Any) -> Select[*tuple[Any, ...]]:
    """These columns of the measurements of the chosen trials."""
    return select(*columns).join(trials, trials.c.id == measurements.c.trial_id).where(chosen)


def _environments(connection: Connection, chosen: ColumnElement[bool]) -> dict[str | None, Mapping[str, Any]]:
    used = _of(chosen, measurements.c.environment_digest).distinct()
    rows = connection.execute(select(environments).where(environments.c.digest.in_(used)))
    return {row.digest: json.loads(row.body) for row in rows}


def _measurement(
    row: Row[*tuple[Any, ...]], number: int, machines: Mapping[str | None, Mapping[str, Any]]
) -> MeasurementRecord:
    body = json.loads(row.body) if row.body else {}
    return MeasurementRecord(
        measurement_id=row.measurement_id,
        trial_number=number,
        purpose=Purpose(row.purpose),
        seed=int(row.seed),
        outcome=None if row.outcome is None else Outcome(row.outcome),
        failure_kind=None if row.failure_kind is None else FailureKind(row.failure_kind),
        message=body.get("message", ""),
        metrics=codec.metrics_from_plain(body.get("metrics", {})),
        phases=codec.numbers_from_plain(body.get("phases", {})),
        proof=body.get("proof", {}),
        facts=body.get("facts", {}),
        environment=machines.get(row.environment_digest, {}),
        warnings=tuple(body.get("warnings", ())),
        log_dir=row.log_dir,
        started_at=datetime.fromisoformat(row.started_at),
        ended_at=None if row.ended_at is None else datetime.fromisoformat(row.ended_at),
        is_discarded=row.is_discarded,
        round_number=row.round_number,
    )


def _outcomes(connection: Connection) -> dict[int, Counter[str]]:
    """Trials by their best outcome (of measurements that count), per generation."""
    words = {outcome: rank for rank, outcome in _RANKS.items()}
    rank = case(
        (measurements.c.is_discarded, 0),
        *((measurements.c.outcome == word, rank) for word, rank in words.items()),
        else_=0,
    )
    best = (
        select(trials.c.study_id, func.max(func.coalesce(rank, 0)).label("rank"))
        .outerjoin(measurements, measurements.c.trial_id == trials.c.id)
        .group_by(trials.c.id, trials.c.study_id)
        .subquery()
    )
    query = select(best.c.study_id, best.c.rank, func.count()).group_by(best.c.study_id, best.c.rank)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for found_id, found_rank, number in connection.execute(query.order_by(best.c.rank.desc())):
        counts[found_id][_RANKS[found_rank]] = number
    return counts


def _measurement_counts(connection: Connection) -> dict[int, int]:
    query = (
        select(trials.c.study_id, func.count())
        .join(measurements, measurements.c.trial_id == trials.c.id)
        .group_by(trials.c.study_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def _log_dirs(connection: Connection) -> dict[str, list[str]]:
    """Where the logs of each study are, older generations included, in the order they were written."""
    query = (
        select(studies.c.name, measurements.c.log_dir)
        .join(trials, trials.c.study_id == studies.c.id)
        .join(measurements, measurements.c.trial_id == trials.c.id)
        .group_by(studies.c.name, measurements.c.log_dir)
        .order_by(func.min(measurements.c.id))
    )
    found: dict[str, list[str]] = defaultdict(list)
    for name, log_dir in connection.execute(query):
        found[name].append(log_dir)
    return found
