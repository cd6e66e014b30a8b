# pathlib costs 5 ms at import, contextlib 2 ms, and every trial would pay them:
# ruff: noqa: PTH102, PTH106, PTH110, PTH120, PTH123, PTH208, SIM105
"""Guards one trial: starts it, watches it, and ends every process that it leaves behind.

Run by a supervisor as ``python -I -S guardian.py FD``. FD is the supervisor's socket: a request comes in
over it (a marshalled dictionary, see ``Request keys``), the report goes out. Only light modules are
imported, and marshal stands in for JSON, because their import would be paid by every trial (json 15 ms,
socket 20 ms).

The guardian leads a session of its own, so that a Ctrl-C on the terminal does not reach it, and is a child
subreaper: a daemon that the trial forks twice becomes the guardian's child and is found. The trial dies
with the guardian (``PR_SET_PDEATHSIG``); what it started then becomes a child of the supervisor, which ends
it.

Request keys: ``program`` (list), ``env`` (dict), ``cwd``, ``cpus`` (core numbers, empty: not pinned),
``timeout_s`` (None: no limit), ``memory_limit_bytes`` (None: no limit), ``lease_fd`` (the driver's lease,
-1: none), ``cut_file`` (None: none; once that file exists, the trial is ended). Report keys: ``reason``
(one of ``REASONS``), ``returncode`` (negative: the signal), ``peak_bytes``, ``wall_s``, ``started_at``
(monotonic clock), ``oom_kills``, ``strays`` (processes that the trial left behind), ``survivors`` (process
numbers that could not be ended), ``memory_by`` (``cgroup`` or ``sampled``), ``message``.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import sys
import time

# typing is too slow to import here; annotations are never evaluated
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

REASONS = ("exit", "timeout", "memory", "cut", "supervisor_gone", "driver_gone", "interrupted", "not_started")

GUARDIAN_VARIABLE = (
    "TUNER_GUARDIAN"  # `trials.measurement.load` reads it: the daemons of a trial are our children
)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGKILL, SIGPIPE, SIG_SETMASK = 9, 13, 2  # the signal module costs 3 ms for its enumerations
TICK_S = 1.0  # a trial that is polled at 10 Hz runs about 3% slower
SAMPLING_SHARE = 1 / 200  # of the time at most goes into looking at memory
GIVE_UP_S = 10.0  # a process in uninterruptible sleep cannot be killed; the report must not wait for it
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
_libc.signal.restype = ctypes.c_void_p


def become_subreaper(is_on: bool = True) -> None:
    """Make orphans below this process its children (or stop doing so); OSError where the kernel refuses."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def send(fd: int, message: dict[str, Any]) -> None:
    """Write one message: its length in eight bytes, then its marshalled form."""
    data = marshal.dumps(message)
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(fd, data) :]


def receive(fd: int) -> dict[str, Any] | None:
    """Read one message; None where the other side ended before it was whole."""
    size = _read_exactly(fd, 8)
    data = _read_exactly(fd, int.from_bytes(size, "little")) if size else None
    return marshal.loads(data) if data else None


def _read_exactly(fd: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def descendants(pid: int) -> list[int]:
    """Every process below ``pid`` (itself not among them), parents first; a snapshot."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """The processes that ``pid`` is the parent of; a snapshot."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found  # it ended meanwhile: its children are the subreaper's now, and found there
    for thread in threads:
        try:
            found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
        except OSError:
            continue  # the thread ended meanwhile: its children are another thread's now
    return found


def kill(pid: int) -> None:
    """SIGKILL, where the process is still there and ours."""
    try:
        os.kill(pid, SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # gone already, or of another user: reported as a survivor


def _read(path: str) -> str:
    with open(path) as stream:
        return stream.read()


def _write(path: str, text: str) -> None:
    with open(path, "w") as stream:
        stream.write(text)


def _counter(path: str, name: str) -> int:
    """The number behind ``name`` in a file of "name number" lines; 0 where there is none."""
    try:
        lines = _read(path).splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)


class MemoryCgroup:
    """A memory cgroup around one trial, version 1 or 2, named after the guardian's process number."""

    def __init__(self, folder: str, version: int) -> None:
        self.folder = folder
        self._events = f"{folder}/{'memory.oom_control' if version == 1 else 'memory.events'}"
        self._limits = (
            ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            if version == 1
            else ("memory.max", "memory.swap.max", "memory.oom.group")
        )

    @classmethod
    def possible(cls, guardian: int) -> list[MemoryCgroup]:
        """The places where a guardian may make its cgroup, whether they exist or not."""
        return [cls(f"{parent}/tuner-{guardian}", version) for parent, version in _cgroup_parents()]

    @classmethod
    def around(cls, pid: int, limit_bytes: int) -> MemoryCgroup | None:
        """A new cgroup with this limit that holds ``pid``; None where this user cannot make one."""
        for group in cls.possible(os.getpid()):
            try:
                os.mkdir(group.folder)
                group._limit(limit_bytes)
                _write(f"{group.folder}/cgroup.procs", str(pid))
            except OSError:
                group.remove()
            else:
                return group
        return None

    def _limit(self, limit_bytes: int) -> None:
        first, *others = self._limits
        _write(f"{self.folder}/{first}", str(limit_bytes))
        for name in others:  # swap would only hide the excess; the kernel may be built without it
            value = {"memory.swap.max": 0, "memory.oom.group": 1}.get(name, limit_bytes)
            if os.path.exists(f"{self.folder}/{name}"):
                _write(f"{self.folder}/{name}", str(value))

    def oom_kills(self) -> int:
        """How many processes the kernel killed here for going over the limit."""
        return _counter(self._events, "oom_kill")

    def remove(self) -> None:
        """Remove the empty cgroup; the kernel needs a moment after the last process was reaped."""
        for _attempt in range(20):
            try:
                os.rmdir(self.folder)
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)


def remove_cgroups_of(guardian: int) -> None:
    """Remove what a guardian that was killed could not remove itself."""
    for group in MemoryCgroup.possible(guardian):
        group.remove()


def _cgroup_parents() -> list[tuple[str, int]]:
    """Folders in which a cgroup may be made, with the version: below our own, or (version 2) beside it.

    Version 2 allows no processes in a group that hands a controller down, so there only a delegated parent
    (systemd's user session) or the root can hold the new group.
    """
    own = {
        controller: line.split(":", 2)[2]
        for line in _read("/proc/self/cgroup").splitlines()
        for controller in line.split(":", 2)[1].split(",")
    }
    parents = []
    for line in _read("/proc/self/mountinfo").splitlines():
        fields, _, kind = line.partition(" - ")
        root, mount = fields.split()[3:5]
        if kind.startswith("cgroup ") and "memory" in kind.split()[2].split(",") and "memory" in own:
            parents.append((_below(mount, root, own["memory"]), 1))
        elif kind.startswith("cgroup2 ") and "" in own:
            here = _below(mount, root, own[""])
            parents += [(here, 2), (os.path.dirname(here), 2)] if here != mount else [(here, 2)]
    return [(path, version) for path, version in parents if version == 1 or _hands_memory_down(path)]


def _below(mount: str, root: str, path: str) -> str:
    inside = path[len(root) :] if root != "/" and path.startswith(root) else path
    return mount + inside.rstrip("/")


def _hands_memory_down(folder: str) -> bool:
    try:
        return "memory" in _read(f"{folder}/cgroup.subtree_control").split()
    except OSError:
        return False


class MemoryWatch:
    """Looks at the memory of the trial's processes once in a while: peak, and the limit where no cgroup
    holds it.

    Memory is the sum of the proportional set sizes: resident sizes count shared pages once per process, and a
    limit on their sum would forbid loader workers.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        self.limit_bytes = limit_bytes
        self.peak_bytes = 0
        self.cost_s = 0.0

    def is_over(self) -> bool:
        """Sample all descendants; True when they hold more than the limit."""
        begin = time.monotonic()
        pids = descendants(os.getpid())
        used = _resident_bytes(pids)
        if len(pids) > 1 or (self.limit_bytes is not None and used > self.limit_bytes):
            used = _proportional_bytes(pids)
        self.peak_bytes = max(self.peak_bytes, used)
        self.cost_s = time.monotonic() - begin
        return self.limit_bytes is not None and used > self.limit_bytes


def _resident_bytes(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            total += int(_read(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES
        except OSError:
            continue  # it ended meanwhile
    return total


def _proportional_bytes(pids: list[int]) -> int:
    return sum(_counter(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in pids) * 1024


class Guardian:
    """Runs one request to its end."""

    def __init__(self, request: dict[str, Any], supervisor_fd: int) -> None:
        self._request = request
        self._supervisor_fd = supervisor_fd
        self._cgroup: MemoryCgroup | None = None
        self._trial = -1
        self._status: int | None = None
        self._leader_peak_bytes = 0
        self._message = ""

    def run(self) -> dict[str, Any]:
        """Start the trial, wait until it ended or must end, leave no process of it; returns the report."""
        oom_before = _counter("/proc/vmstat", "oom_kill")
        watch = self._start()
        started_at = time.monotonic()
        reason = "not_started" if self._message else self._watch(watch, started_at)
        ended_at = time.monotonic()
        strays = self._end_all()
        oom_kills = self._cgroup.oom_kills() if self._cgroup else 0
        if self._cgroup:
            self._cgroup.remove()
        returncode = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        if reason == "exit" and returncode == -SIGKILL:
            # no cgroup of ours: the kernel's own count tells an out-of-memory kill from another's SIGKILL
            oom_kills += max(0, _counter("/proc/vmstat", "oom_kill") - oom_before) if not self._cgroup else 0
        if reason == "exit" and returncode != 0 and oom_kills:
            reason = "memory"
        return {
            "reason": reason,
            "returncode": returncode,
            "peak_bytes": max(watch.peak_bytes, self._leader_peak_bytes),
            "wall_s": ended_at - started_at,
            "started_at": started_at,
            "oom_kills": oom_kills,
            "strays": len(strays),
            "survivors": descendants(os.getpid()),
            "memory_by": "cgroup" if self._cgroup else "sampled",
            "message": self._message,
        }

    def _start(self) -> MemoryWatch:
        """Fork the trial; it runs once its memory is limited. Returns what watches the rest."""
        gate, gate_opener = os.pipe()
        failure, failure_writer = os.pipe()
        guardian = os.getpid()
        self._trial = os.fork()
        if self._trial == 0:
            os.close(gate_opener)
            _become_trial(self._request, guardian, gate, failure_writer)
        os.close(failure_writer)
        limit_bytes = self._request["memory_limit_bytes"]
        if limit_bytes is not None:
            self._cgroup = MemoryCgroup.around(self._trial, limit_bytes)
        os.close(gate)
        os.close(gate_opener)  # end of file lets the trial go on
        self._message = os.read(failure, 4096).decode(errors="replace")
        os.close(failure)
        return MemoryWatch(None if self._cgroup else limit_bytes)

    def _watch(self, watch: MemoryWatch, started_at: float) -> str:
        """Wait for the first of: the trial's end, a cut, the time limit, the memory limit; returns the
        reason.
        """
        pidfd, lease_fd = os.pidfd_open(self._trial), self._request["lease_fd"]
        cut_file = self._request.get("cut_file")
        poller = select.poll()
        for fd in (pidfd, self._supervisor_fd, *([lease_fd] if lease_fd >= 0 else [])):
            poller.register(fd, select.POLLIN)
        deadline = started_at + (self._request["timeout_s"] or float("inf"))
        tick_at = started_at + TICK_S
        while True:
            wait_s = max(0.0, min(tick_at, deadline) - time.monotonic())
            events = dict(poller.poll(wait_s * 1000))
            if pidfd in events:
                return "exit"
            for fd, gone in ((self._supervisor_fd, "supervisor_gone"), (lease_fd, "driver_gone")):
                if fd in events:
                    return gone if events[fd] & (select.POLLHUP | select.POLLERR) else "interrupted"
            if time.monotonic() >= deadline:
                return "timeout"
            if time.monotonic() >= tick_at:
                self._reap()
                if watch.is_over() or (self._cgroup and self._cgroup.oom_kills()):
                    return "memory"
                if cut_file and os.path.exists(cut_file):
                    return "cut"
                tick_at = time.monotonic() + max(TICK_S, watch.cost_s / SAMPLING_SHARE)

    def _reap(self) -> bool:
        """Take the exit status of every child that ended; False when there is no child any more.

        Every living descendant is a child of this subreaper in the end, so "no child" is proof that none is
        left.
        """
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._trial:
                self._status = status
                self._leader_peak_bytes = usage.ru_maxrss * 1024

    def _end_all(self) -> set[int]:
        """Kill every descendant until none is left; returns those that were not the trial itself."""
        strays: set[int] = set()
        give_up_at = time.monotonic() + GIVE_UP_S
        while self._reap() and time.monotonic() < give_up_at:
            for pid in descendants(os.getpid()):
                kill(pid)
                strays.add(pid)
            time.sleep(0.001)
        return strays - {self._trial}


def _become_trial(request: dict[str, Any], guardian: int, gate: int, failure: int) -> NoReturn:
    """In the forked child: take on the trial's place, then its program. What fails is written to
    ``failure``.
    """
    try:
        os.read(gate, 1)
        os.setsid()
        _libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        if os.getppid() != guardian:  # it died before the line above could matter
            os._exit(1)
        _write("/proc/self/oom_score_adj", "1000")  # when the machine runs out, the trial goes first
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        _libc.signal(SIGPIPE, None)  # Python ignores it, and an ignored signal survives exec
        _libc.sigprocmask(SIG_SETMASK, ctypes.create_string_buffer(128), None)  # nothing blocked
        os.chdir(request["cwd"])
        program: list[str] = request["program"]
        os.execvpe(program[0], program, {**request["env"], GUARDIAN_VARIABLE: str(guardian)})
    except BaseException as problem:  # noqa: BLE001 - it is reported; this process must end here whatever it was
        os.write(failure, str(problem).encode()[:4096])
    os._exit(127)


def main() -> NoReturn:
    """Serve the one request that comes over the descriptor named on the command line."""
    supervisor_fd = int(sys.argv[1])
    become_subreaper()
    request = receive(supervisor_fd)
    if request is None:
        os._exit(1)
    for fd in (supervisor_fd, request["lease_fd"]):
        if fd >= 0:
            os.set_inheritable(fd, False)
    report = Guardian(request, supervisor_fd).run()
    try:
        send(supervisor_fd, report)
    except OSError:
        pass  # the supervisor is gone; nobody is left to be told
    os._exit(0)  # skips the interpreter's tidying up, which takes longer than all of the above


if __name__ == "__main__":
    main()
