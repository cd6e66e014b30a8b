"""SIGKILL of the program in the middle of a trial: nothing stays behind, and the next run finishes the study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import private_runtime, processes_of_driver, wait_until
from tests.unit.cli.program import Running, hangs_until_told, recorded, searched, tuner, write_space


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


def test_a_killed_run_leaves_no_process_and_the_next_one_finishes_the_study(tmp_path: Path) -> None:
    write_space(tmp_path, body=hangs_until_told(tmp_path))
    run = Running(tmp_path, "run", "tiny.yaml")
    run.wait_for("middle")
    shown = tuner(tmp_path, "show", "tiny")
    exported = tuner(tmp_path, "export", "tiny", "--trial", "1")
    assert processes_of_driver(run.process.pid)
    run.process.kill()
    run.end()
    assert wait_until(lambda: not processes_of_driver(run.process.pid), timeout_s=60)
    killed = tuner(tmp_path, "show", "tiny")
    before = recorded(tmp_path)
    assert any(run.outcome is None for trial in before.trials for run in trial.measurements)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "1 unfinished" in shown.stdout
    assert f"running now: process {run.process.pid} on " in shown.stdout.splitlines()[-1]
    assert shown.stdout.splitlines()[-1].endswith("under way: trial 1 (search)")
    assert "interrupted: trial 1 (search) under way when its run ended" in killed.stdout.splitlines()[-1]
    assert exported.returncode == 2
    assert "--trial 1: it is not measured yet" in exported.stderr
    (tmp_path / "go").touch()
    done = tuner(tmp_path, "run", "tiny.yaml")
    assert done.returncode == 0, done.stderr
    assert f"study 'tiny' goes on: {len(before.trials)} trials recorded" in done.stderr
    after = recorded(tmp_path)
    assert len(after.trials) == 3
    assert searched(after) == [1, 1]
    assert all(run.outcome is not None for trial in after.trials for run in trial.measurements)
