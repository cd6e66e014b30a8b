"""The driver's lease on what it started: a connection that ends when the driver does.

The driver listens on a unix socket; each slot connects once and hands the connection to its guardians. End
of file means that the driver is gone; a byte means "cut what runs", and is never read, so that every later
guardian of the slot sees it as well. A slot on another machine has no lease: it lives and dies with its Ray
actor.
"""

from __future__ import annotations

import contextlib
import os
import socket
import weakref
from dataclasses import dataclass
from pathlib import Path

from tuner.execution.marks import boot_id

SOCKET_FILE = "lease"


@dataclass(frozen=True)
class LeaseAddress:
    """Where a slot connects to."""

    machine: str
    path: str


class DriverLease:
    """The driver's side. ``interrupt`` may be called from a signal handler: it takes no lock.

    A process that the driver forks without exec would keep copies of the sockets, and the lease would
    outlive the driver: they are closed in such a child.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / SOCKET_FILE
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._connections: list[socket.socket] = []
        self.is_interrupted = False
        _leases.add(self)

    @property
    def address(self) -> LeaseAddress:
        """What a slot needs to connect."""
        return LeaseAddress(boot_id(), str(self._path))

    def interrupt(self) -> None:
        """Cut every trial that runs, and every one that would still start."""
        if self.is_interrupted:
            return
        self.is_interrupted = True
        self._accept_waiting()
        self._listener.close()  # whoever connects from now on is refused
        for connection in self._connections:
            with contextlib.suppress(OSError):  # the slot died: nothing runs there
                connection.send(b"!", socket.MSG_DONTWAIT)

    def _accept_waiting(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._connections.append(self._listener.accept()[0])

    def close(self) -> None:
        """End the lease: whatever still runs under it is cut."""
        self.close_sockets()
        self._path.unlink(missing_ok=True)

    def close_sockets(self) -> None:
        """Close this process's copies of the sockets."""
        self._listener.close()
        for connection in self._connections:
            connection.close()


_leases: weakref.WeakSet[DriverLease] = weakref.WeakSet()


def _close_copies() -> None:
    for lease in list(_leases):
        lease.close_sockets()


os.register_at_fork(after_in_child=_close_copies)


def connect(address: LeaseAddress) -> socket.socket | None:
    """A slot's side; None on a machine (or in a container) that the driver's socket does not reach.

    Raises ConnectionRefusedError where the driver is gone or was interrupted.
    """
    if address.machine != boot_id() or not Path(address.path).exists():
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address.path)
    except OSError:
        connection.close()
        raise
    return connection
