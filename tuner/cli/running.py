"""The heavy half of ``tuner run``: opens records, MLflow and Ray, runs the study, prints how it ended."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace

import click

from trials.contract import Measurement
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.progress import LineProgress, progress_for
from tuner.cli.summary import summary_of
from tuner.execution.leftovers import leftovers
from tuner.execution.protocol import ExecutionError
from tuner.launch import Ending, StudyChanged, prepare_records, run_study
from tuner.records.repository import Records
from tuner.results import as_json, judge_trial
from tuner.space.model import StudyFile
from tuner.space.space import Config
from tuner.study import Study, Ticket
from tuner.tracking import MlflowTracker, TrackingError

LOW_DISK_GIB = 1.0


def run_file(
    file: StudyFile,
    location: str | None,
    *,
    more: int | None,
    new_space: bool,
    ray_address: str | None,
    as_json: bool,
) -> int:
    """Run a checked space file; returns the exit code."""
    from tuner.execution.ray_tune import RayTuneExecutor

    with Records.open(location) as records:
        known = _prepared(file, records, new_space)
        if more is not None:
            file = replace(file, budget=replace(file.budget, trials=known + more, wall_time_s=None))
        progress = progress_for(file)
        try:
            _say_what_is_known(progress, file, records, known)
            tracker = _tracker(file, records, progress)
            watchers = [progress, *([TrackerWatcher(tracker, records, file.name)] if tracker else [])]

            def on_ready(study: Study) -> None:
                progress.study = study

            ending = run_study(file, records, RayTuneExecutor(ray_address), watchers, on_ready)
        except ExecutionError as problem:
            raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem
        finally:
            progress.close()
        return _report(file, records, ending, tracker, as_json)


class TrackerWatcher:
    """Hands trials to MLflow between measurements; waits a bounded time, so that no window is disturbed."""

    def __init__(self, tracker: MlflowTracker, records: Records, study: str) -> None:
        self._tracker, self._records, self._study = tracker, records, study

    def phase(self, name: str, detail: str) -> None:
        """Opens the study's run before the first trial."""
        if name == "baseline" or self._tracker.run_id is None:
            self._tracker.start(self._records.study(self._study))
        self._tracker.flush()

    def started(self, ticket: Ticket, config: Config) -> None:
        """Nothing: a measured window is about to open."""

    def measured(self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None) -> None:
        """Queue the trial and wait until it is written."""
        if ticket.is_cold:
            return
        self._tracker.trial(judge_trial(self._records.study(self._study), ticket.number))
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
            known_run_id=records.study(file.name).notes.get("mlflow_run_id"),
            on_parent=lambda run_id: records.note(file.name, "mlflow_run_id", run_id),
            warn=progress.say,
        )
    except TrackingError as problem:
        raise CliError(str(problem)) from problem


def _report(
    file: StudyFile, records: Records, ending: Ending, tracker: MlflowTracker | None, json_wanted: bool
) -> int:
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)  # noqa: E731
    result = ending.result
    if tracker is not None and result is not None:
        from tuner.cli.artifacts import study_artifacts  # plotting libraries: only now, when nothing is measured

        tracker.finish(result, study_artifacts(records.study(file.name), result))
    elif tracker is not None:
        tracker.close()
    if ending.failure is not None:
        say(f"the study failed: {ending.failure}")
        return ExitCode.STUDY_FAILED
    if result is not None:
        click.echo(json.dumps(as_json(result), indent=2) if json_wanted else summary_of(result))
    say(f"stopped: {ending.stopped_because}")
    if ending.is_interrupted:
        say(f"everything measured is saved in {records.location}; go on with: tuner run {file.path}")
        return ExitCode.INTERRUPTED
    if result is None or not result.front:
        return ExitCode.NOTHING_FEASIBLE
    say(f"export the recommended one with: tuner export {file.name} -o best.yaml")
    return ExitCode.DONE
