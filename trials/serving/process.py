"""A server's processes: started in a group of their own, watched, and ended whole."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from trials.command.process import find_program
from trials.command.run import ending
from trials.command.template import MissingVariableError, Secrets
from trials.contract import FailureKind, TrialFailure
from trials.measurement.memory import process_tree
from trials.serving.servers.base import Launch

LOG_FILE = "server.log"
TAIL_LINES, TAIL_BYTES = 15, 6000
LARGEST_LOG_BYTES = 64 * 2**20
STOP_GRACE_S = 10.0
_PORT_TRIES = 3
_LONGEST_ASK_S = 2.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """One server, from its launch to the end of its last process; use it as a context.

    ``cpus`` are the cores that it may use (empty: all of the trial's). A server that runs elsewhere (``launch``
    without arguments) is only asked.
    """

    def __init__(self, launch: Launch, log: Path, cpus: Sequence[int] = ()) -> None:
        self.launch, self._log, self._cpus = launch, log, tuple(cpus)
        self._secrets = Secrets(os.environ)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ServerProcess:
        if self.launch.arguments:
            try:
                self._start()
            except (OSError, MissingVariableError) as problem:
                message = f"{self.launch.arguments[0]} could not be started: {problem}"
                raise TrialFailure(FailureKind.ENGINE_START, self._secrets.hide(message)) from problem
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def is_ours(self) -> bool:
        """False where it runs elsewhere."""
        return self._process is not None

    def exit_status(self) -> int | None:
        """How it ended; None while it runs (or runs elsewhere)."""
        return None if self._process is None else self._process.poll()

    def processes(self) -> list[int]:
        """Its process and everything below it."""
        return process_tree(self._process.pid) if self._process else []

    def wait_until_healthy(self, timeout_s: float) -> None:
        """Return once it answers; TrialFailure ``engine_start``, with its log, where it dies or takes too long."""
        deadline, said = time.monotonic() + timeout_s, "it was never asked"
        while True:
            self.check_alive(FailureKind.ENGINE_START, "before it was ready")
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            said = ask_health(self.launch.base_url + self.launch.health, min(_LONGEST_ASK_S, left_s))
            if said == "":
                # another program may answer on a port that ours could not have
                self.check_alive(FailureKind.ENGINE_START, "before it was ready")
                return
            time.sleep(0.1)
        raise TrialFailure(
            FailureKind.ENGINE_START,
            self.with_tail(
                f"{self.launch.health} was not well within {timeout_s:g} s ({said}); see start_timeout"
            ),
        )

    def check_alive(self, kind: FailureKind, when: str) -> None:
        """TrialFailure with the end of its log where it has ended; a signal that killed it is ``killed``."""
        status = self.exit_status()
        if status is None:
            return
        signalled, said = ending(status, is_shell=False)
        kind = FailureKind.KILLED if signalled is FailureKind.KILLED else kind
        said = said.replace("the program", "the server", 1)
        raise TrialFailure(kind, self.with_tail(f"{said} {when}"))

    def with_tail(self, message: str) -> str:
        """The message and the end of the server's log, without secrets."""
        tail = log_tail(self._log)
        if not self.launch.arguments:
            return message
        said = f"{message}; the end of its log:\n{tail}" if tail else f"{message}; it printed nothing"
        return self._secrets.hide(said)

    def shown_arguments(self) -> list[str]:
        """How it was started, ``${NAME}`` as written."""
        return list(self.launch.arguments)

    def trim_log(self) -> bool:
        """Empty a log that grew too large (the server appends and goes on); True where that was done."""
        if not self._log.exists() or self._log.stat().st_size <= LARGEST_LOG_BYTES:
            return False
        os.truncate(self._log, 0)
        return True

    def stop(self) -> None:
        """Ask it to end, then end every process of it; nothing is left when this returns."""
        if self._process is None:
            return
        known = self.processes()
        if self.launch.stop:
            self._run_stop()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_GRACE_S)
        for pid in {*known, *self.processes()}:
            _kill(pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _start(self) -> None:
        launch = self.launch
        arguments = [self._secrets.reveal(word) for word in launch.arguments]
        own = {name: self._secrets.reveal(text) for name, text in launch.environment.items()}
        environment = {**_inherited(), **self._thread_limits(), **own}
        program = find_program(arguments[0], launch.folder, environment.get("PATH"))
        with self._log.open("ab") as log, on_cores(self._cpus):
            self._process = subprocess.Popen(
                arguments,
                executable=program,
                cwd=launch.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _thread_limits(self) -> dict[str, str]:
        """As many threads as cores: more of them collapse to a fraction of the speed."""
        return {name: str(len(self._cpus)) for name in _THREAD_VARIABLES if self._cpus and name in os.environ}

    def _run_stop(self) -> None:
        words = [self._secrets.reveal(word) for word in self.launch.stop]
        with contextlib.suppress(OSError, subprocess.SubprocessError), self._log.open("ab") as log:
            subprocess.run(
                words, timeout=STOP_GRACE_S, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )


def start_on_free_port(
    make: Callable[[int], Launch], log: Path, cpus: Sequence[int], timeout_s: float
) -> ServerProcess:
    """Start a server and wait until it is well; another port where somebody else was quicker on the one chosen."""
    for left in reversed(range(_PORT_TRIES)):
        port = free_port()
        server = ServerProcess(make(port), log, cpus)
        server.__enter__()
        try:
            server.wait_until_healthy(timeout_s)
            return server
        except TrialFailure:
            is_taken = server.is_ours and server.exit_status() is not None and _is_listened_on(port)
            server.stop()
            if not is_taken or not left:
                raise
        except BaseException:
            server.stop()
            raise
    raise AssertionError("the last try returns or raises")


def ask_health(url: str, timeout_s: float) -> str:
    """ "" where a GET is answered with 2xx, else in words what came instead."""
    try:
        status, _ = get(url, timeout_s)
    except TimeoutError:
        return "it accepts the connection and does not answer"
    except (OSError, http.client.HTTPException) as problem:
        return str(problem) or type(problem).__name__
    return "" if 200 <= status < 300 else f"it answers {status}"


def get(url: str, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of a GET, past any proxy; OSError or HTTPException where there is no answer."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}")
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def log_tail(log: Path) -> str:
    """The last lines of a log; empty where there are none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.replace("\r", "\n").rstrip().splitlines()[-TAIL_LINES:])


@contextlib.contextmanager
def on_cores(cpus: Sequence[int]) -> Iterator[None]:
    """What is started inside holds these cores from its first instruction on."""
    before = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _inherited() -> Mapping[str, str]:
    """The trial's environment without the path on which Python finds this program: the server has a Python of its
    own, in which other versions of the same modules may lie.
    """
    import trials

    root = str(Path(trials.__file__).parents[1])
    found = dict(os.environ)
    places = [place for place in found.pop("PYTHONPATH", "").split(os.pathsep) if place not in ("", root)]
    return found | ({"PYTHONPATH": os.pathsep.join(places)} if places else {})


def _is_listened_on(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
