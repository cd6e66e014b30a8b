"""``tuner verify``: what it prints of a comparison, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.conftest import Tuner
from tests.unit.cli.test_export import sealed
from tuner.verification import Comparison, Verification

DOCUMENT = {
    "tuner_export": 1,
    "study": "s",
    "trial": 0,
    "metrics": {},
    "verify": {
        "workload": {"kind": "command"},
        "parameters": {},
        "seed": 3,
        "judged_by": ["speed"],
        "runs": {"speed": [1.0]},
        "spread": {},
        "within": {},
    },
}


@pytest.mark.parametrize(
    ("low", "high", "code", "words"),
    [
        (90.0, 110.0, 0, ["inside", "agrees with the export"]),
        (20.0, 400.0, 1, ["says little", "cannot tell: too noisy to compare"]),
        (10.0, 90.0, 1, ["outside", "does NOT agree with the export"]),
    ],
)
def test_the_verdict_is_said_and_decides_the_exit_code(
    low: float, high: float, code: int, words: list[str],
    tuner: Tuner, workplace: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    found = Verification((Comparison("speed", 100.0, low, high),))
    monkeypatch.setattr("tuner.verification.verify_document", lambda *given: found)
    (workplace / "x.json").write_text(json.dumps(sealed(DOCUMENT)))
    said = tuner("verify", "x.json")
    assert said.code == code
    assert all(word in said.out for word in words)


LOADER = """
import sys
import numpy as np

np.savez(sys.argv[2], doubled={factor} * np.load(sys.argv[1])["x"])
"""


@pytest.mark.parametrize(
    ("loader", "code", "words"),
    [
        (LOADER.format(factor=2), 0, "answers as it did when it was built"),
        (LOADER.format(factor=2.1), 1, "served: the artifact gives other outputs than the engine: doubled"),
        ("import no_such_engine", 1, "served: the artifact's loader ended with status 1"),
    ],
)
def test_an_artifact_has_to_answer_as_it_did_before_it_is_measured(
    loader: str, code: int, words: str, tuner: Tuner, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Verification((Comparison("speed", 100.0, 90.0, 110.0),))
    monkeypatch.setattr("tuner.verification.verify_document", lambda *given: found)
    folder = workplace / "served"
    folder.mkdir()
    (folder / "tuner.yaml").write_text(json.dumps(sealed(DOCUMENT)))
    (folder / "loader.py").write_text(loader)
    np.savez(folder / "sample_inputs.npz", x=np.arange(3.0))
    np.savez(folder / "sample_outputs.npz", doubled=2 * np.arange(3.0))
    files = set(folder.iterdir())
    said = tuner("verify", "served")
    assert said.code == code
    assert words in said.err
    assert set(folder.iterdir()) == files
