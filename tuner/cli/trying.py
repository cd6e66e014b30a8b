"""The work of ``tuner try``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from trials.contract import Outcome
from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.front import trial_table
from tuner.cli.progress import LineProgress
from tuner.cli.text import first_line
from tuner.comparison import LimitStatus
from tuner.execution.local import LocalExecutor
from tuner.execution.placement import refuse_what_does_not_fit, usable_cores, usable_gpus
from tuner.execution.protocol import ExecutionError
from tuner.launch import claimed, slots_of, try_config
from tuner.loop.recall import settled
from tuner.pareto import dominates
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord
from tuner.results import StudyResult, TrialResult, as_json, judge
from tuner.results.model import BASELINE
from tuner.space.definition import definition_differences, study_definition
from tuner.space.model import StudyFile
from tuner.space.recorded import read_recorded
from tuner.space.space import Config, config_key


def try_values(records: Records, study: str, wanted: Mapping[str, str], gpus: int, as_plain: bool) -> int:
    """Measure the configuration with the ``wanted`` values unless it is known; say what came of it."""
    record = records.study(study)
    if record.bounds is None:
        with claimed(records, study):  # RecordsInUse where a run is about to measure it
            raise CliError(
                f"study '{study}' has no measured baseline yet; begin with: tuner run {record.file_path}"
            )
    file, config = _read(record, wanted, gpus)
    number = _measured_number(record, config)
    is_new = number is None
    if number is None:
        number = _measure(file, records, config)
        if "mlflow_run_id" in record.notes:
            echo(f"MLflow does not have trial {number} yet; it gets it with: tuner log {study}", err=True)
    else:
        echo(f"this configuration is trial {number}, measured already", err=True)
    result = judge(records.study(study))
    if as_plain:
        click.echo(json.dumps(_plain(result, number, is_new), indent=2))
    else:
        echo(_shown(result, number))
    return _exit_code(result.trial(number))


def _read(record: StudyRecord, wanted: Mapping[str, str], gpus: int) -> tuple[StudyFile, Config]:
    """The study's file and the configuration. CliError where the file no longer means what was recorded."""
    file, config = read_recorded(record.file_text, Path(record.file_path), wanted, gpus=gpus)
    differences = definition_differences(record.definition, study_definition(file))
    if differences:
        raise CliError(
            f"study '{record.name}' no longer means what was recorded: {differences[0]}; "
            f"see: tuner check {record.file_path}"
        )
    return file, config


def _measured_number(record: StudyRecord, config: Config) -> int | None:
    key = config_key(config)
    same = (trial for trial in record.trials if config_key(trial.config) == key)
    known = (t for t in same if any(run.outcome is not Outcome.PRUNED for run in settled(t.measurements)))
    return next((trial.number for trial in known), None)


def _measure(file: StudyFile, records: Records, config: Config) -> int:
    """The number of its trial. CliError where it could not be measured or was interrupted."""
    if not file.space.contains(config):
        echo("note: outside the space: it is measured, and the search does not learn from it", err=True)
    slots = slots_of(file)
    progress = LineProgress(file, len(records.study(file.name).trials), search="try")
    try:
        refuse_what_does_not_fit(slots, len(usable_cores()), len(usable_gpus()), "this machine")
        with claimed(records, file.name):
            number, study = try_config(file, records, LocalExecutor(), config, [progress], progress.ready)
    except ExecutionError as problem:
        raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem
    if study.failure is not None:
        raise CliError(str(study.failure), ExitCode.STUDY_FAILED)
    if study.is_interrupted:
        raise CliError(f"interrupted; trial {number} is measured by the next tuner run", ExitCode.INTERRUPTED)
    return number


def _shown(result: StudyResult, number: int) -> str:
    trial = result.trial(number)
    rows = [trial] if trial.losses is not None else []
    if result.baseline.losses is not None and number != BASELINE:
        rows.append(result.baseline)
    return f"{trial_table(result, rows)}\n\n{_verdict(result, trial)}"


def _verdict(result: StudyResult, trial: TrialResult) -> str:
    what = f"trial {trial.number}"
    if trial.losses is None:
        kind = f" ({trial.failure_kind})" if trial.failure_kind else ""
        return f"{what} {trial.outcome or 'has no result'}{kind}: {first_line(trial.message)}\n  log: {trial.log_dir}"
    broken = [str(limit.bound) for limit in trial.limits if limit.status is LimitStatus.NOT_MET]
    if broken:
        return f"{what} breaks the limit {', '.join(broken)}"
    if trial.on_front:
        sure = "" if trial.is_confirmed else "; measured once, tuner run confirms it"
        return f"{what} is on the front{sure}"
    if not trial.is_reliable:
        return f"{what} failed when it was measured again"
    better = [str(other.number) for other in result.front_trials if dominates(other.point, trial.point)]
    return f"{what} is not on the front: beaten by trial {', '.join(better)}"


def _plain(result: StudyResult, number: int, is_new: bool) -> dict[str, object]:
    """Keys are public API."""
    trial = next(plain for plain in as_json(result)["trials"] if plain["number"] == number)
    return {"schema_version": 1, "study": result.name, "is_new": is_new, "trial": trial}


def _exit_code(trial: TrialResult) -> ExitCode:
    return ExitCode.DONE if trial.may_be_on_front else ExitCode.NOTHING_FEASIBLE
