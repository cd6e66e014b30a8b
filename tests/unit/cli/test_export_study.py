"""``tuner export --to csv | optuna | mlflow``: whole studies."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import optuna
import pytest

from tests import builders
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from tuner.export.table import render_csv
from tuner.results import judge
from tuner.space.yaml_source import read_scalar, scalar_text


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_every_trial_with_its_fate_and_numbers(tuner: Tuner) -> None:
    store(two_sided_study())
    said = tuner("export", "built", "--to", "csv")
    assert (said.code, said.err) == (0, "")
    table = rows(said.out)
    assert list(table[0])[:8] == [
        "number", "outcome", "failure_kind", "message", "proposed_by", "is_feasible", "is_confirmed", "on_front",
    ]  # fmt: skip
    assert [row["number"] for row in table] == ["0", "1", "2", "3", "4"]
    assert [row["outcome"] for row in table] == ["complete", "complete", "complete", "failed", "complete"]
    assert [row["is_feasible"] for row in table] == ["true", "true", "true", "", "false"]
    assert [row["on_front"] for row in table] == ["true", "true", "true", "false", "false"]
    assert [row["is_confirmed"] for row in table] == ["true", "true", "false", "false", "false"]
    assert table[3]["failure_kind"] == "out_of_memory"
    assert table[3]["message"] == "[31mno memory", "one line, nothing that plays with a terminal"
    assert table[3]["tokens_per_s"] == ""
    assert float(table[1]["tokens_per_s"]) == 1500.0
    assert float(table[1]["tokens_per_s_low"]) < 1500.0 < float(table[1]["tokens_per_s_high"])


def test_csv_keeps_the_types_of_parameters_apart_and_inactive_ones_empty() -> None:
    values = [1, 1.0, True, "1", None, "a, b", [1, "x"], {"k": 1e-05}, "", "true", 'say "hi"']
    measured = [
        builders.trial(number, builders.measurement({"speed": 1.0}), config={"v": value})
        for number, value in enumerate(values, start=1)
    ]
    study = builders.study(
        builders.baseline({"speed": [1.0, 2.0]}, config={}),
        *measured,
        objectives=(builders.objective("speed"),),
    )
    cells = [row["config.v"] for row in rows(render_csv(judge(study)))]
    assert cells[0] == ""
    assert cells[1:] == [scalar_text(value) for value in values]
    assert len(set(cells)) == len(cells)
    for cell, value in zip(cells[1:5], values[:4], strict=True):
        assert cell == '"1"' if value == "1" and isinstance(value, str) else read_scalar(cell) is not None
    assert [type(read_scalar(cell)) for cell in cells[1:4]] == [int, float, bool]


def test_csv_goes_into_a_file_as_well(tuner: Tuner, workplace: Path) -> None:
    store(two_sided_study())
    said = tuner("export", "built", "--to", "csv", "-o", "all.csv")
    assert (said.code, said.out, said.err) == (0, "", "wrote all.csv\n")
    assert len(rows((workplace / "all.csv").read_text())) == 5


def test_optuna_gets_a_study_that_it_can_load(tuner: Tuner, workplace: Path) -> None:
    store(two_sided_study())
    said = tuner("export", "built", "--to", "optuna", "-o", "optuna.db")
    assert (said.code, said.out) == (0, "")
    assert said.err == (
        f"wrote 5 trials of 'built'; look at them: optuna-dashboard sqlite:///{workplace / 'optuna.db'}\n"
        "(where it is missing: pip install optuna-dashboard)\n"
    )
    found = optuna.load_study(study_name="built", storage="sqlite:///optuna.db")
    assert [trial.number for trial in found.best_trials] == [0, 1, 2]


def test_a_database_of_something_else_is_no_place_for_optuna(tuner: Tuner) -> None:
    store(two_sided_study())
    shutil.copy("tuner.db", "other.db")
    said = tuner("export", "built", "--to", "optuna", "-o", "other.db")
    assert said.code == 2
    assert said.line.startswith("tuner: -o other.db: the database holds something else (")
    assert tuner("show", "built").code == 0


def test_mlflow_takes_the_name_of_a_file_too(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    store(two_sided_study())
    given = []
    monkeypatch.setattr("tuner.cli.export_study.log_study", lambda _s, uri, *_: given.append(uri) or 0)
    assert tuner("export", "built", "--to", "mlflow", "-o", "there.db").code == 0
    assert given == [f"sqlite:///{Path('there.db').absolute()}"]


def test_an_older_generation_is_named_by_its_number(tuner: Tuner) -> None:
    store(two_sided_study())
    assert len(rows(tuner("export", "built@1", "--to", "csv").out)) == 5
    assert "has no such generation" in tuner("export", "built@2").line
    assert "no such generation; write built@N" in tuner("export", "built@x").line


@pytest.mark.parametrize("verb", [["export", "built", "--to", "mlflow", "-o"], ["log", "built", "--mlflow"]])
def test_mlflow_is_what_log_does(verb: list[str], tuner: Tuner) -> None:
    store(two_sided_study())
    said = tuner(*verb, "./mlruns")
    assert (said.code, said.out) == (2, "")
    assert "'./mlruns' is a folder, and MLflow no longer writes its data to plain folders" in said.line
