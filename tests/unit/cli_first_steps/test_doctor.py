"""``tuner doctor``: what it says of machines that have something, and of those that lack it."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Tuner
from tests.unit.cli.test_surface import HEAVY
from tests.unit.cli_first_steps.conftest import SERVER, T4, WITH_H200
from tuner.cli import doctor, hardware
from tuner.cli.hardware import Hardware

FACTS: dict[str, Any] = {
    "torch": "2.13.0", "built_for": "cpu", "device": "cpu", "devices": [], "threads": 2,
    "tflops": {"fp32": 0.1, "bf16": 0.9, "fp16": 0.05}, "refused": {"tf32": "needs an NVIDIA GPU"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is wrong and nothing is slow to ask."""
    monkeypatch.setattr(doctor, "this_machine", lambda: SERVER)
    monkeypatch.setattr(doctor, "_probe", lambda _: (FACTS, True))
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["ray>=2", "click>=8"])


def checks(tuner: Tuner, code: int = 0) -> dict[str, dict[str, str]]:
    said = tuner("doctor", "--json")
    found = json.loads(said.out)
    assert (said.code, found["ok"]) == (code, code == 0)
    return {check["name"]: check for check in found["checks"]}


def test_a_sound_machine_is_all_well_and_says_what_each_format_gains(tuner: Tuner) -> None:
    said = tuner("doctor")
    assert (said.code, said.err) == (0, "")
    assert "bf16" in said.out and "9.0 x fp32" in said.out
    assert "0.5 x fp32: nothing to gain in speed" in said.out
    assert "broken" not in said.out


def test_what_is_optional_is_missing_with_a_way_out_and_the_exit_code_stays_0(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_probe", lambda _: (FACTS, False))
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    monkeypatch.setattr(
        importlib.metadata,
        "requires",
        lambda _: ['no-such-thing[x]>=3.2; extra == "postgres"', 'nor-this; extra == "dev"'],
    )
    found = checks(tuner)
    for name in ("gpu", "tf32", "compiler", "memory cap", "no-such-thing (postgres)"):
        assert found[name]["state"] == "missing", name
        assert found[name]["way_out"], name
    assert found["no-such-thing (postgres)"]["way_out"] == "pip install 'no-such-thing[x]>=3.2'"
    assert not any("nor-this" in name for name in found)


@pytest.mark.parametrize(
    ("requirement", "said"), [("no-such-thing", "not installed"), ("click>=999", ">=999 is wanted")]
)
def test_a_package_that_every_study_needs_breaks_it_where_it_is_away_or_too_old(
    requirement: str, said: str, tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: [requirement])
    found = checks(tuner, code=1)[requirement.partition(">")[0]]
    assert found["state"] == "broken"
    assert said in found["found"]
    assert found["way_out"] == f"pip install '{requirement}'"


def test_a_gpu_that_torch_cannot_use_is_broken(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "this_machine", lambda: WITH_H200)
    found = checks(tuner, code=1)["gpu"]
    assert found["state"] == "broken"
    assert "NVIDIA H200" in found["found"]
    assert "CUDA build" in found["way_out"]


def test_a_torch_that_does_not_import_is_broken_and_its_last_word_is_quoted(
    tuner: Tuner, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    (workplace / "torch.py").write_text("raise ImportError('libgomp.so.1: cannot open')")
    monkeypatch.setenv("PYTHONPATH", str(workplace))
    said = tuner("doctor", "--json")
    found = {check["name"]: check for check in json.loads(said.out)["checks"]}
    assert said.code == 1
    assert found["torch"]["found"] == "does not work: ImportError: libgomp.so.1: cannot open"


def test_a_full_disk_is_broken(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 2**20, "total": 2**33})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    assert checks(tuner, code=1)["disk"]["state"] == "broken"


def test_the_probe_measures_in_its_own_process_and_the_program_loads_nothing_heavy(workplace: Path) -> None:
    program = (
        "import json, sys\nfrom tuner.cli import cli\nfrom tuner.cli.errors import run_and_exit\n"
        "try: run_and_exit(cli, ['doctor', '--json'])\n"
        f"finally: print(json.dumps([m for m in {HEAVY} if m in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=workplace, check=False
    )
    assert json.loads(done.stderr.splitlines()[-1]) == []
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert found["torch"]["state"] == found["fp32"]["state"] == "ok"
    assert "x fp32" in found["bf16"]["found"] or found["bf16"]["state"] == "missing"
    assert list(workplace.iterdir()) == []


def test_the_weakest_of_the_gpus_decides_what_is_offered(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = workplace / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 143155, 9.0'\necho 'Tesla T4, 15360, 7.5'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{workplace}:/usr/bin:/bin")
    monkeypatch.setattr(hardware, "visible_gpus", lambda: 2)
    found = hardware.this_machine()
    assert found.gpu == T4
    assert found.precisions == ("fp32", "fp16")


@pytest.mark.parametrize("answer", ["exit 9", "echo 'No devices were found'", "echo"])
def test_a_driver_that_does_not_answer_leaves_fp32(
    answer: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = workplace / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{workplace}:/usr/bin:/bin")
    monkeypatch.setattr(hardware, "visible_gpus", lambda: 1)
    found = hardware.this_machine()
    assert (found.gpu, found.precisions) == (None, ("fp32",))


def test_hardware_without_bf16_says_so_in_words() -> None:
    assert str(Hardware("x", ("avx2",), 1, 8.0)) == "1 core (no bf16 in hardware), 8 GiB of memory, no GPU"
