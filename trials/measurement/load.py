"""Foreign load on the cores that a trial holds, between two moments."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from trials.measurement.memory import process_tree

CONTAMINATED_SHARE = 0.15
GUARDIAN_VARIABLE = "TUNER_GUARDIAN"
"""Where a guardian started this process: its process number."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class LoadSample:
    """One moment: seconds of wall clock, of busy time on the held cores, and of our own processes' CPU
    time.
    """

    at_s: float
    busy_s: float
    own_s: float
    cores: int


def load_now(cores: Collection[int] | None = None) -> LoadSample:
    """Read /proc (about 0.3 ms); call it at window edges only. ``cores``: those held, default this process's."""
    cores = os.sched_getaffinity(0) if cores is None else cores
    return LoadSample(time.monotonic(), _busy_s(cores), cpu_s(process_tree(_top())), len(cores))


def foreign_share(begin: LoadSample, end: LoadSample) -> float:
    """Share of the held cores' time that others used (0-1), time stolen by a hypervisor included."""
    capacity_s = (end.at_s - begin.at_s) * end.cores
    if capacity_s <= 0:
        return 0.0
    foreign_s = (end.busy_s - begin.busy_s) - (end.own_s - begin.own_s)
    return min(1.0, max(0.0, foreign_s / capacity_s))


def contamination(begin: LoadSample, end: LoadSample) -> str | None:
    """Why the measurement is contaminated, or None. /proc counts in ticks, so their rounding is allowed
    for.
    """
    window_s = end.at_s - begin.at_s
    share = foreign_share(begin, end)
    rounding = 2 / _TICKS_PER_S / max(window_s, 1e-9)
    if share <= CONTAMINATED_SHARE + rounding:
        return None
    return (
        f"other programs used {share:.0%} of the {end.cores} cores during {window_s:.2f} s of the run "
        f"(more than {CONTAMINATED_SHARE:.0%})"
    )


def _busy_s(cores: Collection[int]) -> float:
    """User, nice, system, irq, softirq and stolen time; idle and waiting for disks left out."""
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            total += user + nice + system + irq + softirq + steal
    return total / _TICKS_PER_S


def cpu_s(pids: Iterable[int]) -> float:
    """CPU time of these processes, of children already ended and waited for too."""
    ticks = 0
    for pid in pids:
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process ended meanwhile
            continue
        ticks += sum(map(int, after_name[11:15]))  # utime, stime, cutime, cstime
    return ticks / _TICKS_PER_S


def _top() -> int:
    """The guardian above this trial: a daemon that forked twice becomes its child. By hand, this process."""
    parent = os.getppid()
    return parent if os.environ.get(GUARDIAN_VARIABLE) == str(parent) else os.getpid()
