"""``tuner check --sensitivity``: the ranking as a page and as JSON, and what is refused before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import Tuner
from trials.contract import FailureKind, Measurement, Outcome
from trials.inference import engines

SPACE = {
    "study": "served",
    "workload": {"kind": "inference", "task": "trials.tasks.digits_classifier:DigitsClassifier"},
    "parameters": {"engine": ["torch"], "precision": ["fp32", "int8_dynamic"]},
    "objectives": ["samples_per_s"],
}


def layer(name: str, lost: float, low: float, high: float, error: float) -> dict[str, Any]:
    losses = {"quality_lost": lost, "quality_lost_low": low, "quality_lost_high": high}
    return {"layer": name, **losses, "output_error": error, "is_decided": low > 0}


INFINITE = float("inf")
RANKED = Measurement(
    Outcome.COMPLETE,
    facts={
        "metric": "accuracy",
        "reference_quality": 0.9,
        "examples": 1000,
        "layers": [
            layer("block.up", INFINITE, INFINITE, INFINITE, INFINITE),
            layer("head", 0.2, 0.1, 0.3, 0.5),
            layer("stem", 0.001, -0.002, 0.004, 0.2),
        ],
    },
)


@pytest.fixture
def ranked(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A space file, and a program that ranks at once; what it was given."""
    (workplace / "served.yaml").write_text(yaml.safe_dump(SPACE))
    monkeypatch.setattr("tempfile.tempdir", str(workplace))
    given: list[Any] = []
    monkeypatch.setattr(engines, "find_spec", lambda name: object())

    def run_aside(module: str, spec: Any, slot: Any) -> Measurement:
        given.append(spec)
        return Measurement.from_json(RANKED.to_json())

    monkeypatch.setattr("tuner.aside.run_aside", run_aside)
    return given


def test_the_page_ranks_layers_and_its_last_line_is_a_parameter(tuner: Tuner, ranked: list[Any]) -> None:
    said = tuner("check", "served.yaml", "--sensitivity", "int8_dynamic")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["block.up", "head", "stem"]
    assert "inf" in lines[1] and "+0.2" in lines[2]
    assert "a loss is certain for 2 of 3 layers" in said.out
    kept = yaml.safe_load(lines[-1])["keep_high_precision"]
    assert kept["choices"]["none"] is None
    assert kept["choices"]["worst_2"] == ["block.up", "head"]
    assert kept["when"] == "precision == 'int8_dynamic'"
    (spec,) = ranked
    assert spec.config["precision"] == "int8_dynamic" and spec.config["engine"] == "torch"
    assert not spec.trial_dir.parent.exists()


def test_an_infinite_loss_is_null_in_json(tuner: Tuner, ranked: list[Any]) -> None:
    said = tuner("check", "served.yaml", "--sensitivity", "int8_dynamic", "--json")
    found = json.loads(said.out)
    assert [one["quality_lost"] for one in found["layers"]] == [None, 0.2, 0.001]
    assert [one["is_decided"] for one in found["layers"]] == [True, True, False]
    assert (found["schema_version"], found["examples"]) == (1, 1000)


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("bf16", "quantises no layer; use int8_dynamic"),
        ("int9", "is not one of fp32"),
        ("fp8", "has no precision=fp8"),
    ],
)
def test_what_has_no_layers_to_rank_is_refused(
    precision: str, words: str, tuner: Tuner, ranked: list[Any]
) -> None:
    said = tuner("check", "served.yaml", "--sensitivity", precision)
    assert (said.code, ranked) == (2, [])
    assert words in said.err


def test_a_ranking_that_fails_keeps_its_log(
    tuner: Tuner, ranked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Measurement.failed(FailureKind.UNSUPPORTED, "no layer to quantise")
    monkeypatch.setattr("tuner.aside.run_aside", lambda *given: failed)
    said = tuner("check", "served.yaml", "--sensitivity", "int8_dynamic")
    assert said.code == 1
    assert "unsupported: no layer to quantise; log: " in said.err
