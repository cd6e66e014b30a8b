"""Starts the ranks of a trial and ends them together: one that dies takes the others with it. Loads no torch.

The launcher is the trial's own process. It does nothing while its ranks run (one ``poll`` on their process
descriptors), so it costs them nothing. Each rank is an ordinary ``python -m trials`` with a spec of its own in
``rankN/``: its share of the cores, its own result; rank 0 measures for all, and writes the trial's events.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from trials.context import TrialContext
from trials.contract import (
    EVENTS_FILE,
    RESULT_FILE,
    SPEC_FILE,
    FailureKind,
    Measurement,
    Outcome,
    TrialFailure,
    TrialSpec,
)
from trials.measurement.memory import process_tree
from trials.training.layout import Layout
from trials.training.world import LAUNCHER, MASTER_ADDR, MASTER_PORT, RANK, STARTED_AT, STORE_FD, WORLD_SIZE

_LOOPBACK = "127.0.0.1"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def launch(context: TrialContext, layout: Layout) -> Measurement:
    """Run the spec in ``layout.world_size`` processes; rank 0's measurement, or the failure of the rank that
    ended first. No rank is alive when this returns.
    """
    spec, size = context.spec, layout.world_size
    if spec.gpus and len(spec.gpus) < size:
        raise TrialFailure(
            FailureKind.UNSUPPORTED, f"{size} ranks need {size} GPUs, and the trial holds {len(spec.gpus)}"
        )
    killed_before = _kills_for_memory()
    ranks: list[subprocess.Popen[bytes]] = []
    with _rendezvous() as meeting:
        try:
            for rank, cores in enumerate(core_shares(cores_of(spec), size)):
                ranks.append(_start(spec, rank, size, cores, meeting, context.started_at))
            failed = _wait(ranks)
        finally:
            _end(ranks)
    context.event("ranks_ended", returncodes=[rank.returncode for rank in ranks])
    if failed is not None:
        return _failure(spec, failed, ranks, _kills_for_memory() > killed_before)
    found = _result(spec, 0)
    if found is None:
        raise TrialFailure(FailureKind.CRASH, "rank 0 ended without a result")
    phases = {name: seconds for name, seconds in found.phases.items() if name != "total_s"}  # the launcher's
    return dataclasses.replace(found, phases=phases)


def core_shares(cores: Sequence[int], ranks: int) -> list[list[int]]:
    """Cores for each rank: equal, disjoint runs of neighbours; shared in turn where there are too few."""
    each = len(cores) // ranks
    if each == 0:
        return [[cores[rank % len(cores)]] for rank in range(ranks)]
    return [list(cores[rank * each : (rank + 1) * each]) for rank in range(ranks)]


def rank_folder(spec: TrialSpec, rank: int) -> Path:
    """Where a rank keeps its spec, events and result."""
    return spec.trial_dir / f"rank{rank}"


def spec_of_rank(spec: TrialSpec, rank: int, cores: Sequence[int]) -> Path:
    """Write a rank's own spec, with its share of the cores; returns the file."""
    folder = rank_folder(spec, rank)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT_FILE).unlink(missing_ok=True)  # of an earlier run in the same folder
    if rank == 0:  # it speaks for the trial, to whoever follows that
        (folder / EVENTS_FILE).unlink(missing_ok=True)
        (folder / EVENTS_FILE).symlink_to(Path("..") / EVENTS_FILE)
    own = dataclasses.replace(spec, trial_dir=folder, cpus=tuple(cores))
    (folder / SPEC_FILE).write_text(own.to_json(), encoding="utf-8")
    return folder / SPEC_FILE


def cores_of(spec: TrialSpec) -> list[int]:
    """The cores of a trial that this process may run on, in the order of the spec."""
    held = os.sched_getaffinity(0)
    return [core for core in spec.cpus if core in held] or sorted(held)


@contextlib.contextmanager
def _rendezvous() -> Iterator[socket.socket]:
    """A listening socket on loopback, at a port that the kernel chose; rank 0 takes it over."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((_LOOPBACK, 0))
        listener.listen(1024)
        yield listener


def _start(
    spec: TrialSpec, rank: int, size: int, cores: list[int], meeting: socket.socket, started_at: float
) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        **{name: str(len(cores)) for name in _THREADS if f"env.{name}" not in spec.config},
        RANK: str(rank),
        "LOCAL_RANK": str(rank),
        WORLD_SIZE: str(size),
        MASTER_ADDR: _LOOPBACK,
        MASTER_PORT: str(meeting.getsockname()[1]),
        STORE_FD: str(meeting.fileno()),
        LAUNCHER: str(os.getpid()),
        STARTED_AT: repr(started_at),
        "GLOO_SOCKET_IFNAME": "lo",  # else gloo asks the resolver for this host's name, which may have none
    }
    return subprocess.Popen(
        [sys.executable, "-m", "trials", str(spec_of_rank(spec, rank, cores))],
        env=environment,
        pass_fds=[meeting.fileno()],
    )


def _wait(ranks: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Until all ranks have ended well (None), or one has not: its number."""
    poll = select.poll()
    waiting = {os.pidfd_open(rank.pid): number for number, rank in enumerate(ranks)}
    try:
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        left = set(waiting)
        while left:
            ended = {descriptor for descriptor, _ in poll.poll()}
            codes = {waiting[descriptor]: ranks[waiting[descriptor]].wait() for descriptor in ended}
            failed = [number for number, code in codes.items() if code]
            if failed:  # a signal is the cause, and a neighbour's broken connection the effect
                return min(failed, key=lambda number: codes[number])
            for descriptor in ended:
                poll.unregister(descriptor)
            left -= ended
        return None
    finally:
        for descriptor in waiting:
            os.close(descriptor)


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill whatever still runs, with the loader processes below it, and reap it."""
    for rank in ranks:
        if rank.poll() is None:
            for pid in reversed(process_tree(rank.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            rank.wait()


def _failure(
    spec: TrialSpec, number: int, ranks: Sequence[subprocess.Popen[bytes]], out_of_memory: bool
) -> Measurement:
    code, who = ranks[number].returncode, f"rank {number} of {len(ranks)}"
    if code == -signal.SIGKILL:
        kind = FailureKind.OUT_OF_MEMORY if out_of_memory else FailureKind.KILLED
        why = (
            "killed by the kernel because memory ran out"
            if out_of_memory
            else "killed from outside (SIGKILL)"
        )
        return Measurement.failed(kind, f"{who} was {why}")
    found = _result(spec, number)
    if found is None or found.outcome is not Outcome.FAILED:
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
        return Measurement.failed(FailureKind.CRASH, f"{who} ended {how}")
    return dataclasses.replace(found, message=f"{who}: {found.message}")


def _result(spec: TrialSpec, rank: int) -> Measurement | None:
    try:
        return Measurement.from_json((rank_folder(spec, rank) / RESULT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _kills_for_memory() -> int:
    """How often the kernel killed a process of this machine because memory ran out."""
    for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
