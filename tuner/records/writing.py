"""The steps that the repository's transactions are made of. None commits by itself."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from tuner.objectives import Constraint, Objective
from tuner.records import codec, reading
from tuner.records.cells import mapping, read_cell
from tuner.records.errors import RecordsError, UnknownStudy
from tuner.records.tables import environments, measurements, studies, trials
from tuner.space.space import config_key

_COPIED = ("config", "config_digest", "proposed_by", "forecast")


def study_values(
    name: str,
    generation: int,
    file_text: str,
    file_path: str | Path,
    definition: Mapping[str, Any],
    objectives: Iterable[Objective],
    constraints: Iterable[Constraint],
) -> dict[str, Any]:
    """The row of a new generation."""
    now = codec.now_text()
    return {
        "name": name,
        "generation": generation,
        "created_at": now,
        "updated_at": now,
        "file_text": file_text,
        "file_path": str(file_path),
        "definition": codec.to_text(definition),
        "objectives": codec.objectives_to_text(objectives),
        "constraints": codec.constraints_to_text(constraints),
    }


def config_text(config: Mapping[str, Any]) -> tuple[str, str]:
    """A configuration as it is kept, and the digest that finds it. RecordsError where it is not plain."""
    try:
        return json.dumps(dict(config), allow_nan=False), codec.digest(config_key(config))
    except (TypeError, ValueError) as error:
        raise RecordsError(f"a configuration holds plain finite values only: {error}") from error


def touch(connection: Connection, name: str) -> int:
    """The study's latest row, stamped; where rows are locked, this makes writers of one study queue up."""
    row_id = reading.study_id(connection, name)
    touch_id(connection, row_id)
    return row_id


def touch_id(connection: Connection, row_id: int) -> None:
    """Stamp the row as written to now."""
    set_column(connection, row_id, "updated_at", codec.now_text())


def set_column(connection: Connection, row_id: int, column: str, value: str | None) -> None:
    """Change one column of a study's row."""
    connection.execute(update(studies).where(studies.c.id == row_id).values({column: value}))


def document(connection: Connection, row_id: int, column: str) -> dict[str, Any]:
    """One of the JSON columns of a study's row, as a map."""
    query = select(studies.c.name, studies.c[column]).where(studies.c.id == row_id)
    found = connection.execute(query).one()
    return read_cell(found[1], column, mapping, f"study {found[0]!r}")


def number_of(connection: Connection, row_id: int, digest: str) -> int | None:
    """The number of the trial with this configuration, None where there is none."""
    found = select(trials.c.number).where(trials.c.study_id == row_id, trials.c.config_digest == digest)
    number: int | None = connection.scalar(found)
    return number


def next_number(connection: Connection, row_id: int) -> int:
    """The number that the next trial of the generation gets; a look at one end of an index."""
    last = connection.scalar(select(func.max(trials.c.number)).where(trials.c.study_id == row_id))
    return 0 if last is None else int(last) + 1


def trial_row(connection: Connection, row_id: int, number: int) -> Row[*tuple[Any, ...]]:
    """A trial by its number. UnknownStudy where there is none."""
    query = select(trials).where(trials.c.study_id == row_id, trials.c.number == number)
    found = connection.execute(query).one_or_none()
    if found is None:
        raise UnknownStudy(f"the study has no trial {number}")
    return found


def measurement_row(connection: Connection, measurement_id: str) -> Row[*tuple[Any, ...]]:
    """What must be known of a measurement to change it. UnknownStudy where there is none."""
    columns = (measurements.c.id, measurements.c.outcome, measurements.c.body, measurements.c.examples_id)
    query = (
        select(*columns, trials.c.study_id)
        .join(trials, trials.c.id == measurements.c.trial_id)
        .where(measurements.c.measurement_id == measurement_id)
    )
    found = connection.execute(query).one_or_none()
    if found is None:
        raise UnknownStudy(f"no measurement {measurement_id!r} in these records")
    return found


def open_measurements(study: str) -> Select[Any]:
    """Of all generations: an interrupted run may have been of an older one."""
    return (
        select(measurements.c.id, measurements.c.owner, trials.c.number, trials.c.study_id)
        .join(trials, trials.c.id == measurements.c.trial_id)
        .join(studies, studies.c.id == trials.c.study_id)
        .where(studies.c.name == study, measurements.c.outcome.is_(None))
    )


def keep_environment(connection: Connection, body: str) -> str:
    """Keep a fingerprint once, however many measurements have it; returns its digest."""
    digest = codec.digest(body)
    if connection.scalar(select(environments.c.digest).where(environments.c.digest == digest)) is None:
        try:
            with connection.begin_nested():
                connection.execute(insert(environments).values(digest=digest, body=body))
        except IntegrityError:
            pass  # the run of another study has just written the very same text
    return digest


def copy_trial(connection: Connection, source_id: int, row_id: int, old_number: int) -> int:
    """Bring one trial and its ended measurements into the generation ``row_id``; returns its number there."""
    source = trial_row(connection, source_id, old_number)
    number = number_of(connection, row_id, source.config_digest)
    if number is None:
        number = next_number(connection, row_id)
        copied = {name: getattr(source, name) for name in _COPIED}
        connection.execute(
            insert(trials).values(**copied, study_id=row_id, number=number, reused_from=old_number)
        )
    trial_id = trial_row(connection, row_id, number).id
    query = select(measurements).where(
        measurements.c.trial_id == source.id, measurements.c.outcome.is_not(None)
    )
    copies = [
        {**row, "trial_id": trial_id, "measurement_id": uuid.uuid4().hex}
        for row in connection.execute(query.order_by(measurements.c.id)).mappings()
    ]
    for copy in copies:
        copy.pop("id")
    if copies:
        connection.execute(insert(measurements), copies)
    return number
