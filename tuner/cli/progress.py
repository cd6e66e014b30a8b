"""What a running study says on stderr: a line a measurement (on a terminal ``live.py`` adds a panel)."""

from __future__ import annotations

import sys

from trials.contract import Measurement, Outcome
from tuner.cli.text import first_line, shown_config, shown_duration, shown_number
from tuner.space.model import StudyFile
from tuner.space.space import Config
from tuner.study import Study, Ticket

_MARKS = {True: "ok", False: "breaks a limit", None: ""}


class LineProgress:
    """One line per measurement. ``known``: how many trials the study had before this run."""

    def __init__(self, file: StudyFile, known: int) -> None:
        self.file = file
        self.study: Study | None = None
        self.trials = known
        self.names = [p.name for p in file.space.parameters if p.is_searched]

    def ready(self, study: Study) -> None:
        """The study is about to run."""
        self.study = study

    def phase(self, name: str, detail: str) -> None:
        """A phase begins."""
        self.say(f"{name}: {detail}")

    def started(self, ticket: Ticket, config: Config) -> None:
        """Counts the trial; the line comes when it has ended."""
        self.trials = max(self.trials, ticket.number + 1)

    def measured(
        self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None
    ) -> None:
        """The line of a measurement."""
        total = max(self.file.budget.trials, self.trials)
        count = f"[{self.trials:>{len(str(total))}}/{total}]"
        result = self._result(ticket, measurement, is_feasible)
        what = f"trial {ticket.number} {stage_of(ticket)}: {shown_config(config, self.names)}"
        self.say(f"{count} {what} -> {result}")

    def note(self, message: str) -> None:
        """A remark; only its first line, a log is in the trial's folder."""
        self.say(f"  {first_line(message)}")

    def close(self) -> None:
        """Nothing to take down."""

    def say(self, line: str) -> None:
        """Print on stderr; stdout is for data."""
        print(line, file=sys.stderr, flush=True)

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


def stage_of(ticket: Ticket) -> str:
    """Why a measurement is taken: ``(search)``, ``(cold run)``, ``(confirm, round 2, again)``."""
    words = ["cold run" if ticket.is_cold else str(ticket.purpose)]
    if ticket.round_number is not None:
        words.append(f"round {ticket.round_number + 1}")
    if ticket.attempt > 1 and words[0] != "retry":
        words.append("again")
    return f"({', '.join(words)})"
