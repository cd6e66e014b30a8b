"""Records that were edited by hand, restored by halves or damaged by a disk: one line says where, never a traceback."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from tuner.records.errors import DamagedRecords, RecordsError
from tuner.records.owner import Owner
from tuner.records.repository import Records
from tuner.records.tables import metadata
from tuner.results import as_json, judge

NONSENSE: tuple[Any, ...] = (
    "{", "[]", "5", '{"a": 5}', '[{"metric": 5}]', '{"metrics": {"a": 1}}', b"\xff\xfe{", "\0", -3,
)  # fmt: skip
MEANINGFUL = {
    "tuner_study": ("created_at", "updated_at", "definition", "objectives", "constraints", "bounds",
                    "reference_point", "rejected", "notes"),
    "tuner_trial": ("number", "config", "forecast", "reused_from"),
    "tuner_measurement": ("purpose", "seed", "started_at", "ended_at", "outcome", "failure_kind", "body",
                          "round_number", "is_discarded", "environment_digest"),
    "tuner_environment": ("body",),
}  # fmt: skip
COLUMNS = [(table.name, column.name) for table in metadata.sorted_tables for column in table.columns]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "tuner.db"
    store(two_sided_study(), path)
    with Records.open(path) as records:
        records.claim("built")
    return path


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tuner.db"
    with sqlite3.connect(whole) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
    return path


def damage(path: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def one_row(table: str, column: str) -> str:
    return f"UPDATE {table} SET {column} = ? WHERE rowid = (SELECT max(rowid) FROM {table})"


def everything(path: Path) -> None:
    """All that is read of a study, as every verb reads it."""
    with Records.open(path, must_exist=True) as records:
        for summary in records.studies():
            records.runner(summary.name)
            study = records.study(summary.name)
            for trial in study.trials:
                for run in trial.measurements:
                    records.examples(run.measurement_id)
            as_json(judge(study))


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_cell_of_nonsense_is_read_or_refused_in_one_line_and_never_a_surprise(
    table: str, column: str, damaged: Path
) -> None:
    refusals = 0
    for value in NONSENSE:
        kept = damaged.read_bytes()
        try:
            damage(damaged, one_row(table, column), value)
        except sqlite3.IntegrityError:
            continue  # the database itself does not take it
        try:
            everything(damaged)
        except RecordsError as refused:
            refusals += 1
            assert "\n" not in str(refused) and "; " in str(refused)
        damaged.write_bytes(kept)
    assert refusals or column not in MEANINGFUL.get(table, ())


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table, columns in MEANINGFUL.items() for column in columns]
)
def test_the_damage_is_named_with_its_study_its_column_and_the_way_out(
    table: str, column: str, damaged: Path
) -> None:
    damage(damaged, one_row(table, column), "{")
    with pytest.raises(DamagedRecords) as refused:
        everything(damaged)
    said = str(refused.value)
    assert said.startswith(f"the records at {damaged} are damaged: study 'built'")
    assert column in said
    assert said.endswith("go back to a copy of them, or begin new ones with --records")


@pytest.mark.parametrize("verb", [("show", "built"), ("export", "built"), ("try", "built", "x=9")])
def test_a_verb_ends_with_2_and_one_line(verb: tuple[str, ...], damaged: Path, tuner: Tuner) -> None:
    damage(damaged, "UPDATE tuner_measurement SET body = '{' WHERE trial_id = 2")
    said = tuner(*verb, "--records", str(damaged))
    assert said.code == 2
    assert "are damaged: study 'built', trial 1: its body is damaged (Expecting property name" in said.line


def test_list_says_which_study_is_damaged_and_goes_on_with_the_others(damaged: Path, tuner: Tuner) -> None:
    store(two_sided_study(name="other"), damaged)
    damage(damaged, "UPDATE tuner_study SET updated_at = 'yesterday' WHERE name = 'built'")
    said = tuner("list", "--records", str(damaged))
    assert said.code == 0
    assert "other" in said.out and "built" not in said.out
    assert re.search(r"^warning: .* damaged: study 'built': its updated_at is damaged .*$", said.err)


@pytest.mark.parametrize(("number", "said"), [(0, "its trial 0, the baseline, is"), (2, "its trial 2 is")])
def test_a_study_that_lost_a_trial_is_damaged(number: int, said: str, damaged: Path) -> None:
    damage(damaged, "DELETE FROM tuner_trial WHERE number = ?", number)
    with pytest.raises(DamagedRecords, match=f"study 'built': {said} missing"):
        everything(damaged)


def test_a_number_that_no_float_holds_is_damage(damaged: Path) -> None:
    damage(damaged, one_row("tuner_trial", "config"), '{"x": 1e999}')
    with pytest.raises(DamagedRecords, match=r"its config is damaged \(1e999 is too large"):
        everything(damaged)


def test_notes_and_facts_that_every_verb_reads_are_looked_at(damaged: Path) -> None:
    for table, column, text in (
        ("tuner_study", "notes", '{"selection": 5}'),
        ("tuner_study", "notes", '{"workload": [1]}'),
        ("tuner_measurement", "body", '{"facts": {"parameters": 5}}'),
        ("tuner_measurement", "body", '{"facts": {"concurrent_trials": "a"}}'),
    ):
        kept = damaged.read_bytes()
        damage(damaged, one_row(table, column), text)
        with pytest.raises(DamagedRecords, match=f"its {column} is damaged"):
            everything(damaged)
        damaged.write_bytes(kept)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE tuner_trial DROP COLUMN forecast", "no such column: tuner_trial.forecast"),
        ("DROP TABLE tuner_environment", "no such table: tuner_environment"),
        ("DELETE FROM tuner_schema", "tuner_schema has no version"),
    ],
)
def test_tables_that_are_not_those_of_their_version_are_damaged(
    change: str, said: str, damaged: Path
) -> None:
    damage(damaged, change)
    with pytest.raises(DamagedRecords) as refused:
        everything(damaged)
    assert said in str(refused.value)
    assert str(refused.value).endswith("go back to a copy of them, or begin new ones with --records")


@pytest.mark.parametrize("text", ["{", "{}", "5", '{"host": 1}'])
def test_a_claim_that_nobody_can_read_is_said_and_can_be_taken_over(
    text: str, damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(damaged, "UPDATE tuner_claim SET owner = ?", text)
    with Records.open(damaged) as records:
        with pytest.raises(DamagedRecords, match=r"if no run of it is alive: tuner run \.\.\. --take-over"):
            records.claim("built")
        assert records.runner("built") is None
        assert "the claim of its run: its owner is damaged" in caplog.text
        records.claim("built", take_over=True)
        assert records.runner("built") == Owner.current()


def test_a_generation_that_no_database_can_count_is_refused(damaged: Path) -> None:
    with Records.open(damaged) as records, pytest.raises(RecordsError, match="hold no such number"):
        records.study("built", 10**30)
