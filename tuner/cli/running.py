"""The heavy half of ``tuner run``: opens records, MLflow and Ray, runs the study, prints how it ended."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tuner.cli.announced import Announced
from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode, forget_output
from tuner.cli.exhausted import too_few_left
from tuner.cli.live import progress_for
from tuner.cli.mlflow_watch import TrackerWatcher, finish_tracking, tracker_for
from tuner.cli.more import with_more
from tuner.cli.progress import LineProgress
from tuner.cli.refusals import changed_study, refuse_what_cannot_run
from tuner.cli.summary import summary_of
from tuner.cli.text import plural, print_json
from tuner.execution.leftovers import leftovers
from tuner.execution.protocol import ExecutionError
from tuner.launch import Ending, StudyChanged, claimed, prepare_records, run_study, trials_folder
from tuner.loop.recall import spent_s
from tuner.records.errors import RecordsError, UnknownStudy
from tuner.records.filesystem import is_network_filesystem
from tuner.records.repository import Records
from tuner.results import as_json, judge
from tuner.space.model import StudyFile
from tuner.study import Watcher
from tuner.tracking import MlflowTracker

LOW_DISK_GIB = 1.0


@dataclass(frozen=True)
class Wishes:
    """What was asked on the command line besides the file.

    ``has_total``: the number of trials was given there. ``arguments`` are those to repeat to go on.
    """

    more: int | None
    has_total: bool
    new_space: bool
    take_over: bool
    ray_address: str | None
    as_json: bool
    records: str | None
    arguments: tuple[str, ...]

    def go_on(self, file: StudyFile) -> str:
        """The command that goes on with the study; ``--more`` is a total by now, or it would add again."""
        total = ["--trials", str(file.budget.trials)] if self.has_total else []
        if self.more is not None and file.budget.wall_time_s is not None:
            total += ["--set", f"budget.wall_time={file.budget.wall_time_s:.0f} s"]
        return shlex.join(["tuner", "run", *self.arguments, *total])

    def other_verb(self, *words: str) -> str:
        """A command on the same records."""
        return shlex.join(
            ["tuner", *words, *(["--records", self.records] if self.records is not None else [])]
        )


def run_file(file: StudyFile, wishes: Wishes) -> int:
    """Run a checked space file; returns the exit code."""
    refuse_what_cannot_run(file, wishes.ray_address)
    with Records.open(wishes.records) as records, claimed(records, file.name, take_over=wishes.take_over):
        _refuse_a_bad_folder(records, file)
        before = _generation(records, file.name)
        known = _prepared(file, records, wishes.new_space)
        if wishes.more is not None:
            spent = spent_s(records.study(file.name))
            file, remark = with_more(file, known, wishes.more, spent)
            echo(remark, err=True)
        try:
            return _run_prepared(file, records, wishes, known, _what_is_known(file, records, known, before))
        except RecordsError as problem:
            raise CliError(
                f"{problem}\nwhat was recorded before is intact; go on with: {wishes.go_on(file)}",
                ExitCode.STUDY_FAILED,
            ) from problem


def _run_prepared(file: StudyFile, records: Records, wishes: Wishes, known: int, said: str | None) -> int:
    progress = progress_for(file, known)
    tracker = None
    try:
        if said is not None:
            progress.say(said)
        _say_what_is_odd(progress, records)
        if wishes.more is not None and (short := too_few_left(file, records.study(file.name), wishes.more)):
            progress.say(short)
        tracker = tracker_for(file, records, progress.say)
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

    try:
        executor = Announced(RayTuneExecutor(wishes.ray_address), progress.say)
        return run_study(file, records, executor, watchers, progress.ready)
    except ExecutionError as problem:
        raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem


def _prepared(file: StudyFile, records: Records, new_space: bool) -> int:
    try:
        return prepare_records(file, records, new_space=new_space)
    except StudyChanged as changed:
        raise CliError(changed_study(file, changed.differences)) from changed


def _refuse_a_bad_folder(records: Records, file: StudyFile) -> None:
    """CliError where no trial folder could be made."""
    folder = trials_folder(records.location, file.name, 1)
    there = next(parent for parent in folder.parents if parent.exists())
    if not there.is_dir():
        raise CliError(
            f"{there}: trial folders go there, but it is not a folder; move it, or give other --records"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise CliError(f"{there}: trial folders go there, but it is read-only; give other --records")


def _generation(records: Records, study: str) -> int:
    """The latest generation of a study; 0 where the records do not have it."""
    try:
        return records.study(study, only=()).generation
    except UnknownStudy:
        return 0


def _what_is_known(file: StudyFile, records: Records, known: int, before: int) -> str | None:
    """What the records hold for this run; None for a study that they have never seen."""
    path, now = records.location.removeprefix("sqlite:///"), _generation(records, file.name)
    if 0 < before < now:
        taken = plural(known, "trial") if known else "nothing"
        return (
            f"study '{file.name}' begins generation {now} with {taken} of generation {before}; "
            f"the old one stays: tuner show {file.name}@{before}"
        )
    return f"study '{file.name}' goes on: {plural(known, 'trial')} recorded in {path}" if known else None


def _say_what_is_odd(progress: LineProgress, records: Records) -> None:
    """A bad place for records, what a dead run left, a disk that is nearly full."""
    path = records.location.removeprefix("sqlite:///")
    if path != records.location and is_network_filesystem(path):
        progress.say("warning: the records are on a network file system, where sqlite locks are unreliable")
    for leftover in leftovers():
        progress.say(f"ended what an earlier run that died left behind: {leftover.what}")
        leftover.end()
    free_gib = shutil.disk_usage(Path(path).parent if path != records.location else ".").free / 2**30
    if free_gib < LOW_DISK_GIB:
        progress.say(f"warning: {free_gib:.2f} GiB of disk are free here; a full disk fails trials")


def _report(
    file: StudyFile, records: Records, ending: Ending, tracker: MlflowTracker | None, wishes: Wishes
) -> int:
    """Print how it ended, then let MLflow have it."""
    result = ending.result
    try:
        if wishes.as_json:
            print_json(as_json(result or judge(records.study(file.name))))
        elif result is not None:
            echo(summary_of(result))
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()  # the reader has gone; MLflow and the exit code still want their due
    if tracker is not None:
        finish_tracking(tracker, records, file.name, result, warn=partial(echo, err=True))
    for line in ["", *_last_lines(file, records, ending, wishes)]:
        echo(line, err=True)
    return _exit_code(ending)


def _last_lines(file: StudyFile, records: Records, ending: Ending, wishes: Wishes) -> list[str]:
    """Why it ended, and the command to type next."""
    if ending.failure is not None:
        return [
            f"the study failed: {ending.failure}",
            f"once that is mended, go on with: {wishes.go_on(file)}",
        ]
    lines, result = [f"stopped: {ending.stopped_because}"], ending.result
    if ending.is_interrupted:
        place = records.location.removeprefix("sqlite:///")
        lines.append(f"everything measured is saved in {place}; go on with: {wishes.go_on(file)}")
    elif (
        result is not None and len(result.trials) == 1 and file.budget.trials > 1 and file.budget.wall_time_s
    ):
        lines.append(
            f"nothing was searched: the baseline took the time; go on with: {wishes.go_on(file)} "
            f"--set 'budget.wall_time={2 * file.budget.wall_time_s:.0f} s'"
        )
    elif result is not None and result.front:
        lines += ["see it in MLflow with: tuner ui"] if file.tracking.mlflow else []
        export = wishes.other_verb("export", file.name, "-o", "best.yaml")
        lines.append(f"export the recommended one with: {export}")
    elif result is not None and result.nearest_miss is not None:
        export = wishes.other_verb("export", file.name, "--trial", str(result.nearest_miss.trial))
        lines.append(f"loosen the limit or widen the space, or export the nearest with: {export}")
    return lines


def _exit_code(ending: Ending) -> ExitCode:
    if ending.failure is not None:
        return ExitCode.STUDY_FAILED
    if ending.is_interrupted:
        return ExitCode.INTERRUPTED
    has_front = ending.result is not None and bool(ending.result.front)
    return ExitCode.DONE if has_front else ExitCode.NOTHING_FEASIBLE
