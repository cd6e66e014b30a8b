"""``tuner show --watch``: follows a study that another process runs, by reading its records.

What it costs falls on the machine that measures: it looks every two seconds at one row, and reads the study
only where that has changed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from trials.contract import Outcome, Purpose
from tuner.cli.console import echo
from tuner.cli.summary import headline, summary_of
from tuner.cli.text import first_line, shown_number, shown_trial
from tuner.records.errors import RecordsMissing, UnknownStudy
from tuner.records.repository import Records
from tuner.records.rows import MeasurementRecord
from tuner.results import StudyResult, judge

LOOK_S = 2.0
_CLEAR = "\x1b[2J\x1b[H"
_SHARE = 10  # a look at a long study takes time: it pauses this many times as long


def watch(study: str, location: str | None, sleep: Callable[[float], None] = time.sleep) -> None:
    """Follow the study until its run ends or Ctrl-C is pressed; wait for it where it has not begun.

    ``sleep`` is a parameter for tests.
    """
    is_screen = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    view: ScreenView | LineView = ScreenView() if is_screen else LineView()
    with suppress(KeyboardInterrupt):
        _wait_until_known(study, location, sleep)
        with Records.open(location, must_exist=True) as records:
            _follow(study, records, view, sleep)


def _wait_until_known(study: str, location: str | None, sleep: Callable[[float], None]) -> None:
    """Until the records have the study: whoever watches may be quicker than the run."""
    is_said = False
    while not _is_known(study, location):
        if not is_said:
            echo(f"waiting for a run of '{study}', which the records do not have yet  (Ctrl-C ends it)")
        is_said = True
        sleep(LOOK_S)


def _is_known(study: str, location: str | None) -> bool:
    try:
        with Records.open(location, must_exist=True) as records:
            records.study(study, only=())
    except (UnknownStudy, RecordsMissing):
        return False
    return True


def _follow(
    study: str, records: Records, view: ScreenView | LineView, sleep: Callable[[float], None]
) -> None:
    """Until its run ends. One that nobody runs is waited for unless it is finished."""
    seen: datetime | None = None
    has_run = is_said = False
    while True:
        runner = records.runner(study)  # first, or what it wrote at its end could be missed
        begin = time.monotonic()
        record = records.study(study, only=())
        has_run = has_run or runner is not None
        is_over = runner is None and (has_run or record.stopped_because is not None)
        if record.updated_at != seen and not (is_over and seen is None):
            seen = record.updated_at
            view.changed(judge(records.study(study)), is_run=runner is not None)
        if is_over:
            break
        if runner is None and not is_said:
            echo(f"no process runs '{study}' now; waiting for tuner run to go on with it  (Ctrl-C ends it)")
            is_said = True
        sleep(max(LOOK_S, _SHARE * (time.monotonic() - begin)))
    view.ended(judge(records.study(study)))


class ScreenView:
    """Draws the whole summary anew."""

    def changed(self, result: StudyResult, *, is_run: bool = True) -> None:
        """Something was recorded."""
        now = running(result, is_run=is_run)
        click.echo(_CLEAR, nl=False)
        echo(f"{summary_of(result)}\n\n{now}  (Ctrl-C ends watching, not the run)")

    def ended(self, result: StudyResult) -> None:
        """No process runs the study (any more)."""
        click.echo(_CLEAR, nl=False)
        echo(f"{summary_of(result)}\n\n{_stopped(result)}")


class LineView:
    """A line for each measurement that has ended since, then the summary."""

    def __init__(self) -> None:
        self._told: set[str] | None = None

    def changed(self, result: StudyResult, *, is_run: bool = True) -> None:
        """Something was recorded. What is there from the beginning is one line."""
        ended = [run for trial in result.trials for run in trial.measurements if run.outcome is not None]
        if self._told is None:
            echo(f"{headline(result)}; {running(result, is_run=is_run)}")
            self._told = {run.measurement_id for run in ended}
        for run in sorted(ended, key=lambda one: one.ended_at or one.started_at):
            if run.measurement_id not in self._told:
                self._told.add(run.measurement_id)
                echo(_line(run, result))

    def ended(self, result: StudyResult) -> None:
        """No process runs the study (any more)."""
        echo(f"\n{summary_of(result)}\n\n{_stopped(result)}")


def running(result: StudyResult, *, is_run: bool) -> str:
    """What runs now: ``running: trial 7 (search)``. ``is_run``: a process runs the study."""
    if not is_run:
        return "no process runs it"
    open_runs = [run for trial in result.trials for run in trial.measurements if run.outcome is None]
    names = ", ".join(f"trial {run.trial_number} ({run.purpose})" for run in open_runs)
    return f"running: {names}" if names else "a run is on, between two measurements"


def _line(run: MeasurementRecord, result: StudyResult) -> str:
    config = shown_trial(result.trial(run.trial_number).config, _baseline(result), _searched(result))
    if run.outcome is Outcome.COMPLETE:
        keys = [o.metric for o in result.objectives if o.metric in run.metrics]
        said = "  ".join(f"{key}={shown_number(run.metrics[key].value)}" for key in keys)
    else:
        kind = f" ({run.failure_kind})" if run.failure_kind else ""
        said = f"{run.outcome}{kind}: {first_line(run.message)}"
    is_search = run.purpose in (Purpose.SEARCH, Purpose.RETRY)
    is_good = is_search and run.outcome is Outcome.COMPLETE and run.trial_number in result.front
    mark = "  not counted" if run.is_discarded else "  on the front" if is_good else ""
    return f"trial {run.trial_number} ({run.purpose}): {config} -> {said}{mark}"


def _baseline(result: StudyResult) -> Mapping[str, Any]:
    return result.baseline.config if result.has_baseline else {}


def _searched(result: StudyResult) -> list[str]:
    """The parameters that the study varies, by its definition: the same from the first line to the last."""
    described = result.record.definition.get("parameters", {})
    fixed = {name for name, domain in described.items() if not domain.keys() & {"choices", "min"}}
    names = dict.fromkeys(name for trial in result.trials for name in trial.config)
    return [name for name in names if name not in fixed]


def _stopped(result: StudyResult) -> str:
    return f"stopped: {result.record.stopped_because or 'no process runs it; tuner run goes on with it'}"
