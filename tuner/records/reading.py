"""Queries that read the records; a whole study takes six of them, however many trials it has."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Row, Select, and_, case, func, select, type_coerce

from trials.contract import FailureKind, Outcome, Purpose
from tuner.objectives import Objective
from tuner.records import codec
from tuner.records.cells import (
    Cells,
    DamagedCellError,
    as_mapping,
    counts,
    mapping,
    moment,
    path_text,
    read_cell,
    text,
    truth,
    whole,
)
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
    row = Cells(connection.execute(select(studies).where(studies.c.id == row_id)).one(), f"study {name!r}")
    objectives = row.get("objectives", codec.objectives_from_text)
    return StudyRecord(
        name=row.get("name", text),
        generation=row.get("generation", whole),
        created_at=row.get("created_at", moment),
        updated_at=row.get("updated_at", moment),
        file_text=row.get("file_text", text),
        file_path=row.get("file_path", path_text),
        definition=row.get("definition", mapping),
        objectives=objectives,
        constraints=row.get("constraints", codec.constraints_from_text),
        bounds=row.maybe("bounds", codec.bounds_from_text),
        reference_point=row.maybe("reference_point", lambda kept: _reference_point(kept, objectives)),
        rejected=row.get("rejected", counts),
        stopped_because=row.maybe("stopped_because", text),
        trials=_trials(connection, name, _chosen(row_id, only), is_whole=only is None),
        notes=row.get("notes", _notes),
    )


def _notes(kept: str) -> dict[str, Any]:
    """Free, but for those that everybody reads."""
    found = mapping(kept)
    for key in ("workload", "selection"):
        as_mapping(found.get(key) or {})
    return found


def _reference_point(kept: str, objectives: Sequence[Objective]) -> dict[str, float]:
    """By metric; LookupError where an objective has no number."""
    found = codec.numbers_from_plain(mapping(kept))
    missing = [objective.metric for objective in objectives if objective.metric not in found]
    if missing:
        raise LookupError(f"nothing for {', '.join(missing)}")
    return found


def trial_count(connection: Connection, name: str) -> int:
    """How many trials the latest generation of a study has."""
    of_study = trials.c.study_id == study_id(connection, name)
    return int(connection.scalar(select(func.count()).select_from(trials).where(of_study)) or 0)


def unfinished(connection: Connection, name: str) -> list[int]:
    """Numbers of the trials of the latest generation that have a measurement without an outcome."""
    is_open = and_(_chosen(study_id(connection, name), None), measurements.c.outcome.is_(None))
    return list(connection.scalars(_of(is_open, trials.c.number).distinct().order_by(trials.c.number)))


def load_summaries(
    connection: Connection, on_damage: Callable[[DamagedCellError], None]
) -> list[StudySummary]:
    """The latest generation of every study, the one that was written to last first.

    ``on_damage`` is told of a study that cannot be read, which is then left out.
    """
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
    by_outcome, taken = _outcomes(connection), _measurement_counts(connection)
    log_dirs = _log_dirs(connection)
    found = []
    for row in rows:
        try:
            found.append(_summary(row, by_outcome[row.id], taken.get(row.id, 0), log_dirs[row.name]))
        except DamagedCellError as damage:
            on_damage(damage)
    return found


def _summary(
    row: Row[*tuple[Any, ...]], by_outcome: Counter[str], taken: int, log_dirs: Sequence[Any]
) -> StudySummary:
    place = f"study {row.name!r}"
    cells = Cells(row, place)
    return StudySummary(
        name=cells.get("name", text),
        generation=cells.get("generation", whole),
        created_at=cells.get("created_at", moment),
        updated_at=cells.get("updated_at", moment),
        trials=sum(by_outcome.values()),
        measurements=taken,
        counts=dict(by_outcome),
        stopped_because=cells.maybe("stopped_because", text),
        log_dirs=tuple(read_cell(log_dir, "log_dir", path_text, place) for log_dir in log_dirs),
    )


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


def _trials(
    connection: Connection, study: str, chosen: ColumnElement[bool], *, is_whole: bool
) -> tuple[TrialRecord, ...]:
    rows = connection.execute(select(trials).where(chosen).order_by(trials.c.number)).all()
    places = {row.id: f"study {study!r}, trial {row.number!r}" for row in rows}
    taken: dict[int, list[MeasurementRecord]] = defaultdict(list)
    machines = _environments(connection, study, chosen)
    left_out = ("owner", "examples_id", "is_discarded")
    columns = [
        *(column for column in measurements.c if column.name not in left_out),
        type_coerce(measurements.c.is_discarded, Integer).label(
            "is_discarded"
        ),  # as it is kept, to look at it
    ]
    numbers = {row.id: Cells(row, places[row.id]).get("number", whole) for row in rows}
    if is_whole:
        _refuse_a_gap(study, list(numbers.values()))
    for row in connection.execute(_of(chosen, *columns).order_by(measurements.c.id)):
        cells = Cells(row, places[row.trial_id])
        taken[row.trial_id].append(_measurement(cells, numbers[row.trial_id], machines))
    return tuple(_trial(Cells(row, places[row.id]), taken[row.id]) for row in rows)


def _refuse_a_gap(study: str, numbers: Sequence[int]) -> None:
    """Trials are found by their place as well: one that was deleted would give its number to the next."""
    gap = next((place for place, number in enumerate(numbers) if place != number), None)
    if gap is not None:
        raise DamagedCellError(
            f"study {study!r}: its trial {gap}{'' if gap else ', the baseline,'} is missing"
        )


def _trial(row: Cells, taken: Sequence[MeasurementRecord]) -> TrialRecord:
    return TrialRecord(
        number=row.get("number", whole),
        config=row.get("config", mapping),
        proposed_by=row.get("proposed_by", text),
        measurements=tuple(taken),
        reused_from=row.maybe("reused_from", whole),
        forecast=row.maybe("forecast", codec.forecast_from_text),
    )


def _of(chosen: ColumnElement[bool], *columns: Any) -> Select[*tuple[Any, ...]]:
    """These columns of the measurements of the chosen trials."""
    return select(*columns).join(trials, trials.c.id == measurements.c.trial_id).where(chosen)


def _environments(
    connection: Connection, study: str, chosen: ColumnElement[bool]
) -> dict[str | None, Mapping[str, Any]]:
    used = _of(chosen, measurements.c.environment_digest).distinct()
    rows = connection.execute(select(environments).where(environments.c.digest.in_(used)))
    place = f"study {study!r}, an environment"
    return {row.digest: read_cell(row.body, "body", mapping, place) for row in rows}


def _measurement(
    row: Cells, number: int, machines: Mapping[str | None, Mapping[str, Any]]
) -> MeasurementRecord:
    body = row.get("body", codec.body_from_text)
    return MeasurementRecord(
        measurement_id=row.get("measurement_id", text),
        trial_number=number,
        purpose=row.get("purpose", Purpose),
        seed=row.get("seed", int),
        outcome=row.maybe("outcome", Outcome),
        failure_kind=row.maybe("failure_kind", FailureKind),
        message=body.message,
        metrics=body.metrics,
        phases=body.phases,
        proof=body.proof,
        facts=body.facts,
        environment=row.maybe("environment_digest", lambda digest: machines[text(digest)]) or {},
        warnings=body.warnings,
        log_dir=row.get("log_dir", path_text),
        started_at=row.get("started_at", moment),
        ended_at=row.maybe("ended_at", moment),
        is_discarded=row.get("is_discarded", truth),
        round_number=row.maybe("round_number", whole),
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
    by_outcome: dict[int, Counter[str]] = defaultdict(Counter)
    for found_id, found_rank, number in connection.execute(query.order_by(best.c.rank.desc())):
        by_outcome[found_id][_RANKS[found_rank]] = number
    return by_outcome


def _measurement_counts(connection: Connection) -> dict[int, int]:
    query = (
        select(trials.c.study_id, func.count())
        .join(measurements, measurements.c.trial_id == trials.c.id)
        .group_by(trials.c.study_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def _log_dirs(connection: Connection) -> dict[Any, list[Any]]:
    """Where the logs of each study are, older generations included, in the order they were written."""
    query = (
        select(studies.c.name, measurements.c.log_dir)
        .join(trials, trials.c.study_id == studies.c.id)
        .join(measurements, measurements.c.trial_id == trials.c.id)
        .group_by(studies.c.name, measurements.c.log_dir)
        .order_by(func.min(measurements.c.id))
    )
    found: dict[Any, list[Any]] = defaultdict(list)
    for name, log_dir in connection.execute(query):
        found[name].append(log_dir)
    return found
