"""A judged study as a study of Optuna's own, for optuna-dashboard and Optuna's tools: a copy, never read back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from trials.contract import Outcome
from tuner.comparison import LimitStatus
from tuner.records.database import table_names
from tuner.records.errors import RecordsError
from tuner.results import LimitResult, StudyResult, TrialResult
from tuner.search.optuna_axes import Column, columns_of
from tuner.search.optuna_backed import quiet_optuna

WRITTEN_BY = "written_by"
_US = "tuner export"
_OPTUNAS_TABLE = "version_info"
_STATES = {
    Outcome.COMPLETE: TrialState.COMPLETE,
    Outcome.PRUNED: TrialState.PRUNED,
    Outcome.FAILED: TrialState.FAIL,
}
_UNRELIABLE = "failed when measured again"
_LEAST_VIOLATION = 1e-12


class OptunaExportError(Exception):
    """The study cannot be written there; the message is one line with the way out."""


def write_optuna_study(result: StudyResult, url: str, name: str) -> int:
    """Write every trial of the study to the Optuna storage at an SQLAlchemy ``url``; returns how many.

    A study of that ``name`` that an earlier export wrote is replaced. Optuna knows no repeated measurement:
    where an unconfirmed trial seems to beat a confirmed one, ``best_trials`` leaves the confirmed one out,
    and the attribute ``on_front`` says what the study itself found. OptunaExportError where the storage
    holds something else, or cannot be used.
    """
    _refuse_other_tables(url)
    try:
        with quiet_optuna():
            storage = RDBStorage(url)
            try:
                _make_room(storage, name)
                _write(storage, result, name)
            finally:
                storage.remove_session()
                storage.engine.dispose()
    except OptunaExportError:
        raise
    except Exception as problem:  # Optuna and its database drivers raise what they like
        said = str(problem).strip().partition("\n")[0] or type(problem).__name__
        raise OptunaExportError(f"Optuna cannot write there: {said}") from problem
    return len(result.trials)


def _refuse_other_tables(url: str) -> None:
    """Optuna would put its tables among those of another program, of ours for instance."""
    try:
        tables = table_names(url)
    except RecordsError as problem:
        raise OptunaExportError(str(problem)) from problem
    if tables and _OPTUNAS_TABLE not in tables:
        held = ", ".join(sorted(tables)[:3])
        raise OptunaExportError(f"the database holds something else ({held}); name another, or a new file")


def _make_room(storage: RDBStorage, name: str) -> None:
    if name not in optuna.get_all_study_names(storage):
        return
    there = optuna.load_study(study_name=name, storage=storage)
    is_ours = there.user_attrs.get(WRITTEN_BY) == _US
    if not is_ours or any("on_front" not in trial.user_attrs for trial in there.get_trials(deepcopy=False)):
        raise OptunaExportError(f"a study {name!r} is there with trials that are not ours; name another file")
    optuna.delete_study(study_name=name, storage=storage)


def _write(storage: RDBStorage, result: StudyResult, name: str) -> None:
    study = optuna.create_study(
        storage=storage, study_name=name, directions=[str(o.direction) for o in result.objectives]
    )
    study.set_user_attr(WRITTEN_BY, _US)
    study.set_metric_names([objective.metric for objective in result.objectives])
    columns = columns_of(
        result.record.definition.get("parameters", {}), [trial.config for trial in result.trials]
    )
    for key, value in _study_attributes(result, columns).items():
        study.set_user_attr(key, value)
    has_unreliable = any(not trial.is_reliable for trial in result.trials)
    for trial in result.trials:
        study.add_trial(_frozen(trial, result, columns, has_unreliable))


def _study_attributes(result: StudyResult, columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "generation": result.record.generation,
        "stopped_because": result.record.stopped_because,
        "recommended": result.recommended.trial if result.recommended else None,
        "choices_as_text": [column.name for column in columns if column.is_text],
    }


def _frozen(
    trial: TrialResult, result: StudyResult, columns: Sequence[Column], has_unreliable: bool
) -> FrozenTrial:
    placed = [column for column in columns if column.holds(trial.config)]
    state = _state(trial)
    is_complete = state is TrialState.COMPLETE
    frozen = optuna.create_trial(
        state=state,
        values=[trial.estimates[o.metric].value for o in result.objectives] if is_complete else None,
        params={column.name: column.written(trial.config[column.name]) for column in placed},
        distributions={column.name: column.distribution for column in placed},
        user_attrs=_attributes(trial, result),
        constraints=_constraints(trial, has_unreliable) if is_complete else None,
    )
    runs = trial.measurements
    if runs and state is not TrialState.WAITING:
        frozen.datetime_start = _local(runs[0].started_at)
        ends = [run.ended_at for run in runs if run.ended_at is not None]
        if state.is_finished() and ends:
            frozen.datetime_complete = _local(max(ends))
    return frozen


def _state(trial: TrialResult) -> TrialState:
    if trial.outcome is not None:
        return _STATES[trial.outcome]
    is_running = any(run.outcome is None for run in trial.measurements)
    return TrialState.RUNNING if is_running else TrialState.WAITING


def _constraints(trial: TrialResult, has_unreliable: bool) -> dict[str, float]:
    """By limit, how far it is broken: positive exactly where our verdict is that it is not met."""
    broken = {str(limit.bound): _violation(limit) for limit in trial.limits}
    return {**broken, **({_UNRELIABLE: -1.0 if trial.is_reliable else 1.0} if has_unreliable else {})}


def _violation(limit: LimitResult) -> float:
    if limit.status is not LimitStatus.NOT_MET:
        return min(limit.gap, 0.0)
    return min(max(limit.gap, _LEAST_VIOLATION), sys.float_info.max)


def _attributes(trial: TrialResult, result: StudyResult) -> Mapping[str, Any]:
    """What Optuna has no place for; the configuration with its exact values among it."""
    of_objectives = {
        f"{o.metric}_{end}": getattr(trial.estimates[o.metric], end)
        for o in result.objectives
        if o.metric in trial.estimates
        for end in ("low", "high")
    }
    return {
        "config": dict(trial.config),
        "proposed_by": trial.proposed_by,
        "outcome": None if trial.outcome is None else str(trial.outcome),
        "failure_kind": None if trial.failure_kind is None else str(trial.failure_kind),
        "message": trial.message,
        "is_feasible": trial.is_feasible,
        "is_confirmed": trial.is_confirmed,
        "on_front": trial.on_front,
        **{key: estimate.value for key, estimate in trial.estimates.items()},
        **of_objectives,
    }


def _local(moment: datetime) -> datetime:
    """Optuna keeps local times without a zone."""
    return moment.astimezone().replace(tzinfo=None)
