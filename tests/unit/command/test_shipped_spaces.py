"""The shipped space files that tune programs: they read without a problem, and their programs report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.command.conftest import RunCommand
from trials.contract import Outcome
from tuner.space import StudyFile, load_study_file

REPOSITORY = Path(__file__).parents[3]


def shipped(name: str) -> StudyFile:
    if shutil.which("zstd") is None and name == "zstd":
        pytest.skip("zstd is not installed (apt-get install zstd)")
    return load_study_file(REPOSITORY / "search_spaces" / f"{name}.yaml")


@pytest.mark.parametrize("name", ["zstd", "torch_script"])
def test_every_parameter_is_named_in_the_command(name: str) -> None:
    file = shipped(name)
    assert file.warnings == ()
    said = json.dumps(file.workload["run"])
    assert all(f"{{{parameter.name}}}" in said for parameter in file.space.parameters)


@pytest.mark.parametrize("choice", [{}, {"long": "window_27", "level": 1, "threads": 2}])
def test_zstd_measures_itself_on_real_files(run_command: RunCommand, choice: dict[str, object]) -> None:
    file = shipped("zstd")
    config = {**file.baseline, **choice}
    assert file.space.contains(config)
    section = {key: value for key, value in file.workload.items() if key != "kind"}
    measurement = run_command(section, config=file.space.resolve(config), wanted=file.wanted)
    assert measurement.outcome is Outcome.COMPLETE, measurement.message
    assert 1.5 < measurement.metrics["ratio"].value < 6
    assert measurement.metrics["decompress_mb_per_s"].value > measurement.metrics["compress_mb_per_s"].value
    assert ("--long=27" in measurement.proof["arguments"][-1]) == ("long" in choice)


def test_the_plain_script_reports_what_its_space_file_judges_by(tmp_path: Path) -> None:
    file = shipped("torch_script")
    script = next(Path(part) for part in file.workload["run"] if str(part).endswith("plain_script.py"))
    out = tmp_path / "metrics.json"
    command = [sys.executable, str(Path(file.workload["working_directory"]) / script), "--samples", "400"]
    subprocess.run(
        [*command, "--batch-size", "32", "--width", "16", "--precision", "bf16", "--out", str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # two threads on one free core would spin
        cwd=tmp_path,
        check=True,
    )
    assert set(file.wanted) <= json.loads(out.read_text()).keys()


def test_the_plain_script_knows_nothing_of_us() -> None:
    text = (REPOSITORY / "trials" / "tasks" / "plain_script.py").read_text()
    assert "import trials" not in text
    assert "from trials" not in text
    assert "tuner" not in text
