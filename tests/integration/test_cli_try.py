"""``tuner try`` as a user types it, into a study that was really measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import private_runtime
from tests.unit.cli.program import recorded, tuner, write_space
from tuner.execution.local import LocalExecutor
from tuner.launch import claimed, prepare_records, run_study
from tuner.records.repository import Records
from tuner.space import load_study_file


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of the baseline, x = 1, and one more; x = 5 crashes."""
    path = write_space(
        tmp_path,
        body="import sys\nif {x} == 5: sys.exit(9)",
        budget={"trials": 2},
        try_first=[{"x": 2}],
        confirm={"finalists": 0, "baseline_repeats": 1},
        constraints={"cost": {"max": 30}},
    )
    file = load_study_file(path)
    with Records.open(tmp_path / "tuner.db") as records, claimed(records, file.name):
        prepare_records(file, records, new_space=False)
        assert run_study(file, records, LocalExecutor(), []).failure is None
    return tmp_path


def test_it_is_measured_judged_and_recorded_and_known_the_second_time(folder: Path) -> None:
    (folder / "tiny.yaml").unlink()  # the records hold its text
    done = tuner(folder, "try", "tiny", "x=3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "trial 2 is on the front; measured once, tuner run confirms it"
    assert "x=3 -> speed=13  cost=9  ok" in done.stderr
    before = recorded(folder).trials
    trial = before[2]
    assert (trial.config["x"], trial.proposed_by) == (3, "user")
    again = tuner(folder, "try", "tiny", "x=3", "--json")
    assert again.returncode == 0
    assert "this configuration is trial 2, measured already" in again.stderr
    plain = json.loads(again.stdout)
    assert (plain["schema_version"], plain["study"], plain["is_new"]) == (1, "tiny", False)
    assert plain["trial"]["number"] == 2 and plain["trial"]["metrics"]["speed"]["value"] == 13
    assert recorded(folder).trials == before


def test_one_that_fails_or_breaks_a_limit_ends_with_3_and_says_so(folder: Path) -> None:
    failing = tuner(folder, "try", "tiny", "x=5")
    assert failing.returncode == 3
    assert "trial 2 failed (crash): " in failing.stdout and "  log: /" in failing.stdout
    breaking = tuner(folder, "try", "tiny", "x=6")
    assert breaking.returncode == 3
    assert breaking.stdout.splitlines()[-1] == "trial 3 breaks the limit cost <= 30"


def test_what_cannot_be_tried_is_one_line_and_2(folder: Path) -> None:
    before = recorded(folder)
    for arguments, words in (
        (["x=many"], "x=many: try: x=many is not a number; write a number"),
        (["y=1"], "y=1: try.y is not "),
        (["x=1e999"], "x=1e999: try: x=Infinity is not a finite number; write a number"),
        (["x=1", "x=2"], "tuner: x is given twice; keep one of x=1 and x=2"),
        (["x"], "tuner: x: write KEY=VALUE, for example micro_batch_size=16"),
    ):
        done = tuner(folder, "try", "tiny", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1 and words in done.stderr, done.stderr
    with Records.open(folder / "tuner.db") as records, claimed(records, "tiny"):
        done = tuner(folder, "try", "tiny", "x=4")
        assert done.returncode == 2
        assert "study 'tiny' is being run by process" in done.stderr
    assert recorded(folder).trials == before.trials


def test_a_study_without_a_baseline_is_begun_by_run(folder: Path) -> None:
    file = load_study_file(folder / "tiny.yaml", {"study": "bare"})
    with Records.open(folder / "tuner.db") as records:
        prepare_records(file, records, new_space=False)
    done = tuner(folder, "try", "bare", "x=4")
    assert done.returncode == 2
    assert f"has no measured baseline yet; begin with: tuner run {folder / 'tiny.yaml'}" in done.stderr
