"""What the records know already about the study of a space file; they are not made where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from tuner.cli.console import echo
from tuner.cli.options import study_reference
from tuner.records.errors import RecordsError, UnknownStudy
from tuner.records.names import location_meant
from tuner.space.model import StudyFile

if TYPE_CHECKING:
    from tuner.records.owner import Owner
    from tuner.records.rows import MeasurementRecord, StudyRecord


def read_study(reference: str, location: str | None) -> tuple[StudyRecord, str]:
    """The study meant by ``STUDY`` or ``STUDY@N``, and where the records are."""
    from tuner.records.repository import Records

    name, generation = study_reference(reference)
    with Records.open(location, must_exist=True) as records:
        return records.study(name, generation), records.location


def read_with_runner(reference: str, location: str | None) -> tuple[StudyRecord, Owner | None]:
    """The study meant by ``STUDY`` or ``STUDY@N``, and the process that runs it now (None: none does)."""
    from tuner.records.repository import Records

    name, generation = study_reference(reference)
    with Records.open(location, must_exist=True) as records:
        runner = records.runner(name)  # first: what it wrote at its end would be missed otherwise
        study = records.study(name, generation)
        is_latest = generation is None or records.study(name, only=()).generation == study.generation
    return study, runner if is_latest else None


@dataclass(frozen=True)
class Recorded:
    """A study in the records: ``trials`` it has, the runs that are ``done`` by stage, the ``mean_s`` of all
    (None without one), and what the file says otherwise (``differences``, lines to show).
    """

    location: str
    trials: int
    done: Mapping[str, int]
    mean_s: float | None
    differences: tuple[str, ...]


def what_is_recorded(file: StudyFile, location: str | None) -> Recorded | None:
    """The study in the records; None where they do not have it. Says so where they cannot be read."""
    if not _may_exist(location):
        return None
    from tuner.records.repository import Records
    from tuner.space import definition_differences, study_definition

    try:
        with Records.open(location, must_exist=True) as records:
            study = records.study(file.name)
            where = records.location
    except UnknownStudy:
        return None
    except RecordsError as problem:
        echo(f"warning: {problem}", err=True)
        return None
    durations = [_duration_s(run) for trial in study.trials for run in trial.measurements if _has_ended(run)]
    return Recorded(
        location=where.removeprefix("sqlite:///"),
        trials=len(study.trials),
        done=_done(study),
        mean_s=fmean(durations) if durations else None,
        differences=tuple(definition_differences(study.definition, study_definition(file))),
    )


def _may_exist(location: str | None) -> bool:
    """Whether there is something to open: opening loads a database library, which ``check`` does without."""
    given = location_meant(location)
    return "://" in given or Path(given).expanduser().exists()


def _done(study: StudyRecord) -> dict[str, int]:
    """Runs of the baseline, trials that were searched, runs that confirmed."""
    ended = [run for trial in study.trials for run in trial.measurements if _has_ended(run)]
    confirming = sum(run.purpose == "confirm" and not run.is_discarded for run in ended)
    searched = {run.trial_number for run in ended if run.purpose == "search"}
    return {
        "baseline": sum(run.purpose == "baseline" for run in ended),
        "search": len(searched),
        "confirm": confirming,
    }


def _has_ended(run: MeasurementRecord) -> bool:
    """By itself: an interrupted run will be made again, and says nothing about the time that one takes."""
    return run.ended_at is not None and run.failure_kind != "interrupted"


def _duration_s(run: MeasurementRecord) -> float:
    assert run.ended_at is not None
    return (run.ended_at - run.started_at).total_seconds()
