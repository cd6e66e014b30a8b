"""Puts a study together and runs it: records, sampler, executor, watchers; then leaves everything closed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trials.contract import Outcome
from tuner.execution.protocol import Executor, Slots
from tuner.loop.interrupting import interruptible
from tuner.loop.recall import adopt_finished, settled
from tuner.records.errors import RecordsUnavailable, UnknownStudy
from tuner.records.repository import Records
from tuner.records.retention import delete_folders, folders_of, superfluous
from tuner.records.rows import TrialRecord
from tuner.results import StudyResult, judge
from tuner.search.protocol import Sampler, SearchProblem
from tuner.search.registry import build_sampler
from tuner.space import definition_differences, study_definition
from tuner.space.errors import Problem, SpaceError
from tuner.space.model import StudyFile
from tuner.space.space import Config, config_key
from tuner.study import Study, StudyFailed, Watcher

TRIALS_FOLDER = "tuner-trials"
OTHER_MACHINE = "other_machine"
"""The note that says what differed when the last run of a study found itself on another machine."""


class StudyChanged(Exception):  # noqa: N818 - says what was found
    """The file says something else than the recorded study; ``differences`` are lines to show."""

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

    StudyChanged where the file differs from what is recorded, unless ``new_space`` begins a new generation.
    That takes over every recorded trial that is still inside the new space and breaks no rule; none where the
    last run found itself on another machine, whose numbers do not compare.
    """
    definition = study_definition(file)
    try:
        recorded = records.study(file.name, only=())  # what it is, without its trials
    except UnknownStudy:
        described = (definition, file.objectives, file.constraints)
        records.create_study(file.name, file.text, file.path.absolute(), *described)
        return 0
    differences = definition_differences(recorded.definition, definition)
    is_elsewhere = bool(recorded.notes.get(OTHER_MACHINE))
    if differences and not new_space:
        raise StudyChanged(file.name, differences)
    if not differences and not (new_space and is_elsewhere):
        return records.trial_count(file.name)
    trials = records.study(file.name).trials
    records.new_generation(
        file.name, file.text, file.path.absolute(), definition, file.objectives, file.constraints
    )
    records.add_trial(file.name, file.baseline, "baseline")
    if is_elsewhere or recorded.definition.get("workload") != definition.get("workload"):
        return 0  # other work, or another machine, was measured: its numbers say nothing here
    keep = [trial.number for trial in trials if _is_reusable(file, trial)]
    records.reuse(file.name, keep)
    return len(keep)


def note_settings(file: StudyFile, records: Records) -> None:
    """Keep with the study what may be edited at any time (nothing is measured by the selection) or depends
    on the place (absolute paths of the workload, which an export needs).
    """
    records.note(file.name, "workload", dict(file.workload))
    records.note(file.name, "finalists", file.confirm.finalists)
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
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Ending:
    """Run a prepared study, which this process has claimed, to its end.

    ``clock`` gives seconds; it and ``sleep`` are parameters for tests. SpaceError where the sampler cannot
    search this space.
    """
    adopted = adopt_finished(records, file.name)
    records.close_interrupted(file.name)
    note_settings(file, records)
    folder = trials_folder(records.location, file.name, records.study(file.name, only=()).generation)
    study = Study(file, records, _sampler(file), folder, watchers, clock, sleep)
    on_ready(study)
    for number in adopted:
        study.watchers.note(f"trial {number} had ended when the last run did; its result is taken over")
    with interruptible(study.interrupt, executor.interrupt):
        if study.has_work():
            records.set_stopped(file.name, None)
            executor.run(study, slots_of(file))
    ending = _ending(study, records)
    if ending.result is not None and file.keep.trial_folders is not None:
        _delete_superfluous(ending.result, folder.parent, file.keep.trial_folders, study.watchers.note)
    return ending


def try_config(
    file: StudyFile,
    records: Records,
    executor: Executor,
    config: Config,
    watchers: Sequence[Watcher],
    on_ready: Callable[[Study], None] = lambda study: None,
) -> tuple[int, Study]:
    """Measure one configuration of the user's own into a study that this process has claimed.

    Returns its trial's number and the study, whose ``failure`` and ``is_interrupted`` say how it went. The
    baseline must have been measured. Nothing is proposed, no limit of the budget ends it.
    """
    unbounded = replace(file.budget, wall_time_s=None)
    alone = replace(file, budget=unbounded, search=replace(file.search, sampler="random"))
    folder = trials_folder(records.location, file.name, records.study(file.name, only=()).generation)
    study = Study(alone, records, _sampler(alone), folder, watchers)
    on_ready(study)
    number = study.limit_to(config, "user")
    with interruptible(study.interrupt, executor.interrupt):
        executor.run(study, replace(slots_of(file), count=1))
    return number, study


def _delete_superfluous(result: StudyResult, inside: Path, keep: int, note: Callable[[str], None]) -> None:
    """Delete the trial folders that the file does not ask to keep; what cannot be deleted is said."""
    gone = [path for path in superfluous(folders_of(result.record, result.front), keep) if path.is_dir()]
    try:
        freed = delete_folders(gone, inside)
    except (ValueError, OSError) as problem:
        note(f"keep.trial_folders: not every trial folder could be deleted: {problem}")
    else:
        if gone:
            note(f"keep.trial_folders: {len(gone)} trial folders deleted, {freed / 2**20:.1f} MiB")


def _ending(study: Study, records: Records) -> Ending:
    """What came of it, said in the records as well."""
    if study.bounds is None and study.failure is None and not study.is_interrupted:
        why = study.stopped_because or "the run ended"
        study.failure = StudyFailed(f"{why}, and the baseline is not measured; allow more budget.wall_time")
    reason = study.stopped_because or "nothing left to do"
    result = None
    with suppress(RecordsUnavailable):  # then it is why the study failed, and that has been said
        records.set_stopped(study.file.name, reason)
        records.note(study.file.name, OTHER_MACHINE, list(study.other_machine))
    with suppress(RecordsUnavailable):
        record = records.study(study.file.name)
        result = judge(record) if record.bounds is not None else None
    return Ending(result, reason, study.failure, study.is_interrupted)


def _sampler(file: StudyFile) -> Sampler:
    search = file.search
    try:
        return build_sampler(
            search.sampler, SearchProblem(file.space, file.objectives, search.seed, file.budget.trials)
        )
    except ValueError as problem:
        raise SpaceError([Problem(str(file.path), None, str(problem))]) from problem


def _is_reusable(file: StudyFile, trial: TrialRecord) -> bool:
    """Still a configuration of the new space, with a result that holds what is now asked for."""
    # one that was cut short is not: what it could not reach was the front of the old space
    runs = [run for run in settled(trial.measurements) if run.outcome is not Outcome.PRUNED]
    complete = [run for run in runs if run.outcome is Outcome.COMPLETE]
    is_baseline = config_key(trial.config) == config_key(file.baseline)
    is_inside = file.space.contains(trial.config) and file.space.rejection(trial.config) is None
    has_all = all(run.metrics.keys() >= set(file.wanted) for run in complete)
    return bool(runs) and has_all and (is_inside or is_baseline)


def slots_of(file: StudyFile) -> Slots:
    """Constant resources of a trial; by default the concurrent trials share the machine's cores."""
    count = file.search.concurrent_trials
    cpus = file.resources.cpus if file.resources.cpus is not None else max(1, machine_cores() // count)
    return Slots(count, cpus, file.resources.gpus, file.resources.accelerator)


def trials_folder(records_location: str, study: str, generation: int) -> Path:
    """Where trial folders go: beside a sqlite file, in the working directory otherwise."""
    prefix = "sqlite:///"
    base = (
        Path(records_location.removeprefix(prefix)).parent if records_location.startswith(prefix) else Path()
    )
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
        with suppress(RecordsUnavailable):  # the claim of a process that has ended binds nobody
            records.release(study)
