"""All replicas of a trial together: the first in this process, the others in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import trials
from trials.contract import FailureKind, TrialFailure, TrialSpec
from trials.inference.replica import CLOSE, Place, Replica
from trials.inference.serving import Turnstile

_GRACE_S = 5.0
_START_TOGETHER_S = 0.05


class Fleet:
    """``first`` is the replica of this process. Use as a context: leaving it ends the other processes."""

    def __init__(self, spec: TrialSpec, first: Replica, others: list[Place]) -> None:
        self.first = first
        self._others = [_Remote(spec, place) for place in others]

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method on every replica at the same time; TrialFailure of the first that failed."""
        for remote in self._others:
            remote.send(method, arguments)
        mine = getattr(self.first, method)(*arguments)
        return [mine, *(remote.receive() for remote in self._others)]

    def serve(self, window_s: float, folder: Path) -> list[Any]:
        """``Replica.serve`` on all at the same time. Where a process ends meanwhile, the others stop."""
        path = folder / "turnstile"
        turnstile = Turnstile.new(path, 1 + len(self._others))
        begin_at_s = time.monotonic() + _START_TOGETHER_S
        try:
            with _on_a_death(turnstile.give_up) if self._others else nullcontext():
                return self.each("serve", window_s, begin_at_s, path)
        finally:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for remote in self._others:
            remote.end()
        self.first.close()


class _Remote:
    """A replica in another process."""

    def __init__(self, spec: TrialSpec, place: Place) -> None:
        self._instance = place.instance
        self._connection, theirs = Pipe()
        self._process = _started(place, theirs)
        theirs.close()  # so that its end is noticed here
        self._connection.send((spec.to_json(), place))

    def send(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Ask for a call; ``receive`` waits for its result."""
        try:
            self._connection.send((method, arguments))
        except OSError:
            raise self._gone() from None

    def receive(self) -> Any:
        """The result of the call; TrialFailure where it failed, or the process ended."""
        try:
            state, found = self._connection.recv()
        except (EOFError, OSError):
            raise self._gone() from None
        if state == "failed":
            kind, message = found
            raise TrialFailure(kind, f"instance {self._instance}: {message}")
        return found

    def end(self) -> None:
        """Ask the process to end, and end it where it does not."""
        try:
            self._connection.send((CLOSE, ()))
            self._process.wait(_GRACE_S)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._connection.close()

    def _gone(self) -> TrialFailure:
        code = self._process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit status {code}"
        kind = FailureKind.KILLED if code == -9 else FailureKind.CRASH
        return TrialFailure(kind, f"instance {self._instance} ended {how}; its last words are in the log")


@contextmanager
def _on_a_death(react: Callable[[], None]) -> Iterator[None]:
    """Call ``react`` when a child of this process ends. Python runs it between two calls of the engine."""
    before = signal.signal(signal.SIGCHLD, lambda *_: react())
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def _started(place: Place, connection: Connection) -> subprocess.Popen[bytes]:
    root = str(Path(trials.__file__).parents[1])
    paths = filter(None, (root, os.environ.get("PYTHONPATH")))
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(place.threads)
    )
    descriptor = connection.fileno()
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "trials.inference", str(descriptor)],
        stdin=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)},
    )
