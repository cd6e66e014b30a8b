"""Ends processes that lost their guardian, and takes their exit status."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tuner.execution import guardian
from tuner.execution.marks import marked_processes


def end_orphans(
    is_ours: Callable[[str], bool], every_child: bool = False, patience_s: float = 5.0
) -> list[int]:
    """SIGKILL whatever carries a mark that satisfies ``is_ours``, until nothing does.

    ``every_child`` also ends all descendants of this process: an orphan may have cleared its environment.
    Returns what is still there after ``patience_s`` seconds.
    """
    give_up_at = time.monotonic() + patience_s
    while left := _left(is_ours, every_child):
        for pid in left:
            guardian.kill(pid)
        if time.monotonic() > give_up_at:
            return left
        time.sleep(0.005)
        reap_orphans()
    reap_orphans()
    return []


def reap_orphans() -> None:
    """Take the exit status of dead children in sessions other than ours: a guardian's former trial, never a
    child that other code of this process waits for.
    """
    for pid in guardian.children(os.getpid()):
        state, session = _state_and_session(pid)
        if state == "Z" and session != os.getsid(0):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # whoever started it was faster


def _left(is_ours: Callable[[str], bool], every_child: bool) -> list[int]:
    left = set(marked_processes(is_ours))
    if every_child:
        left |= {pid for pid in guardian.descendants(os.getpid()) if _state_and_session(pid)[0] not in "ZX"}
    return sorted(left)


def _state_and_session(pid: int) -> tuple[str, int]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "X", 0
    fields = stat.rpartition(")")[2].split()  # the name in brackets may hold anything
    return fields[0], int(fields[3])
