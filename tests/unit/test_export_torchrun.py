"""``tuner export --to torchrun``: a script that PyTorch's own launcher runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trials.contract import Measurement, Outcome
from tuner.export import TargetError, render


def document(parameters, kind="training"):
    workload = {
        "kind": kind,
        "task": "trials.tasks.digits:Digits",
        "train_for": {"steps": 6},
        "evaluate_on": 8,
    }
    verify = {"workload": workload, "parameters": parameters, "seed": 3, "judged_by": ["accuracy"]}
    return {
        "study": "demo",
        "trial": 4,
        "why": "the\nknee",
        "verify": verify,
        "environment": {"cores_held": [0, 1]},
    }


def test_a_workload_without_ranks_is_refused():
    with pytest.raises(TargetError, match="torchrun starts trainings"):
        render("torchrun", document({}, kind="command"))


def test_environment_parameters_are_exported_and_secrets_stay_names():
    text = render("torchrun", document({"env.TOKEN": "a ${SECRET}", "env.FLAG": True}))
    assert "export TOKEN='a '\"${SECRET}\"" in text
    assert "export FLAG=1" in text
    assert "# demo, trial 4: the knee" in text
    assert "Not expressed" in text


def test_torchrun_starts_the_users_own_script_in_as_many_processes_and_hands_it_the_configuration(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
    config = {"data_parallel_degree": 2, "micro_batch_size": 8}
    (tmp_path / "best.sh").write_text(render("torchrun", document(config)))
    (tmp_path / "mine.py").write_text(
        "import os, pathlib\n"
        "names = ('RANK', 'WORLD_SIZE', 'OMP_NUM_THREADS', 'TUNER_CONFIG')\n"
        "pathlib.Path(f\"seen{os.environ['RANK']}\").write_text('\\n'.join(os.environ[n] for n in names))\n"
    )
    done = subprocess.run(
        ["bash", "best.sh", "--", "mine.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = [(tmp_path / f"seen{rank}").read_text().split("\n") for rank in (0, 1)]
    assert [one[:3] for one in seen] == [["0", "2", "1"], ["1", "2", "1"]]
    assert json.loads(seen[0][3]) == config


def test_torchrun_trains_the_exported_configuration_again(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
    (tmp_path / "best.sh").write_text(
        render("torchrun", document({"data_parallel_degree": 2, "zero_stage": 1, "task.width": 8}))
    )
    done = subprocess.run(
        ["bash", "best.sh", "again"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = Measurement.from_json((tmp_path / "again" / "result.json").read_text())
    assert found.outcome is Outcome.COMPLETE
    assert found.proof["world_size"] == 2
    assert found.metrics["accuracy"].n == 8
