"""What a driver that died left behind: its processes and its temporary folders. Normally nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.execution import guardian
from tuner.execution.marks import RUNTIME_VARIABLE, driver_mark, is_dead, marked_processes, runtime_dir
from tuner.execution.protocol import ExecutionError

RUN_PREFIX = "run-"
MARK_FILE = "driver"
LONGEST_PATH = 40  # a socket's path has 107 characters at most, and Ray appends up to 66


@contextmanager
def run_folder() -> Iterator[Path]:
    """A temporary folder of this driver, which ``leftovers`` finds if the driver dies.

    ExecutionError where it cannot be made, or where its path leaves no room for the names of Ray's sockets.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=runtime_dir()))
        (folder / MARK_FILE).write_text(driver_mark(), encoding="utf-8")
    except OSError as problem:
        raise ExecutionError(
            f"cannot make a temporary folder: {problem}; free space or allow writing there"
        ) from problem
    try:
        if len(str(folder)) > LONGEST_PATH:
            raise ExecutionError(
                f"{runtime_dir()} is too long a path for sockets; set {RUNTIME_VARIABLE} to a folder "
                f"of at most {LONGEST_PATH - len(RUN_PREFIX) - 9} characters"
            )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Leftover:
    """A process (``pid``) or a temporary folder (``folder``) of a driver that is dead."""

    what: str
    pid: int | None = None
    folder: Path | None = None

    def end(self) -> None:
        """Kill the process, or remove the folder."""
        if self.pid is not None:
            guardian.kill(self.pid)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def leftovers() -> list[Leftover]:
    """Everything of this user that a dead driver left on this machine; drivers that live are not touched."""
    processes = [Leftover(_command(pid), pid=pid) for pid in marked_processes(is_dead)]
    folders = [
        Leftover(str(folder), folder=folder)
        for folder in sorted(runtime_dir().glob(f"{RUN_PREFIX}*"))
        if (mark := _mark_of(folder)) and is_dead(mark)
    ]
    return processes + folders


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid}"
    return f"process {pid}: {b' '.join(words).decode(errors='replace')[:200].strip()}"


def _mark_of(folder: Path) -> str:
    try:
        return (folder / MARK_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""
