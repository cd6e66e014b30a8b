"""Ends what a Ray of our own leaves when its driver goes, and removes its files: ``python -m
tuner.execution.sweeper``.

Ray's processes notice a driver's sudden death late (the actors after 15 s) or not at all (its agent). This
one is started before them, waits for its standard input to end, and sweeps then; a driver that ends in good
order closes that pipe and waits for it, so that both ends are one way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.execution.guardian import GIVE_UP_S, kill
from tuner.execution.marks import MARK_VARIABLE, driver_mark, driver_of, is_trial_mark, marked_processes
from tuner.execution.orphans import end_orphans

_RAY_TITLE = b"ray::"


@contextmanager
def swept(folder: Path) -> Iterator[None]:
    """For the time of the block, whatever happens to this process: its Ray's processes and ``folder`` go
    with it.
    """
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    sweeper = subprocess.Popen(
        [sys.executable, "-m", "tuner.execution.sweeper", driver_mark(), str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C on the terminal is not for it
        env={**os.environ, MARK_VARIABLE: driver_mark(), "PYTHONPATH": paths},
    )
    assert sweeper.stdin is not None
    os.register_at_fork(after_in_child=sweeper.stdin.close)  # a forked copy would keep the pipe open
    try:
        yield
    finally:
        sweeper.stdin.close()
        sweeper.wait()


def end_ray_in(folder: str) -> None:
    """SIGKILL Ray's processes that hold a file in its folder.

    They write their title over what /proc shows of their environment, at times over the mark as well.
    """
    give_up_at = time.monotonic() + GIVE_UP_S
    while (pids := list(_ray_in(f"{os.path.realpath(folder)}/"))) and time.monotonic() < give_up_at:
        for pid in pids:
            kill(pid)
        time.sleep(0.02)


def _ray_in(prefix: str) -> Iterator[int]:
    for process in Path("/proc").iterdir():
        try:
            is_ray = process.name.isdigit() and (process / "cmdline").read_bytes().startswith(_RAY_TITLE)
            if is_ray and any(str(fd.readlink()).startswith(prefix) for fd in (process / "fd").iterdir()):
                yield int(process.name)
        except OSError:
            continue  # it ended meanwhile, or is not ours to look at


def main() -> None:
    """Wait for the driver's end, then sweep."""
    mark, folder = sys.argv[1:]
    sys.stdin.buffer.read()
    end_orphans(lambda found: found == mark)
    # guardians end their own trials, and find what has cleared its environment: they get the time for it
    give_up_at = time.monotonic() + GIVE_UP_S
    while any(marked_processes(lambda found: driver_of(found) == mark and is_trial_mark(found))):
        if time.monotonic() > give_up_at:
            break
        time.sleep(0.02)
    end_orphans(lambda found: driver_of(found) == mark)
    end_ray_in(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
