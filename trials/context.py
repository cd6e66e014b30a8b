"""What a running trial holds: its spec, its phase clocks and its events file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from trials.contract import EVENTS_FILE, TrialSpec
from trials.stages import STAGE, Stage


class TrialContext:
    """Handed to a workload's ``run``; phases add up, events are lines of ``events.jsonl``.

    Events are written at phase edges only, never inside a measured window.
    """

    def __init__(self, spec: TrialSpec, started_at: float) -> None:
        self.spec = spec
        self.started_at = started_at  # time.monotonic() at the first line of the trial's program
        self.phases: dict[str, float] = {}
        self.warnings: list[str] = []
        self._events: IO[str] = (spec.trial_dir / EVENTS_FILE).open("a", encoding="utf-8", buffering=1)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase (``warmup_s``); a phase entered twice adds up; an exception keeps the time so far."""
        begin = time.monotonic()
        self.event("phase", name=name)
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - begin

    def event(self, kind: str, **fields: Any) -> None:
        """Append one line to the events file: kind, seconds since the start, fields."""
        line = {"event": kind, "at_s": round(time.monotonic() - self.started_at, 4), **fields}
        self._events.write(json.dumps(line, default=str) + "\n")

    def stage(self, stage: Stage) -> None:
        """Say how far the trial is and what is known by now; whoever started it may end it for that."""
        self.event(STAGE, **stage.as_event())

    def warn(self, message: str) -> None:
        """Keep a remark that the reader of the results should see."""
        self.warnings.append(message)

    def close(self) -> None:
        """Close the events file."""
        self._events.close()
