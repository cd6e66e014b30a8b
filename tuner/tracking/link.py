"""The driver's end of the logger process: sends without blocking, waits a bounded time."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from tuner.tracking.wire import Message, encode

_PIPE_BYTES = 1 << 20  # room for hundreds of trials, so that a put is one write


class LoggerLink:
    """Starts the logger process and exchanges messages with it, from the driver's thread alone.

    ``on_answer`` is called, from `put` and `wait`, with each answer of the logger. `is_alive` False: the
    process is gone, and `last_words` says what it left on stderr.
    """

    def __init__(self, on_answer: Callable[[Mapping[str, Any]], None]) -> None:
        self._on_answer = on_answer
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process may write to it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tuner.tracking.logger"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C is the driver's to handle
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        fcntl.fcntl(self._to, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._unsent, self._partial = bytearray(), b""
        self._sent = self.answered = 0
        self.is_alive = True

    @property
    def pending(self) -> int:
        """How many messages have no answer yet."""
        return self._sent - self.answered

    def put(self, message: Message) -> None:
        """Queue a message: what the pipe does not take now is kept and sent by a later call."""
        self._sent += 1
        self._unsent += encode(self._sent, message)
        self._exchange(0)

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything is answered, at most ``timeout_s``; True when it is."""
        until = time.monotonic() + timeout_s
        while self.pending and self.is_alive:
            left_s = until - time.monotonic()
            self._exchange(max(0.0, left_s))
            if left_s <= 0:
                break
        return not self.pending

    def close(self, grace_s: float = 2.0) -> None:
        """End the process: it leaves when its input ends; one that does not is killed."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()
        self.is_alive = False

    def last_words(self) -> str:
        """The last line that the process wrote to stderr."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.poll()}"

    def _exchange(self, timeout_s: float) -> None:
        """Write what can be written and read what has come, waiting for either at most ``timeout_s``."""
        watched = select.poll()  # not `select`, which refuses the high file numbers of a large driver
        watched.register(self._from, select.POLLIN)
        if self._unsent:
            watched.register(self._to, select.POLLOUT)
        ready = {number for number, _ in watched.poll(timeout_s * 1000)}
        if self._to in ready:
            self._write()
        if self._from in ready:
            self._read()

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._to, self._unsent)]
        except BrokenPipeError:
            self.is_alive = False

    def _read(self) -> None:
        chunk = os.read(self._from, 1 << 16)
        if not chunk:
            self.is_alive = False
            return
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self.answered += 1
            self._on_answer(json.loads(line))
