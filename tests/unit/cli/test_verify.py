"""``tuner verify``: what it prints of a comparison, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

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
