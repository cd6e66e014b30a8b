"""The heavy half of ``tuner run``: opens records, MLflow and Ray, runs the study, prints how it ended."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, replace

import click

from trials.contract import Measurement
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.progress import LineProgress, progress_for
from tuner.cli.summary import summary_of
from tuner.execution.leftovers import leftovers
from tuner.execution.protocol import ExecutionError
from tuner.launch import Ending, StudyChanged, claimed, prepare_records, run_study
from tuner.records.filesystem import is_network_filesystem
from tuner.records.repository import Records
from tuner.results import as_json, judge_trial
from tuner.space.model import StudyFile
from tuner.space.space import Config
from tuner.study import BASELINE, Study, Ticket, Watcher
from tuner.tracking import MlflowTracker, TrackingError

LOW_DISK_GIB = 1.0


@dataclass(frozen=True)
class Wishes:
    """What was asked on the command line besides the file."""

    more: int | None
    new_space: bool
    take_over: bool
    ray_address: str | None
    as_json: bool
    name_typed: str


def run_file(file: StudyFile, location: str | None, wishes: Wishes) -> int:
    """Run a checked space file; returns the exit code."""
    with Records.open(location) as records, claimed(records, file.name, take_over=wishes.take_over):
        known = _prepared(file, records, wishes.new_space)
        if wishes.more is not None:
            file = replace(file, budget=replace(file.budget, trials=known + wishes.more, wall_time_s=None))
        progress = progress_for(file)
        tracker = None
        try:
            _say_what_is_known(progress, file, records, known)
            tracker = _tracker(file, records, progress)
            ending = _run(file, records, wishes, progress, tracker)
        except BaseException:
            if tracker is not None:
                tracker.close()
            raise
        finally:
            progress.close()
        return _report(file, records, ending, tracker, wishes)


def _run(
    file: StudyFile, records: Records, wishes: Wishes, progress: LineProgress, tracker: MlflowTracker | None
) -> Ending:
    from tuner.execution.ray_tune import RayTuneExecutor

    watchers: list[Watcher] = [progress]
    if tracker is not None:
        watchers.append(TrackerWatcher(tracker, records, file.name))

    def on_ready(study: Study) -> None:
        progress.study = study

    try:
        return run_study(file, records, RayTuneExecutor(wishes.ray_address), watchers, on_ready)
    except ExecutionError as problem:
        raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem


class TrackerWatcher:
    """Hands trials to MLflow between measurements; waits a bounded time, so that no window is disturbed."""

    def __init__(self, tracker: MlflowTracker, records: Records, study: str) -> None:
        self._tracker, self._records, self._study = tracker, records, study
        self._is_open = False

    def phase(self, name: str, detail: str) -> None:
        """Opens the study's run before the first trial."""
        if not self._is_open:
            self._is_open = True
            self._tracker.start(self._records.study(self._study))
        self._tracker.flush()

    def started(self, ticket: Ticket, config: Config) -> None:
        """Nothing: a measured window is about to open."""

    def measured(self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None) -> None:
        """Queue the trial and wait until it is written."""
        if ticket.is_cold:
            return
        record = self._records.study(self._study, only=(BASELINE, ticket.number))
        self._tracker.trial(judge_trial(record, ticket.number))
        self._tracker.flush()

    def note(self, message: str) -> None:
        """Nothing."""


def _prepared(file: StudyFile, records: Records, new_space: bool) -> int:
    try:
        return prepare_records(file, records, new_space=new_space)
    except StudyChanged as changed:
        lines = "\n".join(f"  {line}" for line in changed.differences)
        raise CliError(
            f"{file.path}: study '{changed.study}' is recorded with something else:\n{lines}\n"
            "add --new-space to begin a new generation that reuses the trials still inside, "
            "or give the file another study: name"
        ) from changed


def _say_what_is_known(progress: LineProgress, file: StudyFile, records: Records, known: int) -> None:
    if known:
        progress.say(f"study '{file.name}' goes on: {known} trials are recorded in {records.location}")
    if records.location.startswith("sqlite:///") and is_network_filesystem(records.location[len("sqlite:///") :]):
        progress.say("warning: the records are on a network file system, where sqlite locks are unreliable")
    for leftover in leftovers():
        progress.say(f"ended what an earlier run that died left behind: {leftover.what}")
        leftover.end()
    free_gib = shutil.disk_usage(".").free / 2**30
    if free_gib < LOW_DISK_GIB:
        progress.say(f"warning: {free_gib:.2f} GiB of disk are free here; a full disk fails trials")


def _tracker(file: StudyFile, records: Records, progress: LineProgress) -> MlflowTracker | None:
    if file.tracking.mlflow is None:
        return None
    try:
        return MlflowTracker(
            file.tracking.mlflow,
            file.tracking.experiment or file.name,
            known_run_id=records.study(file.name, only=()).notes.get("mlflow_run_id"),
            on_parent=lambda run_id: records.note(file.name, "mlflow_run_id", run_id),
            warn=progress.say,
        )
    except TrackingError as problem:
        raise CliError(str(problem)) from problem


def _report(
    file: StudyFile, records: Records, ending: Ending, tracker: MlflowTracker | None, wishes: Wishes
) -> int:
    result = ending.result
    if tracker is not None and result is not None:
        from tuner.cli.artifacts import study_artifacts  # plotting libraries: only now, when nothing is measured

        tracker.finish(result, study_artifacts(result.record, result))
    elif tracker is not None:
        tracker.close()
    if result is not None and ending.failure is None:
        click.echo(json.dumps(as_json(result), indent=2) if wishes.as_json else summary_of(result))
    for line in _last_lines(file, records, ending, wishes):
        print(line, file=sys.stderr)
    return _exit_code(ending)


def _last_lines(file: StudyFile, records: Records, ending: Ending, wishes: Wishes) -> list[str]:
    if ending.failure is not None:
        return [f"the study failed: {ending.failure}"]
    lines = [f"stopped: {ending.stopped_because}"]
    if ending.is_interrupted:
        lines.append(f"everything measured is saved in {records.location}; go on with: tuner run {wishes.name_typed}")
    elif ending.result is not None and ending.result.front:
        lines.append(f"export the recommended one with: tuner export {file.name} -o best.yaml")
    elif ending.result is not None:
        lines.append(
            f"no trial meets the limits; nearest: {ending.result.nearest_miss}. Loosen the limit, widen the space, "
            f"or export one all the same with: tuner export {file.name} --trial N"
        )
    return lines


def _exit_code(ending: Ending) -> ExitCode:
    if ending.failure is not None:
        return ExitCode.STUDY_FAILED
    if ending.is_interrupted:
        return ExitCode.INTERRUPTED
    has_front = ending.result is not None and bool(ending.result.front)
    return ExitCode.DONE if has_front else ExitCode.NOTHING_FEASIBLE
