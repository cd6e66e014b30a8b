"""Runs a program to its end: output passed on and watched, wall time, peak memory, how it ended.

No ``subprocess``: ``posix_spawn`` needs no import of its own and starts the program without a copy of this
process. No threads: one ``poll`` waits for output and for the end, so nothing of ours runs while the program
is silent, apart from a look at its memory once a second.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from trials.command.output import Output
from trials.measurement.memory import process_tree

CHUNK_BYTES = 64 * 1024
LONGEST_LOG_BYTES = 64 * 1024 * 1024  # what a program prints beyond is read for patterns, and not kept
_LEFT_IN_PIPE_BYTES = 1024 * 1024  # the most that a pipe can hold; a daemon left behind may write for ever
_LOOK_EVERY_S = 1.0  # a faster look would cost the program (3% at 10 Hz)
_KIB_PER_GIB = 1024 * 1024


class Ended(NamedTuple):
    """How a program ended. ``status`` is its exit status, negative: minus the signal that killed it.

    ``wall_time_s`` runs from the start to the end of the program; ``peak_rss_gib`` is the largest single
    process, or the largest sum over the program's processes (PSS, sampled once a second) where that is more;
    ``is_floor`` marks a program smaller than its launcher, for which the kernel reports the launcher's size;
    ``log_error`` says why its output is not all in the log, where it is not.
    """

    status: int
    wall_time_s: float
    peak_rss_gib: float
    is_floor: bool
    log_error: str | None


def find_program(name: str, folder: str, search_path: str | None) -> str:
    """The program's file: beside ``folder`` where the name has a slash, else on the search path.

    Raises FileNotFoundError or PermissionError.
    """
    if "/" in name:
        candidates = [os.path.join(folder, name)]  # noqa: PTH118 - runs in every trial, as text
    else:
        directories = (search_path or os.defpath).split(os.pathsep)
        candidates = [os.path.join(folder, directory, name) for directory in directories]  # noqa: PTH118
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):  # noqa: PTH112
            return candidate
    if "/" in name and os.path.exists(candidates[0]):  # noqa: PTH110
        raise PermissionError(
            f"{candidates[0]} is not executable; chmod +x it, or name its interpreter first"
        )
    raise FileNotFoundError(f"there is no program {name!r} {'in ' + folder if '/' in name else 'on PATH'}")


def run_program(
    program: str,
    arguments: list[str],
    environment: Mapping[str, str],
    folder: str,
    output: Output,
    log: int = 1,
    look: Callable[[], None] | None = None,
) -> Ended:
    """Run the program in ``folder`` with its stdout and stderr passed on to the file descriptor ``log``.

    ``look`` is called once a second while it runs. Raises OSError where it cannot be started. However this
    returns, the program itself has ended.
    """
    watch = _Watch(output, log, look)
    read_end, write_end = os.pipe()
    try:
        begin = time.monotonic()
        pid = _start(program, arguments, environment, folder, write_end)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    try:
        largest_sum_gib = watch.until_end(pid, read_end)
        wall_time_s = time.monotonic() - begin
        watch.drain(read_end)
    finally:
        os.close(read_end)
        status, usage = _reap(pid)
    launcher_gib = _own_peak_gib()
    largest_gib = usage / _KIB_PER_GIB
    peak_gib = max(largest_gib, largest_sum_gib)
    return Ended(status, wall_time_s, peak_gib, peak_gib <= launcher_gib, watch.log_error)


def _start(
    program: str, arguments: list[str], environment: Mapping[str, str], folder: str, output: int
) -> int:
    # posix_spawn cannot change the folder, so this process steps in and out around it (it has one thread).
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(folder)
        return os.posix_spawn(
            program,
            arguments,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            # Python ignores these two, and an ignored signal stays ignored in the program.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    finally:
        os.fchdir(here)
        os.close(here)


class _Watch:
    """Waits for the program while its output passes by."""

    def __init__(self, output: Output, log: int, look: Callable[[], None] | None) -> None:
        self._output, self._look = output, look
        self._log = log
        self.log_error: str | None = None
        self._logged = 0

    def until_end(self, pid: int, read_end: int) -> float:
        """Return when the program has ended: the largest sum of its processes in GiB (0: never looked)."""
        end = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            poll.register(read_end, select.POLLIN)
            return self._loop(pid, poll, end, read_end)
        finally:
            os.close(end)

    def _loop(self, pid: int, poll: select.poll, end: int, read_end: int) -> float:
        peak_gib, look_at = 0.0, time.monotonic() + _LOOK_EVERY_S
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(_LOOK_EVERY_S * 1000)}
            if end in ready:
                return peak_gib
            if read_end in ready and not self._pass_on(os.read(read_end, CHUNK_BYTES)):
                poll.unregister(read_end)  # it closed its output and goes on
            if time.monotonic() >= look_at:
                peak_gib = max(peak_gib, _sum_gib(pid))
                if self._look:
                    self._look()
                look_at = time.monotonic() + _LOOK_EVERY_S

    def drain(self, read_end: int) -> None:
        """Pass on what had been written when the program ended; processes it left are not waited for."""
        os.set_blocking(read_end, False)
        left = _LEFT_IN_PIPE_BYTES
        while left > 0:
            try:
                chunk = os.read(read_end, CHUNK_BYTES)
            except BlockingIOError:
                break
            if not self._pass_on(chunk):
                break
            left -= len(chunk)
        self._output.close()

    def _pass_on(self, chunk: bytes) -> bool:
        self._output.feed(chunk)
        rest = memoryview(chunk)[: max(0, LONGEST_LOG_BYTES - self._logged)]
        is_too_long = len(rest) < len(chunk)
        self._logged += len(chunk)
        while rest and self.log_error is None:
            try:
                rest = rest[os.write(self._log, rest) :]
            except OSError as problem:  # a full disk must not block the program, nor end it
                self.log_error = str(problem)
        if is_too_long and self.log_error is None:
            size_mib = LONGEST_LOG_BYTES // 2**20
            self.log_error = f"more than {size_mib} MiB; the rest was only looked through for metrics"
        return bool(chunk)


def _reap(pid: int) -> tuple[int, int]:
    """Exit status and largest process in KiB; a program still there (we were interrupted) is killed first."""
    done, raw, usage = os.wait4(pid, os.WNOHANG)
    if done == 0:
        os.kill(pid, signal.SIGKILL)
        _, raw, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(raw), usage.ru_maxrss


def _own_peak_gib() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / _KIB_PER_GIB
    return 0.0


def _sum_gib(pid: int) -> float:
    """The memory of a program of several processes (PSS: shared pages count once); 0 for a single one.

    A single process needs no look: the kernel hands its exact peak over at the end.
    """
    tree = process_tree(pid)
    return sum(map(_pss_gib, tree)) if len(tree) > 1 else 0.0


def _pss_gib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0.0  # ended while we looked, or runs as another user
    return next(
        (int(line.split()[1]) / _KIB_PER_GIB for line in text.splitlines() if line.startswith("Pss:")), 0.0
    )
