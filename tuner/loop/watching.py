"""Who is told how a study goes: the lines on the terminal, MLflow. They look on; they cannot end a study."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from trials.contract import Measurement
from tuner.loop.tickets import Ticket
from tuner.space.space import Config

_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Is told how a study goes. Called between trials only, never inside a measured window."""

    def phase(self, name: str, detail: str) -> None:
        """A phase begins: baseline, search, confirm."""
        ...

    def started(self, ticket: Ticket, config: Config) -> None:
        """A measurement was sent to run."""
        ...

    def measured(
        self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None
    ) -> None:
        """A measurement ended and is in the records."""
        ...

    def note(self, message: str) -> None:
        """Something the user should read."""
        ...


class Watchers:
    """Several watchers as one. One that raises is told no more: hours of measuring outweigh a view of them.

    Its traceback is logged (by default to stderr), for it is a bug all the same.
    """

    def __init__(self, watchers: Iterable[Watcher] = ()) -> None:
        self._watchers = list(watchers)

    def phase(self, name: str, detail: str) -> None:
        """See ``Watcher``."""
        self._tell(lambda watcher: watcher.phase(name, detail))

    def started(self, ticket: Ticket, config: Config) -> None:
        """See ``Watcher``."""
        self._tell(lambda watcher: watcher.started(ticket, config))

    def measured(
        self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None
    ) -> None:
        """See ``Watcher``."""
        self._tell(lambda watcher: watcher.measured(ticket, config, measurement, is_feasible=is_feasible))

    def note(self, message: str) -> None:
        """See ``Watcher``."""
        self._tell(lambda watcher: watcher.note(message))

    def _tell(self, say: Callable[[Watcher], None]) -> None:
        for watcher in tuple(self._watchers):
            try:
                say(watcher)
            except Exception:  # noqa: BLE001 - whatever a view does wrong, the study goes on
                self._watchers.remove(watcher)
                _log.exception("%s failed and is told no more; the study goes on", type(watcher).__name__)
