"""The example of search_spaces/README.md, copied out of it into a folder of its own: checked, then one trial run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.program import tuner
from trials import runner
from trials.contract import Measurement, Purpose, TrialSpec
from trials.metrics import Key
from tuner.space import load_study_file

pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

README = Path(__file__).parents[2] / "search_spaces/README.md"
ROOT = str(Path(runner.__file__).parents[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code blocks that begin with their file's name, as these files."""
    place = tmp_path_factory.mktemp("elsewhere")
    for language, name, text in re.findall(
        r"```(python|yaml)\n# (quadrants\.\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL
    ):
        assert name.endswith({"python": "py", "yaml": "yaml"}[language])
        (place / name).write_text(text)
    return place


def test_the_example_is_a_valid_space_file(folder: Path) -> None:
    pytest.importorskip("torchao", reason='needs torchao: pip install "tuner[torchao]"')
    done = tuner(folder, "check", "quadrants.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "limit       accuracy_recovery_pct >= 99" in done.stdout


def test_a_trial_of_the_example_runs_from_its_own_folder(folder: Path) -> None:
    file = load_study_file(folder / "quadrants.yaml", cpus=1)
    trial = folder / "trial"
    trial.mkdir()
    config = {**file.space.resolve(file.baseline), "threads": 1}
    workload = {**file.workload, "window_s": 0.2, "evaluate_on": 500}
    spec = TrialSpec("s", 0, "m", Purpose.SEARCH, workload, config, 0, trial, folder / "cache")
    (trial / "spec.json").write_text(json.dumps(json.loads(spec.to_json())))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "trials", str(trial / "spec.json")],
        cwd=folder, env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = Measurement.from_json((trial / "result.json").read_text())
    assert found.metrics[Key.ACCURACY].value > 0.9
    assert found.metrics[Key.ACCURACY_RECOVERY_PCT].value == 100
    assert found.proof["engine"] == "torch" and found.facts["examples"] == 500
