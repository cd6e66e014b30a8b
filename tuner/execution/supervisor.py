"""Runs one job on this machine: writes its folder, starts a guardian, waits, and says what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trials.contract import (
    EVENTS_FILE,
    LOG_FILE,
    RESULT_FILE,
    SPEC_FILE,
    FailureKind,
    Measurement,
    TrialSpec,
)
from tuner.execution import guardian
from tuner.execution.classify import GIB, Report, measurement_of
from tuner.execution.cut import CUT_FILE
from tuner.execution.environment import MissingVariable, rerun_command, trial_environment
from tuner.execution.kept import keep_measurement
from tuner.execution.lease import LeaseAddress, connect
from tuner.execution.marks import MARK_VARIABLE, trial_mark
from tuner.execution.orphans import end_orphans
from tuner.execution.placement import Holding, shortage, usable_cores, usable_gpus

COMMAND_FILE = "command.txt"
PROGRAM = (sys.executable, "-m", "trials")
_GUARDIAN = (sys.executable, "-I", "-S", guardian.__file__)


_GUARDIAN_GRACE_S = 30.0
"""A guardian ends its trial within a second of the time limit; one that takes so much longer is stuck."""

_LONGEST_POLL_MS = 2**31 - 1
"""24 days; a trial that may take longer is waited for without a limit."""


@dataclass(frozen=True)
class Place:
    """What every job of a slot has in common. ``program`` is what runs a spec file, named as its last
    argument.
    """

    mark: str
    lease: LeaseAddress
    cpus: int
    gpus: int = 0
    program: tuple[str, ...] = PROGRAM


@dataclass
class Supervisor:
    """One slot: holds its cores and devices for as long as it lives, and runs one job at a time.

    ``gpus`` are the devices to choose from (None: all that this process may use). ``owns_process`` says
    that this process has no other children, so that whatever survives a killed guardian may be ended
    without asking.
    """

    place: Place
    gpus: Sequence[str] | None = None
    owns_process: bool = False
    _cores: Holding = field(init=False)
    _devices: Holding = field(init=False)
    _lease: socket.socket | None = field(init=False)

    def __post_init__(self) -> None:
        self._cores = Holding("core", map(str, usable_cores()))
        self._devices = Holding("gpu", usable_gpus() if self.gpus is None else self.gpus)
        self._lease = connect(self.place.lease)

    def run(self, spec: TrialSpec) -> Measurement:
        """Run the job to its end, however it ends; never raises for what a trial or a full disk does."""
        begin = time.monotonic()
        try:
            spec, shortages = self._placed(spec)
            environment = trial_environment(spec)
            log_fd = _prepare(spec, self.place.program)
        except MissingVariable as problem:
            return Measurement.failed(FailureKind.CRASH, str(problem))
        except OSError as problem:
            return Measurement.failed(FailureKind.CRASH, _unwritable(spec, problem))
        try:
            report = self._guarded(spec, environment, log_fd)
        except OSError as problem:
            return Measurement.failed(FailureKind.CRASH, f"could not be started: {problem}")
        finally:
            os.close(log_fd)
        measurement = _with_costs(measurement_of(report, spec), report, begin, shortages)
        keep_measurement(spec, measurement)
        return measurement

    def close(self) -> None:
        """Give cores, devices and the lease back."""
        self._cores.release()
        self._devices.release()
        if self._lease:
            self._lease.close()

    @property
    def lease_fd(self) -> int:
        """The descriptor on which the driver's end shows; -1 where this machine has no lease."""
        return self._lease.fileno() if self._lease else -1

    def _placed(self, spec: TrialSpec) -> tuple[TrialSpec, list[str]]:
        cores, devices = self._cores.take(self.place.cpus), self._devices.take(self.place.gpus)
        short = [shortage("core", self.place.cpus, cores), shortage("gpu", self.place.gpus, devices)]
        # always as many cores as promised, or its numbers would not compare with those of other runs; where
        # others hold some, it runs beside them, and the measurement says so
        held = [int(core) for core in cores]
        numbers = [*held, *(core for core in usable_cores() if core not in held)][: self.place.cpus]
        gpus = devices or tuple(usable_gpus() if self.gpus is None else self.gpus)[: self.place.gpus]
        return dataclasses.replace(spec, cpus=tuple(sorted(numbers)), gpus=gpus), [
            line for line in short if line
        ]

    def _guarded(self, spec: TrialSpec, environment: dict[str, str], log_fd: int) -> Report:
        """Start a guardian, hand it the job, wait for its report."""
        mark = {MARK_VARIABLE: trial_mark(self.place.mark, spec.measurement_id)}
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [*_GUARDIAN, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=log_fd,
                env=mark | _loader_path(),
                start_new_session=True,
                pass_fds=[theirs.fileno(), *([self.lease_fd] if self._lease else [])],
            )
            theirs.close()
            try:
                guardian.send(ours.fileno(), self._request(spec, environment | mark))
                if not _answers(ours, spec.timeout_s):
                    process.kill()  # somebody stopped the guardian, and with it the trial's own time limit
                message = guardian.receive(ours.fileno())
            except OSError:
                message = None  # the guardian was killed before it could take the job or report
            process.wait()
        if message is None:
            end_orphans(mark[MARK_VARIABLE].__eq__, every_child=self.owns_process)
            guardian.remove_cgroups_of(process.pid)
        return Report.from_message(message)

    def _request(self, spec: TrialSpec, environment: dict[str, str]) -> dict[str, Any]:
        limit_gib = spec.memory_limit_gib
        return {
            "program": [*self.place.program, str(spec.trial_dir / SPEC_FILE)],
            "env": environment,
            "cwd": str(spec.trial_dir),
            "cpus": list(spec.cpus),
            "timeout_s": spec.timeout_s,
            "memory_limit_bytes": None if limit_gib is None else int(limit_gib * GIB),
            "lease_fd": self.lease_fd,
            "cut_file": str(spec.trial_dir / CUT_FILE) if spec.report_at else None,
        }


def _answers(guardian_end: socket.socket, timeout_s: float | None) -> bool:
    """Whether the guardian reports within the trial's time and a grace for ending it."""
    poll = select.poll()
    poll.register(guardian_end, select.POLLIN)
    wait_ms = math.inf if timeout_s is None else (timeout_s + _GUARDIAN_GRACE_S) * 1000
    return bool(poll.poll(wait_ms if wait_ms <= _LONGEST_POLL_MS else None))


def _loader_path() -> dict[str, str]:
    """Some Pythons find their own library only by this; the rest of the environment is kept from the
    guardian.
    """
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


def _prepare(spec: TrialSpec, program: Sequence[str]) -> int:
    """Write the trial's folder; returns the open log. OSError where that cannot be done."""
    spec.trial_dir.mkdir(parents=True, exist_ok=True)
    spec.cache_dir.mkdir(parents=True, exist_ok=True)
    for name in (RESULT_FILE, EVENTS_FILE, CUT_FILE):  # of an earlier try in the same folder
        (spec.trial_dir / name).unlink(missing_ok=True)
    (spec.trial_dir / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    (spec.trial_dir / COMMAND_FILE).write_text(rerun_command(spec, program) + "\n", encoding="utf-8")
    return os.open(spec.trial_dir / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _unwritable(spec: TrialSpec, problem: OSError) -> str:
    free = ""
    with contextlib.suppress(OSError):
        free = f" ({shutil.disk_usage(_existing(spec.trial_dir)).free / GIB:.2f} GiB free there)"
    where = problem.filename or spec.trial_dir
    return f"cannot write {where}: {problem.strerror}{free}; free space or allow writing there"


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _with_costs(measurement: Measurement, report: Report, begin: float, shortages: list[str]) -> Measurement:
    """With what the run cost around the trial's own work, and whether others shared its cores."""
    wall_s = time.monotonic() - begin
    phases = dict(measurement.phases)
    own_s = phases.get("total_s")
    phases["wall_s"] = wall_s
    phases["launch_s"] = max(0.0, wall_s - (report.wall_s if own_s is None else own_s))
    contaminated = {"contaminated": "; ".join(shortages)} if shortages else {}
    return dataclasses.replace(
        measurement,
        phases=phases,
        warnings=(*measurement.warnings, *shortages),
        facts={**measurement.facts, **contaminated},
    )
