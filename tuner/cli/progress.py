"""What a running study says on stderr: a line a measurement (on a terminal ``live.py`` adds a panel)."""

from __future__ import annotations

import sys
import time

from trials.contract import Measurement, Outcome, Purpose
from tuner.cli.console import legible
from tuner.cli.text import first_line, shown_duration, shown_number, shown_trial
from tuner.space.model import StudyFile
from tuner.space.space import Config
from tuner.study import Study, Ticket

_MARKS = {True: "ok", False: "breaks a limit", None: ""}


class LineProgress:
    """One line per measurement. ``known``: how many trials the study had before this run; ``search``: what the
    first run of a configuration is called.
    """

    def __init__(self, file: StudyFile, known: int, search: str = "search") -> None:
        self.file, self.search = file, search
        self.study: Study | None = None
        self.trials = known
        self.names = [p.name for p in file.space.parameters if p.is_searched]
        self.confirmed = 0  # runs of this confirmation that have ended
        self._confirm_begin = 0.0

    def ready(self, study: Study) -> None:
        """The study is about to run."""
        self.study = study

    def phase(self, name: str, detail: str) -> None:
        """A phase begins."""
        if name == "confirm" and not self.confirmed:
            self._confirm_begin = time.monotonic()
        self.say(f"{name}: {detail}")

    def started(self, ticket: Ticket, config: Config) -> None:
        """Counts the trial; the line comes when it has ended."""
        self.trials = max(self.trials, ticket.number + 1)

    def measured(
        self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None
    ) -> None:
        """The line of a measurement."""
        count = f"[{self._count(ticket)}]"
        result = self._result(ticket, measurement, is_feasible)
        shown = shown_trial(config, self.file.baseline, self.names)
        what = f"trial {ticket.number} {stage_of(ticket, self.search)}: {shown}"
        self.say(f"{count} {what} -> {result}")

    def _count(self, ticket: Ticket) -> str:
        """``3/8`` configurations; while confirming ``confirm 3/15`` runs, and about how long the others take."""
        if ticket.purpose is not Purpose.CONFIRM:
            total = max(self.file.budget.trials, self.trials)
            return f"{self.trials:>{len(str(total))}}/{total}"
        self.confirmed += 1
        total = max(self.study.confirm_runs if self.study else 0, self.confirmed)
        left_s = self.confirm_left_s()
        left = f", about {shown_duration(left_s)} left" if left_s else ""
        return f"confirm {self.confirmed:>{len(str(total))}}/{total}{left}"

    def confirm_left_s(self) -> float | None:
        """Seconds that the runs of this confirmation still take, by the pace of those done; None before one."""
        if self.study is None or not self.confirmed:
            return None
        pace_s = (time.monotonic() - self._confirm_begin) / self.confirmed
        return pace_s * max(self.study.confirm_runs - self.confirmed, 0)

    def note(self, message: str) -> None:
        """A remark; only its first line, a log is in the trial's folder."""
        self.say(f"  {first_line(message)}")

    def close(self) -> None:
        """Nothing to take down."""

    def say(self, line: str) -> None:
        """Print on stderr; stdout is for data."""
        print(legible(line), file=sys.stderr, flush=True)

    def _result(self, ticket: Ticket, measurement: Measurement, is_feasible: bool | None) -> str:
        if measurement.outcome is not Outcome.COMPLETE:
            kind = f" ({measurement.failure_kind})" if measurement.failure_kind else ""
            parts = [f"{measurement.outcome}{kind}: {first_line(measurement.message)}"]
        else:
            values = measurement.metrics
            parts = [f"{key}={shown_number(values[key].value)}" for key in self.file.wanted if key in values]
            parts.append("not counted" if ticket.is_cold else _MARKS[is_feasible])
            parts += ["contaminated"] if measurement.facts.get("contaminated") and not ticket.is_cold else []
        seconds = measurement.phases.get("wall_s")
        parts.append(f"[{shown_duration(seconds)}]" if seconds is not None else "")
        return "  ".join(part for part in parts if part)


def stage_of(ticket: Ticket, search: str = "search") -> str:
    """Why a measurement is taken: ``(search)``, ``(cold run)``, ``(confirm, round 2, again)``; ``search`` is what
    a first run of a configuration is called.
    """
    purpose = search if ticket.purpose is Purpose.SEARCH else str(ticket.purpose)
    words = ["cold run" if ticket.is_cold else purpose]
    if ticket.round_number is not None:
        words.append(f"round {ticket.round_number + 1}")
    if ticket.attempt > 1 and words[0] != "retry":
        words.append("again")
    return f"({', '.join(words)})"
