"""Which process works on a study, named so that a reused process number is never taken for it."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Owner:
    """One process of one machine, for ever: a process number together with the tick it started at.

    ``machine`` and ``boot`` are the system's identifiers ('' where it has none), ``pid_namespace`` tells
    containers apart, ``started_ticks`` are clock ticks since boot, ``started_at`` is that in UTC.
    """

    host: str
    machine: str
    boot: str
    pid_namespace: str
    pid: int
    started_ticks: int
    started_at: str = field(compare=False)  # the clock may be set in between

    @classmethod
    def current(cls) -> Owner:
        """This process."""
        pid = os.getpid()
        _, ticks = _state_and_start(pid) or ("", 0)
        return cls(
            host=socket.gethostname(),
            machine=_text(Path("/etc/machine-id")),
            boot=_text(_PROC / "sys/kernel/random/boot_id"),
            pid_namespace=_pid_namespace(),
            pid=pid,
            started_ticks=ticks,
            started_at=_when(ticks),
        )

    def is_gone(self) -> bool | None:
        """True: it has ended. False: it lives. None: it cannot be seen from this machine or container."""
        here = Owner.current()
        if self.boot != here.boot or not self.boot:
            is_same_machine = (self.host, self.machine) == (here.host, here.machine)
            return True if is_same_machine and self.boot and self.machine else None  # rebooted since
        if self.pid_namespace != here.pid_namespace:
            return None
        found = _state_and_start(self.pid)
        # Z and X: ended, only its parent has not looked yet
        return found is None or found[0] in "ZX" or found[1] != self.started_ticks

    def to_json(self) -> str:
        """The text kept in the records."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Owner:
        """The opposite of ``to_json``. ValueError or TypeError where the text is something else."""
        owner = cls(**json.loads(text))
        numbers = (owner.pid, owner.started_ticks)
        words = (owner.host, owner.machine, owner.boot, owner.pid_namespace, owner.started_at)
        if not all(isinstance(n, int) for n in numbers) or not all(isinstance(w, str) for w in words):
            raise TypeError("no process")
        return owner

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started_at}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """State letter and start tick of a process, None where there is no such process."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the program's name, before it, may hold spaces and brackets
    return fields[0], int(fields[19])


def _when(ticks: int) -> str:
    """The UTC time of a start tick, to the second."""
    try:
        stat = (_PROC / "stat").read_text(encoding="ascii")
        booted_s = int(stat.partition("\nbtime ")[2].split()[0])
    except (OSError, IndexError):
        return "at an unknown time"
    started = datetime.fromtimestamp(booted_s + ticks / os.sysconf("SC_CLK_TCK"), UTC)
    return started.isoformat(sep=" ", timespec="seconds")
