"""Puts a study together and runs it: records, sampler, executor, watchers; then leaves everything closed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tuner.execution.protocol import Executor, Slots
from tuner.records.errors import UnknownStudy
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord, TrialRecord
from tuner.results import StudyResult, judge
from tuner.search.protocol import SearchProblem
from tuner.search.registry import build_sampler
from tuner.space import definition_differences, study_definition
from tuner.space.model import StudyFile
from tuner.space.space import config_key
from tuner.study import Study, StudyFailed, Watcher

TRIALS_FOLDER = "tuner-trials"


class StudyChanged(Exception):  # noqa: N818 - says what was found
    """The file says something else than the study that the records hold; ``differences`` are lines to show."""

    def __init__(self, study: str, differences: Sequence[str]) -> None:
        super().__init__(study)
        self.study = study
        self.differences = tuple(differences)


@dataclass(frozen=True)
class Ending:
    """How a run of a study ended."""

    result: StudyResult | None
    stopped_because: str
    failure: StudyFailed | None
    is_interrupted: bool


def prepare_records(file: StudyFile, records: Records, *, new_space: bool) -> int:
    """Create the study or go on with it; returns how many trials it already has.

    StudyChanged where the file differs from what is recorded, unless ``new_space`` begins a new generation, which
    takes over every recorded trial that is still inside the new space and breaks no rule.
    """
    definition = study_definition(file)
    try:
        recorded = records.study(file.name)
    except UnknownStudy:
        records.create_study(file.name, file.text, str(file.path), definition, file.objectives, file.constraints)
        return 0
    differences = definition_differences(recorded.definition, definition)
    if not differences:
        return len(recorded.trials)
    if not new_space:
        raise StudyChanged(file.name, differences)
    records.new_generation(
        file.name, file.text, str(file.path), definition, file.objectives, file.constraints
    )
    records.add_trial(file.name, file.baseline, "baseline")
    if recorded.definition.get("workload") != definition.get("workload"):
        return 0  # other work was measured: its numbers say nothing here
    keep = [trial.number for trial in recorded.trials if _still_fits(file, trial)]
    records.reuse(file.name, keep)
    return len(keep)


def note_settings(file: StudyFile, records: Records) -> None:
    """Keep with the study what may be edited at any time (nothing is measured by the selection) or depends on the
    place (absolute paths of the workload, which an export needs)."""
    records.note(file.name, "workload", dict(file.workload))
    records.note(
        file.name,
        "selection",
        {"rule": file.selection.rule, "metric": file.selection.metric, "within": dict(file.selection.within)},
    )


def run_study(
    file: StudyFile,
    records: Records,
    executor: Executor,
    watchers: Sequence[Watcher],
    on_ready: Callable[[Study], None] = lambda study: None,
) -> Ending:
    """Run a prepared study, which this process has claimed, to its end."""
    records.close_interrupted(file.name)
    note_settings(file, records)
    recorded = records.study(file.name)
    sampler = build_sampler(
        file.search.sampler, SearchProblem(file.space, file.objectives, file.search.seed, file.budget.trials)
    )
    folder = trials_folder(records.location, file.name, recorded.generation)
    study = Study(file, records, sampler, folder, watchers, spent_s=_spent_s(recorded))
    on_ready(study)
    with _interruptible(study, executor):
        if study.has_work():
            executor.run(study, slots_of(file))
    reason = study.stopped_because or "nothing left to do"
    records.set_stopped(file.name, reason)
    record = records.study(file.name)
    result = judge(record) if record.bounds is not None else None
    return Ending(result, reason, study.failure, study.is_interrupted)


def _still_fits(file: StudyFile, trial: TrialRecord) -> bool:
    is_baseline = config_key(trial.config) == config_key(file.baseline)
    return is_baseline or (file.space.contains(trial.config) and file.space.rejection(trial.config) is None)


def slots_of(file: StudyFile) -> Slots:
    """Constant resources of a trial: the whole machine's cores shared among the concurrent trials by default."""
    count = file.search.concurrent_trials
    cpus = file.resources.cpus if file.resources.cpus is not None else max(1, machine_cores() // count)
    return Slots(count, cpus, file.resources.gpus, file.resources.accelerator)


def trials_folder(records_location: str, study: str, generation: int) -> Path:
    """Where trial folders go: beside a sqlite file, in the working directory otherwise."""
    prefix = "sqlite:///"
    base = Path(records_location.removeprefix(prefix)).parent if records_location.startswith(prefix) else Path()
    return (base / TRIALS_FOLDER / study / f"g{generation}").resolve()


def machine_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def claimed(records: Records, study: str, *, take_over: bool = False) -> Iterator[None]:
    """Hold a study; RecordsInUse names the live run that has it already."""
    records.claim(study, take_over=take_over)
    try:
        yield
    finally:
        records.release(study)


@contextmanager
def _interruptible(study: Study, executor: Executor) -> Iterator[None]:
    """Ctrl-C once: no new trials and what runs is cut; twice: the process ends at once (guardians then kill)."""
    presses = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            os._exit(130)
        study.interrupt()
        executor.interrupt()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {sig: signal.signal(sig, on_signal) for sig in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sig, handler in previous.items():
            signal.signal(sig, handler)


def _spent_s(record: StudyRecord) -> float:
    """Seconds that earlier runs of the study measured."""
    return sum(
        (run.ended_at - run.started_at).total_seconds()
        for trial in record.trials
        for run in trial.measurements
        if run.ended_at is not None
    )
