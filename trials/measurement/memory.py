"""Host memory of the trial's processes, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


class HostMemory:
    """Peak memory of this process and its children, in bytes.

    The peak is the largest of the sampled sums of PSS (shared pages counted once) and of this process's own
    high-water mark. ``sample`` reads /proc and must be called outside a measured window.
    """

    def __init__(self) -> None:
        self._largest_sum_bytes = 0

    def reset(self) -> None:
        """Forget what was seen; the kernel's high-water mark restarts from what is resident now."""
        self._largest_sum_bytes = 0
        try:
            (_PROC / "self/clear_refs").write_text("5")
        except OSError:
            # a sandbox may forbid it: the mark then covers the start-up as well, which is only pessimistic
            return

    def sample(self) -> None:
        """Take the sum of PSS over the process tree now."""
        self._largest_sum_bytes = max(self._largest_sum_bytes, proportional_bytes(process_tree()))

    @property
    def peak_bytes(self) -> int:
        """The peak so far."""
        return max(self._largest_sum_bytes, _field_bytes(_PROC / "self/status", "VmHWM:"))


def proportional_bytes(pids: Iterable[int]) -> int:
    """The sum of the processes' PSS, in bytes."""
    return sum(_field_bytes(_PROC / str(pid) / "smaps_rollup", "Pss:") for pid in pids)


def largest_resident_bytes(pids: Iterable[int]) -> int:
    """The highest high-water mark of a single process among them, in bytes."""
    return max((_field_bytes(_PROC / str(pid) / "status", "VmHWM:") for pid in pids), default=0)


def process_tree(root: int | None = None) -> list[int]:
    """Process ids of ``root`` (default: this process) and everything below it that is alive."""
    found, waiting = [], [os.getpid() if root is None else root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for children in (_PROC / str(pid) / "task").glob("*/children"):
            waiting += [int(child) for child in _text(children).split()]
    return found


def _field_bytes(path: Path, field: str) -> int:
    for line in _text(path).splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process ended meanwhile
        return ""
