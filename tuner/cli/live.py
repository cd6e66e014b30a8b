"""The live view on a terminal: a panel with the front so far, what runs, the budget and the time left.

Nothing is drawn by a timer: the panel changes when a trial starts or ends, so that no measured window is
disturbed. It is plain text that is erased before the next line is printed. The cursor is never hidden:
however the program ends, the terminal is as it was.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import unicodedata
from typing import Any

from trials.contract import Measurement, Outcome, Purpose
from tuner.cli.console import legible
from tuner.cli.progress import LineProgress, stage_of
from tuner.cli.table import table
from tuner.cli.text import shown_config, shown_duration, shown_number, shown_trial, styled
from tuner.pareto import front_indices
from tuner.space.model import StudyFile
from tuner.space.space import Config
from tuner.study import Study, Ticket

_LONGEST_FRONT = 10


class LiveProgress(LineProgress):
    """One line per measurement, and the panel below."""

    def __init__(self, file: StudyFile, known: int) -> None:
        super().__init__(file, known)
        self._begin = time.monotonic()
        self._phase = ""
        self._runs = 0
        self._running: dict[tuple[int, Purpose, int], tuple[Ticket, Config]] = {}
        self._points: dict[int, tuple[list[float], Config]] = {}
        self._height = 0

    def ready(self, study: Study) -> None:
        """The front of earlier runs of the study is shown from the beginning."""
        super().ready(study)
        if self.trials:
            metrics = [o.metric for o in self.file.objectives]
            for trial in study.judged().trials:
                if trial.may_be_on_front:
                    values = [trial.estimates[metric].value for metric in metrics]
                    self._points[trial.number] = values, dict(trial.config)

    def phase(self, name: str, detail: str) -> None:
        """A phase begins."""
        self._phase = name
        super().phase(name, detail)

    def started(self, ticket: Ticket, config: Config) -> None:
        """Shows the trial as running."""
        super().started(ticket, config)
        self._running[ticket.number, ticket.purpose, ticket.seed] = ticket, config
        self._redraw()

    def measured(
        self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None
    ) -> None:
        """The line of a measurement, and a new panel."""
        self._runs += 1
        self._running.pop((ticket.number, ticket.purpose, ticket.seed), None)
        if measurement.outcome is Outcome.COMPLETE and is_feasible is not False and not ticket.is_cold:
            values = [measurement.metrics[o.metric].value for o in self.file.objectives]
            self._points.setdefault(ticket.number, (values, config))
        if is_feasible is False:
            self._points.pop(ticket.number, None)  # a limit became known, or another run breaks it
        super().measured(ticket, config, measurement, is_feasible=is_feasible)

    def say(self, line: str) -> None:
        """Above the panel."""
        self._erase()
        print(legible(line), file=sys.stderr, flush=True)
        self._redraw()

    def close(self) -> None:
        """Take the panel down."""
        self._erase()

    def _redraw(self) -> None:
        self._erase()
        size = shutil.get_terminal_size()
        width = max(size.columns - 1, 20)
        lines = ["", *(cut_to_width(line, width) for line in self._panel())][-max(size.lines - 2, 1) :]
        self._height = len(lines)
        sys.stderr.write("\n".join(styled(line, "2", sys.stderr) for line in lines) + "\n")
        sys.stderr.flush()

    def _erase(self) -> None:
        if self._height:
            sys.stderr.write(f"\r\x1b[{self._height}A\x1b[J")
            sys.stderr.flush()
        self._height = 0

    def _panel(self) -> list[str]:
        running = [
            f"running  trial {ticket.number} {stage_of(ticket)}: {shown_trial(config, self.file.baseline, self.names)}"
            for ticket, config in self._running.values()
        ]
        return [*self._front(), *running, self._budget()]

    def _front(self) -> list[str]:
        objectives = self.file.objectives
        items: list[tuple[int, Any]] = list(self._points.items())
        losses = [[o.loss(v) for o, v in zip(objectives, values, strict=True)] for _, (values, _) in items]
        front = sorted(front_indices(losses), key=lambda index: losses[index])
        shown = [items[index] for index in front[:_LONGEST_FRONT]]
        rows = [
            [str(n), *map(shown_number, values), shown_config(config, self.names)]
            for n, (values, config) in shown
        ]
        if not rows:
            return []
        heading = "front so far" if len(objectives) > 1 else "best so far"
        more = [f"and {len(front) - len(shown)} more"] if len(front) > len(shown) else []
        return [*table(rows, ["trial", *(o.metric for o in objectives), heading]).splitlines(), *more]

    def _budget(self) -> str:
        gone_s = time.monotonic() - self._begin
        runs = self.study.confirm_runs if self.study and self._phase == "confirm" else 0
        done = (
            f"{self.confirmed} of {runs} runs"
            if runs
            else f"{self.trials} of {self.file.budget.trials} trials"
        )
        parts = [
            f"{self._phase}: {done}",
            f"{shown_duration(gone_s)} gone",
        ]
        if (left := self._left_s(gone_s)) is not None:
            parts.append(left)
        return "   ".join([*parts, "Ctrl-C ends it, all saved"])

    def _left_s(self, gone_s: float) -> str | None:
        """What the budget leaves, or what the pace so far promises."""
        limit_s = self.study.time.left_s if self.study and self.file.budget.wall_time_s is not None else None
        if self._phase == "search" and self._runs >= 3:
            confirm = self.file.confirm
            more = confirm.repeats * (confirm.finalists + 1) if confirm.finalists else 0
            pace_s = gone_s / self._runs * max(self.file.budget.trials - self.trials + more, 0)
            if limit_s is None or pace_s < limit_s:
                return f"about {shown_duration(pace_s)} to go"
        if self._phase == "confirm" and (pace := self.confirm_left_s()) is not None:
            return f"about {shown_duration(pace if limit_s is None else min(pace, max(limit_s, 0.0)))} to go"
        return None if limit_s is None else f"{shown_duration(max(limit_s, 0.0))} left"


def cut_to_width(line: str, width: int) -> str:
    """The line in at most so many columns; a character of East Asian text takes two."""
    room = width
    for position, char in enumerate(line):
        room -= 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if room < 0:
            return f"{line[: position - 1]}…"
    return line


def progress_for(file: StudyFile, known: int) -> LineProgress:
    """The live view on a terminal, lines elsewhere."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveProgress(file, known)
    return LineProgress(file, known)
