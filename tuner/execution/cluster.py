"""A Ray of our own on this machine, or somebody's cluster by address; nothing of ours stays behind."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tuner.execution.guardian import kill
from tuner.execution.marks import MARK_VARIABLE, driver_mark, marked_processes
from tuner.execution.placement import refuse_what_does_not_fit, usable_cores, usable_gpus
from tuner.execution.protocol import ExecutionError, Slots
from tuner.execution.sweeper import swept

_MIB = 2**20
_START_TRIES = 3  # Ray gives its node 30 s to come up, which a busy machine may need more than once
OBJECT_STORE_BYTES = 80 * _MIB  # results are small; Ray refuses less than 75 MiB

# read by Ray when it is imported or started, by Ray Tune when it runs
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # it would kill supervisors: trials have limits of their own
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # "A worker died" would go to stdout; the trial's outcome says it
    "RAY_AIR_NEW_OUTPUT": "0",  # the new one prints on stdout even when told to be silent
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # it swallows Ctrl-C and lets the program exit with 0
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_SYNCER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # its state on disk is never read
    "TUNE_WARN_THRESHOLD_S": "60",
}
_SET_BY_RAY = ("RAY_AUTH_MODE", "PYTHONBREAKPOINT", "TUNE_RESULT_BUFFER_LENGTH")
_IDLE_HELPERS = (b"/autoscaler/_private/monitor.py", b"/_private/log_monitor.py")
# a token of our own, or Ray writes one into the user's home; per process, because Ray keeps the first that
# it sees
_OWN_RAY = {
    # despite its name: on Linux too, listen on the loopback address only
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}


@contextmanager
def quiet_ray(is_own: bool) -> Iterator[None]:
    """Ray's settings in this process's environment, and its loggers silent; both are put back.

    Must be entered before anything imports ray: some settings are read then. ``is_own``: a Ray for us alone.
    """
    logger = logging.getLogger("ray")
    level = logger.level
    with _environment(_QUIET | (_OWN_RAY if is_own else {}), and_put_back=_SET_BY_RAY):
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)


@contextmanager
def _environment(settings: Mapping[str, str], and_put_back: Iterable[str] = ()) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in (*settings, *and_put_back)}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def connected(address: str | None, slots: Slots, folder: Path) -> Iterator[None]:
    """Ray, up for the time of the block; ExecutionError where it cannot run even one slot.

    ``folder`` holds Ray's own files of a Ray that is started here.
    """
    if address is None:
        refuse_what_does_not_fit(slots, len(usable_cores()), len(usable_gpus()), "this machine")
    else:
        refuse_an_unreachable(address)
    import ray

    if ray.is_initialized():
        raise ExecutionError(
            "this process is connected to a Ray already; use a process of its own for each run"
        )
    with ExitStack() as stack:
        if address is None:
            stack.enter_context(swept(folder))
        put_back = stack.enter_context(_callers_signal_handlers())
        stack.callback(ray.shutdown)
        _start(address, slots, folder)
        put_back()
        if address is None:
            _end_idle_helpers()
        else:
            refuse_what_no_node_has(address, slots, ray.nodes())
        yield


def _start(address: str | None, slots: Slots, folder: Path) -> None:
    import ray

    for tries_left in reversed(range(_START_TRIES)):
        try:
            # the mark is for Ray's processes only: what the driver starts later is not ours to sweep
            with _environment({} if address else {MARK_VARIABLE: driver_mark()}), _groups_of_their_own():
                ray.init(**_arguments(address, slots, folder))
        except Exception as problem:
            is_too_slow = address is None and type(problem) is Exception
            if not (is_too_slow and tries_left):
                raise _not_started(address, problem) from problem
            for pid in marked_processes(driver_mark().__eq__):  # half of a Ray; the next one is a whole one
                kill(pid)
        else:
            return


@contextmanager
def _groups_of_their_own() -> Iterator[None]:
    """Ray's processes are started in process groups of their own.

    A signal to our group (``timeout``, a closed terminal, a service manager) would else end them at once, and Ray
    then waits a minute for them before it ends this process itself.
    """
    try:
        from ray._private import services
    except ImportError:  # another Ray than ours has other parts
        yield
        return
    started_by_ray = services.ConsolePopen

    class Apart(started_by_ray):  # type: ignore[misc, valid-type]  # Ray has no types, and no setting for this
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, process_group=0, **options)

    services.ConsolePopen = Apart
    try:
        yield
    finally:
        services.ConsolePopen = started_by_ray


def _not_started(address: str | None, problem: Exception) -> ExecutionError:
    what = f"reach the Ray cluster at {address}" if address else "start a Ray of our own"
    reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    if isinstance(problem.__cause__, Exception) and "InvalidAuthToken" in str(problem.__cause__):
        reason = "it wants a token; export RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
    return ExecutionError(f"cannot {what}: {reason}")


def _end_idle_helpers() -> None:
    """End two processes of our own Ray that would only disturb what is measured (1% of a core).

    The log monitor serves ``log_to_driver``, which is off; the autoscaler's monitor has nothing to scale,
    and Ray's shutdown would wait a second for it, because it ignores SIGTERM.
    """
    for pid in marked_processes(driver_mark().__eq__):
        with contextlib.suppress(OSError):  # it ended meanwhile
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if any(word.endswith(_IDLE_HELPERS) for word in words):
                kill(pid)


def refuse_an_unreachable(address: str) -> None:
    """ExecutionError for an address that cannot work: Ray itself would try for four minutes first."""
    if address.startswith("ray://"):
        raise ExecutionError(
            f"{address}: the driver must run on a machine of the cluster; "
            "start it there with HOST:PORT instead of ray://"
        )
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return  # "auto": Ray knows where, or says at once that there is none
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as problem:
        raise ExecutionError(
            f"cannot reach the Ray cluster at {address}: {problem.strerror or problem}; "
            "is it up, and is this its GCS port?"
        ) from problem


@contextmanager
def _callers_signal_handlers() -> Iterator[Callable[[], None]]:
    """Ray and Ray Tune set handlers of their own: until what is yielded is called they are not let, where the
    caller has one, for Ray's would end the program without a word. What they set later is put back at the end.

    While Ray is up its handler of SIGTERM stays where the caller has none: it exits, and so cleans up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    set_handler = signal.signal

    def keep_the_callers(number: int, handler: Any) -> Any:
        kept = before.get(signal.Signals(number))
        return kept if callable(kept) else set_handler(number, handler)

    def put_back() -> None:
        signal.signal = set_handler
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)

    signal.signal = keep_the_callers  # type: ignore[assignment]  # Ray has no setting
    try:
        yield put_back
    finally:
        signal.signal = set_handler
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _arguments(address: str | None, slots: Slots, folder: Path) -> dict[str, Any]:
    common = {"log_to_driver": False, "configure_logging": True, "logging_level": logging.CRITICAL}
    if address is not None:
        return {**common, "address": address}
    return {
        **common,
        "num_cpus": slots.count * slots.cpus,  # cores are held by locks; Ray only counts
        "num_gpus": min(slots.count * slots.gpus, len(usable_gpus())),
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": str(folder),
    }


def refuse_what_no_node_has(address: str, slots: Slots, nodes: list[dict[str, Any]]) -> None:
    """Ray Tune would wait for ever for resources that are not there."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    if slots.accelerator:
        wanted = f"accelerator_type:{slots.accelerator}"
        having = [node for node in alive if wanted in node]
        if not having:
            there = sorted(
                {
                    key.partition(":")[2]
                    for node in alive
                    for key in node
                    if key.startswith("accelerator_type:")
                }
            )
            raise ExecutionError(
                f"resources.accelerator={slots.accelerator}, but {address} has {', '.join(there) or 'none'}"
            )
        alive = having
    fitting = sum(_slots_on(node, slots) for node in alive)
    if not fitting:
        most = {name: max((node.get(name, 0) for node in alive), default=0) for name in ("CPU", "GPU")}
        refuse_what_does_not_fit(slots, most["CPU"], most["GPU"], f"no node of {address} more; the largest")
        raise ExecutionError(
            f"no single node of {address} has {slots.cpus} cpus and {slots.gpus} gpus together; "
            "ask for less of one"
        )
    if fitting < slots.count:
        raise ExecutionError(
            f"search.concurrent_trials={slots.count}, but {address} has room for {fitting} at once; "
            f"use {fitting}"
        )


def _slots_on(node: dict[str, float], slots: Slots) -> int:
    rooms = [
        node.get(name, 0) // wanted for name, wanted in (("CPU", slots.cpus), ("GPU", slots.gpus)) if wanted
    ]
    return int(min(rooms, default=slots.count))
