"""``tuner export --to torchrun``: a script that PyTorch's own launcher runs."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trials.contract import Measurement, Outcome, TrialSpec
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


def in_shell(tmp_path, parameters, arguments, python):
    (tmp_path / "best.sh").write_text(render("torchrun", document(parameters)))
    done = subprocess.run(
        ["bash", "best.sh", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": str(python), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_users_own_script_is_started_in_as_many_processes_and_handed_the_configuration(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"\necho "$OMP_NUM_THREADS"\necho "$TUNER_CONFIG"\n')
    python.chmod(0o755)
    config = {"data_parallel_degree": 2, "micro_batch_size": 8}
    command, threads, handed = in_shell(tmp_path, config, ["--", "mine.py", "--deep"], python).splitlines()
    assert command.startswith("-m torch.distributed.run ")
    assert command.endswith(" --nproc-per-node=2 mine.py --deep")
    assert threads == "1"
    assert json.loads(handed) == config


def test_torchrun_trains_the_exported_configuration_again(tmp_path):
    """In two processes, whose losses are those of one that takes the whole batch."""
    pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
    parameters = {"data_parallel_degree": 2, "zero_stage": 1, "task.width": 8, "micro_batch_size": 16}
    in_shell(tmp_path, parameters, ["again"], sys.executable)
    found = Measurement.from_json((tmp_path / "again" / "result.json").read_text())
    assert found.outcome is Outcome.COMPLETE
    assert found.proof["world_size"] == 2
    assert found.metrics["accuracy"].n == 8
    alone = {"task.width": 8, "micro_batch_size": 32, "threads": 1}
    spec = replace(
        TrialSpec.from_json((tmp_path / "again" / "spec.json").read_text()),
        config=alone, trial_dir=tmp_path, cache_dir=tmp_path,
    )  # fmt: skip
    (tmp_path / "alone.json").write_text(spec.to_json())
    subprocess.run([sys.executable, "-m", "trials", "alone.json"], cwd=tmp_path, check=True)
    single = Measurement.from_json((tmp_path / "result.json").read_text())
    losses = [one.facts["first_losses"] for one in (found, single)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
