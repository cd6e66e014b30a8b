"""The whole line as a user types it: run, show, run again, export, verify; each exit code once."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import private_runtime, processes_of_driver, wait_until
from tests.unit.cli.program import Running, hangs_until_told, recorded, searched, tuner, write_space
from tuner.export.document import verify_digest


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("line")


@pytest.fixture(scope="module")
def finished(folder: Path) -> subprocess.CompletedProcess[str]:
    """One study, run to its end; the other tests of this module look at it."""
    write_space(folder)
    return tuner(folder, "run", "tiny.yaml", "--json")


def test_a_run_ends_with_0_data_on_stdout_and_talk_on_stderr(
    finished: subprocess.CompletedProcess[str],
) -> None:
    assert finished.returncode == 0, finished.stderr
    study = json.loads(finished.stdout)
    assert (study["schema_version"], study["study"]) == (1, "tiny")
    assert len(study["trials"]) == 3
    assert study["front"]
    assert study["stopped_because"] == "budget of 3 trials is spent"
    lines = finished.stderr.splitlines()
    assert lines[0].startswith("baseline: ")
    assert any(line.startswith("[3/3] trial 2 (") for line in lines)
    assert lines[-2:] == [
        "stopped: budget of 3 trials is spent",
        "export the recommended one with: tuner export tiny -o best.yaml",
    ]
    assert "\x1b" not in finished.stderr and "Traceback" not in finished.stderr


def test_show_prints_the_same_as_the_run_did(
    folder: Path, finished: subprocess.CompletedProcess[str]
) -> None:
    done = tuner(folder, "show", "tiny", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    one, other = json.loads(done.stdout), json.loads(finished.stdout)
    assert {**one, "updated_at": ""} == {**other, "updated_at": ""}
    assert "Pareto front of" in tuner(folder, "show", "tiny").stdout


def test_a_finished_study_is_not_run_again(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    before = recorded(folder)
    done = tuner(folder, "run", "tiny.yaml")
    assert done.returncode == 0, done.stderr
    assert "study 'tiny' goes on: 3 trials recorded in" in done.stderr
    assert recorded(folder).trials == before.trials


def test_check_knows_what_is_recorded(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    done = tuner(folder, "check", "tiny.yaml")
    assert "all of them are done" in done.stdout or "a run so far" in done.stdout
    assert "3 trials of this study in" in done.stdout


def test_an_edited_file_is_refused_and_nothing_is_recorded(
    folder: Path, finished: subprocess.CompletedProcess[str]
) -> None:
    before = recorded(folder)
    done = tuner(folder, "run", "tiny.yaml", "--set", "parameters.x={min: 1, max: 5}")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'parameters.x: was "min": 1, "max": 6' in done.stderr
    assert recorded(folder) == before


def test_an_export_verifies_and_one_with_other_numbers_does_not(
    folder: Path, finished: subprocess.CompletedProcess[str]
) -> None:
    assert tuner(folder, "export", "tiny", "-o", "best.json", "--to", "json").returncode == 0
    agreeing = tuner(folder, "verify", "best.json", "--json")
    assert agreeing.returncode == 0, agreeing.stderr
    plain = json.loads(agreeing.stdout)
    assert (plain["schema_version"], plain["agrees"]) == (1, True)
    assert [(row["metric"], row["verdict"]) for row in plain["metrics"]] == [
        ("speed", "inside"),
        ("cost", "inside"),
    ]
    document = json.loads((folder / "best.json").read_text())
    runs = document["verify"]["runs"]
    runs["speed"] = [1.5 * value for value in runs["speed"]]
    document["provenance"]["verify_sha256"] = verify_digest(document["verify"])
    (folder / "faster.json").write_text(json.dumps(document))
    differing = tuner(folder, "verify", "faster.json")
    assert differing.returncode == 1
    assert "outside" in differing.stdout and "does NOT agree with the export" in differing.stdout


def test_nothing_feasible_is_3_with_the_nearest_miss(tmp_path: Path) -> None:
    write_space(
        tmp_path, constraints={"speed": {"min": 1000}}, confirm={"finalists": 0, "baseline_repeats": 1}
    )
    done = tuner(tmp_path, "run", "tiny.yaml", "--records", "mine.db")
    assert done.returncode == 3, done.stderr
    assert "nearest miss: trial " in done.stdout and "< 1000, by " in done.stdout
    assert "or export the nearest with: tuner export tiny --trial " in done.stderr
    assert done.stderr.rstrip().endswith("--records mine.db")


def test_a_baseline_that_fails_is_1_with_its_log(tmp_path: Path) -> None:
    write_space(tmp_path, body="import sys; print('no such weights', file=sys.stderr); sys.exit(9)")
    done = tuner(tmp_path, "run", "tiny.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the study failed: the baseline failed (crash)" in done.stderr
    assert "no such weights" in done.stderr
    assert "tuner-trials/tiny/g1/" in done.stderr
    assert "go on with: tuner run tiny.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])  # Ctrl-C; what timeout and systemd send
def test_ctrl_c_saves_everything_says_how_to_go_on_and_the_study_goes_on(
    number: signal.Signals, tmp_path: Path
) -> None:
    write_space(tmp_path, body=hangs_until_told(tmp_path))
    run = Running(
        tmp_path, "run", "tiny.yaml", "--set", "search.seed=3", "--records", "tuner.db", "--trials", "4"
    )
    run.wait_for("middle")
    second = tuner(tmp_path, "run", "tiny.yaml")
    assert second.returncode == 2
    assert "study 'tiny' is being run by process" in second.stderr
    pressed = run.press_ctrl_c(number)
    out, err = run.end(timeout_s=30)
    assert time.monotonic() - pressed < 20
    assert run.process.returncode == 130, err
    assert "Traceback" not in err
    assert "tiny: " in out
    again = "tuner run tiny.yaml --set search.seed=3 --records tuner.db --trials 4"
    assert err.rstrip().splitlines()[-1].endswith(f"; go on with: {again}")
    (tmp_path / "go").touch()
    done = tuner(tmp_path, *again.split()[1:])
    assert done.returncode == 0, done.stderr
    assert searched(recorded(tmp_path)) == [1, 1, 1]


def test_ctrl_c_ends_a_verification_at_once(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    assert tuner(folder, "export", "tiny", "-o", "slow.json", "--to", "json").returncode == 0
    document = json.loads((folder / "slow.json").read_text())
    middle = folder / "verifying"
    code = f"import pathlib, time; pathlib.Path({str(middle)!r}).touch(); time.sleep(300)"
    document["verify"]["workload"]["run"] = ["{python}", "-c", code]
    document["provenance"]["verify_sha256"] = verify_digest(document["verify"])
    (folder / "slow.json").write_text(json.dumps(document))
    run = Running(folder, "verify", "slow.json")
    run.wait_for("verifying")
    pressed = run.press_ctrl_c()
    out, err = run.end(timeout_s=30)
    assert time.monotonic() - pressed < 20
    assert (run.process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert wait_until(lambda: not processes_of_driver(run.process.pid))
