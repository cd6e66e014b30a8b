"""Records: the one class that reads and writes what happened. Each call is one short transaction."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from trials.contract import FailureKind, Measurement, Outcome, Purpose
from tuner.objectives import Bound, Constraint, Objective
from tuner.records import claiming, codec, reading, writing
from tuner.records.cells import Cells, read_cell
from tuner.records.database import BUSY_TIMEOUT_S, Database, open_database
from tuner.records.errors import DamagedRecords, DuplicateConfig, RecordsError
from tuner.records.owner import Owner
from tuner.records.rows import Forecast, StudyRecord, StudySummary
from tuner.records.tables import NAME_LENGTH, examples, measurements, studies, trials

_log = logging.getLogger(__name__)


class Records:
    """What happened, in one database. Open it with ``Records.open``; it closes as a context manager.

    A study is addressed by name, and means its latest generation. When a call returns, what it wrote is on
    the disk. RecordsUnavailable: nothing was written, make the call again; other RecordsErrors are final.
    """

    def __init__(self, database: Database, owner: Owner) -> None:
        self._database = database
        self._owner = owner

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        must_exist: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        owner: Owner | None = None,
    ) -> Records:
        """Open records at a path or SQLAlchemy URL; None: ``$TUNER_RECORDS``, else ``./tuner.db``.

        Makes the schema where there is none, unless they ``must_exist``. ``owner`` is the process that
        measurements and claims belong to, by default this one. RecordsError, in one line, for what is no such
        database.
        """
        return cls(open_database(location, must_exist, busy_timeout_s), owner or Owner.current())

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    @property
    def location(self) -> str:
        """Where these records are, as a URL without password: ``sqlite:////home/me/tuner.db``."""
        return self._database.url

    # --- studies

    def create_study(
        self,
        name: str,
        file_text: str,
        file_path: str | Path,
        definition: Mapping[str, Any],
        objectives: Iterable[Objective],
        constraints: Iterable[Constraint],
    ) -> None:
        """Record a new study. RecordsError where one of that name exists."""
        if not 0 < len(name) <= NAME_LENGTH:
            raise RecordsError(f"a study's name has 1 to {NAME_LENGTH} characters, not {len(name)}")
        row = writing.study_values(name, 1, file_text, file_path, definition, objectives, constraints)
        try:
            self._database.write(lambda connection: connection.execute(insert(studies).values(row)))
        except IntegrityError:
            raise RecordsError(
                f"study {name!r} exists in {self._database.where}; give this one another name"
            ) from None

    def new_generation(
        self,
        name: str,
        file_text: str,
        file_path: str | Path,
        definition: Mapping[str, Any],
        objectives: Iterable[Objective],
        constraints: Iterable[Constraint],
    ) -> int:
        """Start a study anew under the same name (its space was edited); what was recorded stays readable.

        Returns the generation's number. It has no trials yet: see ``reuse``.
        """
        objectives, constraints = tuple(objectives), tuple(constraints)

        def work(connection: Connection) -> int:
            last_id = writing.touch(connection, name)
            last = connection.scalar(select(studies.c.generation).where(studies.c.id == last_id))
            generation = int(last or 0) + 1
            row = writing.study_values(
                name, generation, file_text, file_path, definition, objectives, constraints
            )
            connection.execute(insert(studies).values(row))
            return generation

        return self._database.write(work)

    def study(
        self, name: str, generation: int | None = None, only: Collection[int] | None = None
    ) -> StudyRecord:
        """A study with all its trials and measurements. UnknownStudy names the nearest ones.

        The time it takes grows with the number of trials (a second or so for 10,000). ``only`` these trials
        are read at a cost that does not depend on the others.
        """
        return self._database.read(lambda connection: reading.load_study(connection, name, generation, only))

    def trial_count(self, study: str) -> int:
        """How many trials the study has; quick, however many they are. UnknownStudy as for ``study``."""
        return self._database.read(lambda connection: reading.trial_count(connection, study))

    def unfinished(self, study: str) -> list[int]:
        """The trials with a measurement that has not ended: it runs, or its process died. Quick as well."""
        return self._database.read(lambda connection: reading.unfinished(connection, study))

    def studies(self, on_damage: Callable[[DamagedRecords], None] | None = None) -> list[StudySummary]:
        """Every study (its latest generation), the one that was written to last first.

        One that is damaged is left out and ``on_damage`` told of it; without that, DamagedRecords is raised.
        """
        found: list[DamagedRecords] = []

        def work(connection: Connection) -> list[StudySummary]:
            found.clear()
            return reading.load_summaries(
                connection, lambda damage: found.append(self._database.damaged(damage))
            )

        summaries = self._database.read(work)
        for damage in found:
            if on_damage is None:
                raise damage
            on_damage(damage)
        return summaries

    def freeze(
        self, study: str, bounds: Iterable[Bound], reference_point: Mapping[str, float] | None
    ) -> None:
        """Fix the limits as numbers, and the hypervolume's reference point, for this generation.

        Freezing the same again changes nothing; RecordsError where something else is frozen already.
        """
        frozen = {
            "bounds": codec.bounds_to_text(bounds),
            "reference_point": None if reference_point is None else codec.to_text(reference_point),
        }

        def work(connection: Connection) -> None:
            row_id = writing.touch(connection, study)
            found = connection.execute(select(studies).where(studies.c.id == row_id)).one()
            for column, value in frozen.items():
                held = Cells(found, f"study {study!r}").maybe(column, json.loads)
                if held is not None and value is not None and held != json.loads(value):
                    raise RecordsError(
                        f"the {column} of study {study!r} are frozen already; use a new generation"
                    )
            known = {column: value for column, value in frozen.items() if value is not None}
            connection.execute(update(studies).where(studies.c.id == row_id).values(known))

        self._database.write(work)

    def count_rejected(self, study: str, counts: Mapping[str, int]) -> None:
        """Add to the number of configurations that each rule kept from running."""

        def work(connection: Connection) -> None:
            row_id = writing.touch(connection, study)
            rejected = writing.document(connection, row_id, "rejected")
            for rule, number in counts.items():
                rejected[rule] = rejected.get(rule, 0) + number
            writing.set_column(connection, row_id, "rejected", codec.to_text(rejected))

        self._database.write(work)

    def set_stopped(self, study: str, reason: str | None) -> None:
        """Say why the study stopped; None: it goes on."""
        text = None if reason is None else codec.readable(reason)
        self._database.write(
            lambda connection: writing.set_column(
                connection, writing.touch(connection, study), "stopped_because", text
            )
        )

    def note(self, study: str, key: str, value: Any) -> None:
        """Keep a small fact (plain values), replacing the one under this key."""

        def work(connection: Connection) -> None:
            row_id = writing.touch(connection, study)
            writing.set_column(
                connection,
                row_id,
                "notes",
                codec.to_text({**writing.document(connection, row_id, "notes"), key: value}),
            )

        self._database.write(work)

    # --- trials and their measurements

    def add_trial(
        self, study: str, config: Mapping[str, Any], proposed_by: str, forecast: Forecast | None = None
    ) -> int:
        """Record a configuration, why it is tried and what was expected of it; returns its number.

        Numbers count from 0 in each generation.

        DuplicateConfig, with the number it has, where it is a trial already.
        """
        text, digest = writing.config_text(config)

        def work(connection: Connection) -> int:
            row_id = writing.touch(connection, study)
            known = writing.number_of(connection, row_id, digest)
            if known is not None:
                raise DuplicateConfig(
                    f"this configuration is trial {known} of study {study!r} already", known
                )
            number = writing.next_number(connection, row_id)
            row = {"study_id": row_id, "number": number, "config": text, "config_digest": digest}
            row["forecast"] = None if forecast is None else codec.forecast_to_text(forecast)
            connection.execute(insert(trials).values(**row, proposed_by=codec.readable(proposed_by)))
            return number

        return self._database.write(work)

    def reuse(self, study: str, numbers: Iterable[int], from_generation: int | None = None) -> dict[int, int]:
        """Take trials of an older generation (by default the one before) over into the latest.

        Their ended measurements are copied, with purpose, times and logs as they were; new numbers follow in
        the order given, except where the configuration is a trial already, which then gets the measurements.
        Returns old number -> new number. UnknownStudy where there is no such generation or trial.
        """

        def work(connection: Connection) -> dict[int, int]:
            row_id = writing.touch(connection, study)
            latest = connection.scalar(select(studies.c.generation).where(studies.c.id == row_id)) or 1
            source_id = reading.study_id(connection, study, from_generation or latest - 1)
            if source_id == row_id:
                raise RecordsError(f"generation {latest} of study {study!r} cannot reuse its own trials")
            return {number: writing.copy_trial(connection, source_id, row_id, number) for number in numbers}

        numbers = tuple(numbers)
        return self._database.write(work)

    def start_measurement(
        self,
        study: str,
        trial_number: int,
        purpose: Purpose,
        seed: int,
        log_dir: str | Path,
        round_number: int | None = None,
    ) -> str:
        """Record that a configuration is about to run; returns the measurement's identifier."""
        measurement_id = uuid.uuid4().hex

        def work(connection: Connection) -> None:
            trial = writing.trial_row(connection, writing.touch(connection, study), trial_number)
            connection.execute(
                insert(measurements).values(
                    measurement_id=measurement_id,
                    trial_id=trial.id,
                    purpose=purpose.value,
                    seed=str(seed),
                    owner=self._owner.to_json(),
                    log_dir=str(log_dir),
                    started_at=codec.now_text(),
                    round_number=round_number,
                )
            )

        self._database.write(work)
        return measurement_id

    def finish_measurement(
        self, measurement_id: str, measurement: Measurement, is_discarded: bool = False
    ) -> None:
        """Record how a measurement ended. Saying the same twice is fine; RecordsError for another ending."""
        body = codec.measurement_to_text(measurement)
        packed = codec.examples_to_bytes(measurement.examples) if measurement.examples else None
        environment = codec.to_text(measurement.environment) if measurement.environment else None
        ending = {"outcome": measurement.outcome.value, "body": body, "is_discarded": is_discarded}

        def work(connection: Connection) -> None:
            found = writing.measurement_row(connection, measurement_id)
            if found.outcome is not None:
                if (found.outcome, found.body) != (ending["outcome"], body):
                    raise RecordsError(f"measurement {measurement_id} has ended as {found.outcome} already")
                return
            values = dict(ending, ended_at=codec.now_text(), failure_kind=measurement.failure_kind)
            if environment is not None:
                values["environment_digest"] = writing.keep_environment(connection, environment)
            if packed is not None:
                key = connection.execute(insert(examples).values(body=packed)).inserted_primary_key
                values["examples_id"] = key[0] if key else None
            connection.execute(update(measurements).where(measurements.c.id == found.id).values(values))
            writing.touch_id(connection, found.study_id)

        self._database.write(work)

    def discard(self, measurement_id: str) -> None:
        """Mark a measurement as one that does not count (contaminated, the cold run)."""

        def work(connection: Connection) -> None:
            found = writing.measurement_row(connection, measurement_id)
            connection.execute(
                update(measurements).where(measurements.c.id == found.id).values(is_discarded=True)
            )
            writing.touch_id(connection, found.study_id)

        self._database.write(work)

    def examples(self, measurement_id: str) -> dict[str, tuple[float, ...]]:
        """Per-example results by metric key, in the task's order; empty where the task gave none."""

        def work(connection: Connection) -> dict[str, tuple[float, ...]]:
            found = writing.measurement_row(connection, measurement_id)
            packed = connection.scalar(select(examples.c.body).where(examples.c.id == found.examples_id))
            place = f"measurement {measurement_id}, its examples"
            return {} if packed is None else read_cell(packed, "body", codec.examples_from_bytes, place)

        return self._database.read(work)

    # --- one run at a time

    def claim(self, study: str, *, take_over: bool = False) -> None:
        """Make this process the one that runs the study (which need not exist yet).

        The claim of a process that has ended is taken over. RecordsInUse names the process where it lives, or
        where that cannot be seen from here (another machine or container), which ``take_over`` overrules.
        """
        claiming.claim(self._database, study, self._owner, take_over)

    def runner(self, study: str) -> Owner | None:
        """The process that runs the study now; None where none does.

        One that cannot be seen from here (another machine or container) counts as running. A claim that cannot be
        read is told to the log, and hinders nobody who only looks.
        """
        try:
            found = self._database.read(lambda connection: claiming.holder(connection, study))
        except DamagedRecords as damage:
            _log.warning("%s", damage)
            return None
        return None if found is None or found.is_gone() is True else found

    def release(self, study: str) -> None:
        """Give the claim back; nothing happens where this process has none."""
        claiming.release(self._database, study, self._owner)

    def close_interrupted(self, study: str) -> list[int]:
        """End, as failed/interrupted, every measurement whose process has ended without ending it.

        After ``claim``, that is every open measurement of another process. Returns the numbers of the trials
        (of the latest generation), each once.
        """

        def work(connection: Connection) -> list[int]:
            row_id = writing.touch(connection, study)
            holds_claim = claiming.holder(connection, study) == self._owner
            cut = [
                row
                for row in connection.execute(writing.open_measurements(study))
                if self._is_cut(row, holds_claim)
            ]
            lost = Measurement.failed(
                FailureKind.INTERRUPTED, "the run that took this measurement ended before it"
            )
            for row in cut:
                connection.execute(
                    update(measurements)
                    .where(measurements.c.id == row.id)
                    .values(
                        outcome=Outcome.FAILED.value,
                        failure_kind=FailureKind.INTERRUPTED.value,
                        body=codec.measurement_to_text(lost),
                        ended_at=codec.now_text(),
                    )
                )
            return sorted({row.number for row in cut if row.study_id == row_id})

        return self._database.write(work)

    def _is_cut(self, row: Row[*tuple[Any, ...]], holds_claim: bool) -> bool:
        owner = read_cell(row.owner, "owner", Owner.from_json, f"a measurement of trial {row.number!r}")
        return owner != self._owner and (holds_claim or owner.is_gone() is True)
