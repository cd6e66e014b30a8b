"""``tuner show --watch``: follows a study that another process runs, by reading its records.

What it costs falls on the machine that measures: it looks every two seconds at one row, and reads the study
only where that has changed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import click

from trials.contract import Outcome
from tuner.cli.front import varying
from tuner.cli.summary import headline, summary_of
from tuner.cli.text import first_line, shown_config, shown_number
from tuner.records.repository import Records
from tuner.records.rows import MeasurementRecord
from tuner.results import StudyResult, judge

LOOK_S = 2.0
_SHARE = 10  # a look at a long study takes time: it pauses this many times as long


def watch(study: str, location: str | None, sleep: Callable[[float], None] = time.sleep) -> None:
    """Follow the study until its run ends or Ctrl-C is pressed. ``sleep`` is a parameter for tests."""
    is_screen = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    view: ScreenView | LineView = ScreenView() if is_screen else LineView()
    with suppress(KeyboardInterrupt), Records.open(location, must_exist=True) as records:
        seen: datetime | None = None
        while True:
            runner = records.runner(study)  # first, or what it wrote at its end could be missed
            begin = time.monotonic()
            if (updated := records.study(study, only=()).updated_at) != seen:
                seen = updated
                view.changed(judge(records.study(study)))
            if runner is None:
                break
            sleep(max(LOOK_S, _SHARE * (time.monotonic() - begin)))
        view.ended(judge(records.study(study)))


class ScreenView:
    """Draws the whole summary anew."""

    def changed(self, result: StudyResult) -> None:
        """Something was recorded."""
        click.echo(
            f"\x1b[2J\x1b[H{summary_of(result)}\n\n{running(result)}  (Ctrl-C ends watching, not the run)"
        )

    def ended(self, result: StudyResult) -> None:
        """No process runs the study (any more)."""
        click.echo(f"\x1b[2J\x1b[H{summary_of(result)}\n\n{_stopped(result)}")


class LineView:
    """A line for each measurement that has ended since, then the summary."""

    def __init__(self) -> None:
        self._told: set[str] | None = None

    def changed(self, result: StudyResult) -> None:
        """Something was recorded. What is there from the beginning is one line."""
        ended = [run for trial in result.trials for run in trial.measurements if run.outcome is not None]
        if self._told is None:
            click.echo(f"{headline(result)}; {running(result)}")
            self._told = {run.measurement_id for run in ended}
        for run in sorted(ended, key=lambda one: one.ended_at or one.started_at):
            if run.measurement_id not in self._told:
                self._told.add(run.measurement_id)
                click.echo(_line(run, result))

    def ended(self, result: StudyResult) -> None:
        """No process runs the study (any more)."""
        click.echo(f"\n{summary_of(result)}\n\n{_stopped(result)}")


def running(result: StudyResult) -> str:
    """What runs now: ``running: trial 7 (search)``."""
    open_runs = [run for trial in result.trials for run in trial.measurements if run.outcome is None]
    names = ", ".join(f"trial {run.trial_number} ({run.purpose})" for run in open_runs)
    return f"running: {names}" if names else "nothing runs at this moment"


def _line(run: MeasurementRecord, result: StudyResult) -> str:
    config = shown_config(result.trial(run.trial_number).config, varying(result))
    if run.outcome is Outcome.COMPLETE:
        keys = [o.metric for o in result.objectives if o.metric in run.metrics]
        said = "  ".join(f"{key}={shown_number(run.metrics[key].value)}" for key in keys)
    else:
        kind = f" ({run.failure_kind})" if run.failure_kind else ""
        said = f"{run.outcome}{kind}: {first_line(run.message)}"
    is_good = run.outcome is Outcome.COMPLETE and run.trial_number in result.front
    mark = "  not counted" if run.is_discarded else "  on the front" if is_good else ""
    return f"trial {run.trial_number} ({run.purpose}): {config} -> {said}{mark}"


def _stopped(result: StudyResult) -> str:
    return f"stopped: {result.record.stopped_because or 'no process runs it; tuner run goes on with it'}"
