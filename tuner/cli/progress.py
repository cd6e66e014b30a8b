"""What a running study says on stderr: a live view on a terminal, one line a trial elsewhere.

Nothing is drawn by a timer: the view changes when a trial starts or ends, so that no measured window is disturbed.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from trials.contract import Measurement, Outcome, Purpose
from tuner.cli.text import shown_config, shown_duration, shown_number, table
from tuner.pareto import front_indices
from tuner.space.model import StudyFile
from tuner.space.space import Config
from tuner.study import Study, Ticket

_MARKS = {True: "ok", False: "breaks a limit", None: ""}


class LineProgress:
    """One line per measurement."""

    def __init__(self, file: StudyFile) -> None:
        self.file = file
        self.study: Study | None = None
        self._names = [p.name for p in file.space.parameters if p.is_searched]
        self._trials_seen: set[int] = set()
        self._begin = time.monotonic()

    def phase(self, name: str, detail: str) -> None:
        """A phase begins."""
        self.say(f"{name}: {detail}")

    def started(self, ticket: Ticket, config: Config) -> None:
        """Counts the trial; the line comes when it has ended."""
        self._trials_seen.add(ticket.number)

    def measured(self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None) -> None:
        """The line of a measurement."""
        count = f"[{len(self._trials_seen)}/{self.file.budget.trials}]"
        label = "cold run, not counted" if ticket.is_cold else str(ticket.purpose)
        if ticket.attempt > 1:
            label += ", again"
        if ticket.round_number is not None:
            label += f" round {ticket.round_number + 1}"
        seconds = measurement.phases.get("wall_s")
        took = f"  {seconds:.1f} s" if seconds is not None else ""
        self.say(
            f"{count} trial {ticket.number} ({label})  {shown_config(config, self._names)}"
            f"  {self._result(measurement, is_feasible)}{took}"
        )

    def note(self, message: str) -> None:
        """A remark."""
        self.say(message)

    def close(self) -> None:
        """Nothing to take down."""

    def say(self, line: str) -> None:
        """Print on stderr; stdout is for data."""
        print(line, file=sys.stderr, flush=True)

    def _result(self, measurement: Measurement, is_feasible: bool | None) -> str:
        if measurement.outcome is not Outcome.COMPLETE:
            first = measurement.message.strip().splitlines()[:1]
            return f"{measurement.outcome} {measurement.failure_kind or ''}: {first[0][:160] if first else ''}"
        shown = [
            f"{key}={shown_number(measurement.metrics[key].value)}"
            for key in self.file.wanted
            if key in measurement.metrics
        ]
        return "  ".join([*shown, _MARKS[is_feasible]]).rstrip()


class LiveProgress(LineProgress):
    """The same on a terminal, with a panel below: front so far, what runs, budget and time left."""

    def __init__(self, file: StudyFile) -> None:
        super().__init__(file)
        from rich.console import Console
        from rich.live import Live

        self._running: dict[tuple[int, Purpose, int], Config] = {}
        self._points: dict[int, tuple[list[float], Config]] = {}
        self._phase_name = ""
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._live.start()

    def phase(self, name: str, detail: str) -> None:
        """A phase begins."""
        self._phase_name = name
        super().phase(name, detail)

    def started(self, ticket: Ticket, config: Config) -> None:
        """Shows the trial as running."""
        super().started(ticket, config)
        self._running[ticket.number, ticket.purpose, ticket.seed] = config
        self._draw()

    def measured(self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None) -> None:
        """The line of a measurement, and a new panel."""
        self._running.pop((ticket.number, ticket.purpose, ticket.seed), None)
        if measurement.outcome is Outcome.COMPLETE and is_feasible is not False and not ticket.is_cold:
            values = [measurement.metrics[o.metric].value for o in self.file.objectives]
            self._points.setdefault(ticket.number, (values, config))
        super().measured(ticket, config, measurement, is_feasible=is_feasible)
        self._draw()

    def say(self, line: str) -> None:
        """Above the panel."""
        self._live.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the panel down."""
        self._live.stop()

    def _draw(self) -> None:
        from rich.text import Text

        self._live.update(Text(self._panel(), no_wrap=True, overflow="ellipsis"), refresh=True)

    def _panel(self) -> str:
        metrics = [o.metric for o in self.file.objectives]
        losses = [[o.loss(v) for o, v in zip(self.file.objectives, values, strict=True)] for values, _ in self._points.values()]
        items: list[tuple[int, Any]] = list(self._points.items())
        front = sorted((items[i] for i in front_indices(losses)), key=lambda item: losses_key(item, self.file))
        rows = [
            [str(number), *map(shown_number, values), shown_config(config, self._names)]
            for number, (values, config) in front[:10]
        ]
        parts = [table(rows, ["trial", *metrics, "front so far"])] if rows else []
        for (number, purpose, _), config in self._running.items():
            parts.append(f"running  trial {number} ({purpose})  {shown_config(config, self._names)}")
        left = self.study.time.left_s if self.study else float("inf")
        parts.append(
            f"{self._phase_name}  {len(self._trials_seen)}/{self.file.budget.trials} trials"
            f"  {shown_duration(time.monotonic() - self._begin)} gone, {shown_duration(max(left, 0))} left"
        )
        return "\n" + "\n".join(parts)


def losses_key(item: tuple[int, Any], file: StudyFile) -> float:
    """Orders the front by its first objective, best first."""
    return file.objectives[0].loss(item[1][0][0])


def progress_for(file: StudyFile) -> LineProgress:
    """The live view on a terminal, lines elsewhere."""
    import os

    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return LiveProgress(file) if is_terminal else LineProgress(file)
