"""The environment of a trial is built afresh."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import job
from trials.contract import TrialSpec
from tuner.execution.environment import MissingVariable, rerun_command, trial_environment


@pytest.fixture
def spec(tmp_path: Path) -> TrialSpec:
    return dataclasses.replace(job(tmp_path, 0, "anything").spec, cpus=(2, 3))


def with_parameters(spec: TrialSpec, **parameters: Any) -> TrialSpec:
    return dataclasses.replace(spec, config={f"env.{name}": value for name, value in parameters.items()})


def test_what_ray_sets_in_its_workers_does_not_reach_the_trial(spec: TrialSpec) -> None:
    base = {
        "RAY_JOB_ID": "1",
        "OMP_NUM_THREADS": "7",
        "CUDA_VISIBLE_DEVICES": "3",
        "HOME": "/h",
        "SPT_NOENV": "1",
    }
    environment = trial_environment(spec, base)
    assert environment["HOME"] == "/h"
    assert "RAY_JOB_ID" not in environment
    assert "SPT_NOENV" not in environment
    assert environment["CUDA_VISIBLE_DEVICES"] == ""


def test_threads_follow_the_cores_held(spec: TrialSpec) -> None:
    environment = trial_environment(spec, {"MKL_NUM_THREADS": "64"})
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    assert {environment[name] for name in names} == {"2"}


def test_a_trial_sees_its_own_devices_only(spec: TrialSpec) -> None:
    environment = trial_environment(dataclasses.replace(spec, gpus=("2", "5")), {})
    assert environment["CUDA_VISIBLE_DEVICES"] == "2,5"


def test_compile_caches_lie_in_the_folder_of_the_study(spec: TrialSpec) -> None:
    environment = trial_environment(spec, {"TRITON_CACHE_DIR": "/shared"})
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"):
        assert Path(environment[name]).parent == spec.cache_dir


def test_parameters_of_the_environment_have_the_last_word(spec: TrialSpec) -> None:
    spec = with_parameters(spec, OMP_NUM_THREADS=1, FLAG=True, OFF=False, LEFT_OUT=None)
    environment = trial_environment(spec, {"FLAG": "no"})
    assert (environment["OMP_NUM_THREADS"], environment["FLAG"], environment["OFF"]) == ("1", "1", "0")
    assert "LEFT_OUT" not in environment


def test_names_in_braces_are_filled_in_and_other_dollars_are_left_alone(spec: TrialSpec) -> None:
    environment = trial_environment(
        with_parameters(spec, A="x${USER}y${USER}", B="$USER {USER} $$"), {"USER": "u"}
    )
    assert (environment["A"], environment["B"]) == ("xuyu", "$USER {USER} $$")


def test_a_value_that_was_filled_in_is_not_filled_in_again(spec: TrialSpec) -> None:
    assert trial_environment(with_parameters(spec, A="${X}"), {"X": "${Y}"})["A"] == "${Y}"


def test_a_name_that_is_not_set_is_an_error_with_the_way_out(spec: TrialSpec) -> None:
    with pytest.raises(MissingVariable, match=r"env\.TOKEN wants \$\{HF_TOKEN\}.*export HF_TOKEN="):
        trial_environment(with_parameters(spec, TOKEN="${HF_TOKEN}"), {})


def test_trials_can_be_imported_and_the_user_s_own_path_stays(spec: TrialSpec) -> None:
    path = trial_environment(spec, {"PYTHONPATH": "/mine"})["PYTHONPATH"].split(":")
    assert path[-1] == "/mine"
    again = trial_environment(spec, {"PYTHONPATH": ":".join(path)})["PYTHONPATH"].split(":")
    assert again == path


def test_the_command_to_run_it_again_holds_no_secret_and_survives_a_shell(
    spec: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    command = rerun_command(with_parameters(spec, TOKEN="a b's ${SECRET}!"), ["python", "-m", "trials"])
    assert "hunter2" not in command
    assert "\n" not in command
    assert "TOKEN=a b's ${SECRET}!" in shlex.split(command)
    assert shlex.split(command)[-1] == str(spec.trial_dir / "spec.json")
