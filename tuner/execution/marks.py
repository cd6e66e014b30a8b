"""The mark that every process of a run carries in its environment, and what is found by it.

A mark names the driver so that it cannot be mistaken: machine boot, process namespace, process number and
start time. Whatever carries the mark of a driver that is dead was left behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

MARK_VARIABLE = "TUNER_DRIVER"
RUNTIME_VARIABLE = "TUNER_RUNTIME_DIR"


@cache
def boot_id() -> str:
    """This boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def driver_mark() -> str:
    """The mark of this process as a driver."""
    return f"{_place()}:{os.getpid()}:{_start_ticks(os.getpid())}"


def trial_mark(mark: str, measurement_id: str) -> str:
    """The mark of what belongs to one measurement of a driver."""
    return f"{mark}#{measurement_id}"


def driver_of(mark: str) -> str:
    """The driver's part of a mark."""
    return mark.partition("#")[0]


def is_trial_mark(mark: str) -> bool:
    """True for the mark of a measurement's processes, guardian included; False for the driver's own
    helpers.
    """
    return "#" in mark


def is_dead(mark: str) -> bool:
    """True when the driver of that mark ran on this machine, in this namespace, and is no more."""
    place, _, process = driver_of(mark).partition(":")
    pid, _, ticks = process.partition(":")
    if place != _place() or not pid.isdigit():
        return False  # another machine's or container's: its process numbers say nothing here
    return str(_start_ticks(int(pid))) != ticks


def marked_processes(is_ours: Callable[[str], bool]) -> Iterator[int]:
    """The processes of this user whose mark satisfies ``is_ours``; this process is never among them."""
    prefix = f"{MARK_VARIABLE}=".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile, or is not ours to look at
        mark = next((v[len(prefix) :] for v in variables if v.startswith(prefix)), b"")
        if mark and is_ours(mark.decode(errors="replace")):
            yield int(folder.name)


def runtime_dir() -> Path:
    """The folder of this user for locks and sockets, made if need be (private to the user).

    Not ``XDG_RUNTIME_DIR``: a study started by cron or over ssh must see the locks of one started on the
    desktop.
    """
    named = os.environ.get(RUNTIME_VARIABLE)
    session = Path(f"/run/user/{os.getuid()}")
    folder = (
        Path(named) if named else session / "tuner" if session.is_dir() else Path(f"/tmp/tuner-{os.getuid()}")
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(
            f"{folder} belongs to another user; set {RUNTIME_VARIABLE} to a folder of your own"
        )
    return folder


@cache
def _place() -> str:
    return f"{boot_id()}/{Path('/proc/self/ns/pid').stat().st_ino}"


def _start_ticks(pid: int) -> int | None:
    """When the process started (clock ticks since boot), None where it is gone or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name in brackets may hold anything
    return None if fields[0] in "ZX" else int(fields[19])
