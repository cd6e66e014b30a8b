"""Cores and devices that a slot holds for itself, among all studies of this user on this machine.

Each is a lock on a file: the kernel gives it back when the holder dies, however it dies. Two OpenMP
programs on one core run at a thirtieth of the speed, so two studies must never share cores without saying
so.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from tuner.execution.marks import runtime_dir
from tuner.execution.protocol import ExecutionError, Slots


class Holding:
    """What one slot holds of one kind (``core``, ``gpu``). Held until ``release`` or the end of the
    process.
    """

    def __init__(self, kind: str, candidates: Iterable[str]) -> None:
        self._kind = kind
        self._candidates = tuple(candidates)
        self._locks: dict[str, IO[str]] = {}

    def take(self, wanted: int) -> tuple[str, ...]:
        """Hold up to ``wanted`` in all, keeping those held already; fewer come back where others hold the
        rest.
        """
        for name in self._candidates:
            if len(self._locks) >= wanted:
                break
            if name not in self._locks and (lock := self._try(name)):
                self._locks[name] = lock
        return tuple(self._locks)

    def _try(self, name: str) -> IO[str] | None:
        path = runtime_dir() / f"{self._kind}-{name.replace('/', '_')}.lock"
        stream = path.open("a", encoding="utf-8")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            return None
        return stream

    def release(self) -> None:
        """Give everything back."""
        for lock in self._locks.values():
            lock.close()
        self._locks.clear()


def free_order(cores: Iterable[int]) -> list[int]:
    """Cores in the order in which to take them: the threads of one physical core side by side.

    Slots usually fill the machine; then two trials share a physical core only at a border, if at all.
    """
    return sorted(cores, key=lambda core: (*_physical(core), core))


def usable_cores() -> list[int]:
    """The cores that this process may run on, in the order in which to take them."""
    return free_order(os.sched_getaffinity(0))


def usable_gpus() -> list[str]:
    """The devices that this process may use: ``CUDA_VISIBLE_DEVICES``, or the NVIDIA device files."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    return [
        str(n)
        for n in sorted(int(p.name[6:]) for p in Path("/dev").glob("nvidia[0-9]*") if p.name[6:].isdigit())
    ]


def refuse_what_does_not_fit(slots: Slots, cpus: float, gpus: float, where: str) -> None:
    """ExecutionError when not even one slot fits into ``cpus`` cores and ``gpus`` devices of ``where``."""
    for name, wanted, there in (("cpus", slots.cpus, cpus), ("gpus", slots.gpus, gpus)):
        if wanted > there:
            raise ExecutionError(
                f"resources.{name}={wanted}, but {where} has {there:g}; use at most {there:g}"
            )


def shortage(kind: str, wanted: int, held: Sequence[str]) -> str | None:
    """What to say when a slot holds fewer than it wanted."""
    if len(held) >= wanted:
        return None
    return (
        f"wanted {wanted} {kind}{'s' if wanted != 1 else ''} for itself, {len(held)} free: "
        "another study of yours runs on this machine, or concurrent trials want more than it has"
    )


def _physical(core: int) -> tuple[int, int]:
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        package = int((topology / "physical_package_id").read_text(encoding="ascii"))
        return package, int((topology / "core_id").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0, core  # virtual machines and containers may hide the topology
