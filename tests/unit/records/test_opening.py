from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.records_suite import create
from tuner.records.errors import RecordsError
from tuner.records.repository import Records


def refusal(location: str | Path, *, must_exist: bool = False) -> str:
    with pytest.raises(RecordsError) as refused:
        Records.open(location, must_exist=must_exist)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_without_a_place_the_variable_counts_and_then_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_RECORDS", str(tmp_path / "named.db"))
    Records.open().close()
    monkeypatch.delenv("TUNER_RECORDS")
    Records.open(None).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["named.db", "tuner.db"]


def test_the_location_of_a_file_is_its_absolute_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Records.open("my.db") as records:
        assert records.location == f"sqlite:///{tmp_path}/my.db"
    with Records.open(records.location, must_exist=True) as again:
        assert again.location == records.location


def test_the_file_is_written_ahead_and_synchronised_at_every_commit(tmp_path: Path) -> None:
    with Records.open(tmp_path / "tuner.db") as records:
        names = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        asked = records._database.read(
            lambda connection: {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}
        )
    assert asked == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 500, "foreign_keys": 1}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"the folder {tmp_path / 'nowhere'} of the records does not exist" in refusal(
        tmp_path / "nowhere/x.db"
    )


def test_a_folder_is_no_records_file(tmp_path: Path) -> None:
    assert f"{tmp_path} is a folder; give --records a file in it" in refusal(tmp_path)


def test_a_folder_that_cannot_be_written_to_is_said() -> None:
    assert "cannot use the records at /proc/tuner.db" in refusal("/proc/tuner.db")  # closed to root as well


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("shopping list\n" * 100)
    for must_exist in (False, True):
        assert "it is not an SQLite database" in refusal(path, must_exist=must_exist)
    assert path.read_text() == "shopping list\n" * 100


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE experiments (x)")
    connection.close()
    assert "is the database of another program (it holds experiments)" in refusal(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("experiments",)]
    connection.close()


def test_reading_verbs_do_not_make_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    assert refusal(path, must_exist=True) == f"no records at {path}; run `tuner run` first or give --records"
    path.touch()
    assert refusal(path, must_exist=True).startswith("no records at")
    assert path.stat().st_size == 0


@pytest.mark.parametrize("location", ["://", "postgresql://u:p@ss:word@h:port/x"])
def test_a_malformed_url_is_refused_without_showing_its_password(location: str) -> None:
    assert "neither a path nor a database URL" in refusal(location)
    assert "ss:word" not in refusal(location)


def test_a_missing_driver_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'psycopg[binary]'" in refusal("postgresql+psycopg://me:secret@localhost/x")
    assert "secret" not in refusal("postgresql+psycopg://me:secret@localhost/x")


@pytest.mark.parametrize(
    ("module", "scheme", "package"),
    [
        ("MySQLdb", "mysql", "mysqlclient"),
        ("MySQLdb", "mariadb", "mysqlclient"),
        ("pymysql", "mysql+pymysql", "pymysql"),
        ("mysql", "mysql+mysqlconnector", "mysql-connector-python"),
        ("psycopg2", "postgresql+psycopg2", "psycopg2-binary"),
    ],
)
def test_a_driver_is_named_as_pip_knows_it(
    module: str, scheme: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    said = refusal(f"{scheme}://me@localhost/x", must_exist=True)
    assert said.endswith(f"need a driver: pip install '{package}'")


@pytest.mark.parametrize("must_exist", [True, False])
def test_a_link_that_leads_nowhere_is_said(must_exist: bool, tmp_path: Path) -> None:
    (tmp_path / "loop.db").symlink_to("loop.db")
    said = refusal(tmp_path / "loop.db", must_exist=must_exist)
    assert (
        said
        == f"{tmp_path}/loop.db is a link that leads nowhere; mend it, or give another file with --records"
    )


def test_a_study_name_that_no_database_could_hold_is_refused(tmp_path: Path) -> None:
    with Records.open(tmp_path / "tuner.db") as records:
        for name in ("", "x" * 201):
            with pytest.raises(RecordsError, match="1 to 200 characters"):
                create(records, name)


def test_text_that_is_not_unicode_is_refused_in_one_line(tmp_path: Path) -> None:
    with (
        Records.open(tmp_path / "tuner.db") as records,
        pytest.raises(RecordsError, match="is not valid text"),
    ):
        create(records, file_path="/home/\udcff/x.yaml")
    with (
        Records.open(tmp_path / "tuner.db") as records,
        pytest.raises(RecordsError, match=r"is not valid text, so the records at .* cannot hold it"),
    ):
        records.study("b\udcff")


def test_reading_rows_and_errors_loads_no_database_library() -> None:
    program = "import sys, tuner.records.rows, tuner.records.errors; print('sqlalchemy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_records_of_the_first_version_are_brought_up_to_date_and_lose_nothing(tmp_path: Path) -> None:
    place = tmp_path / "tuner.db"
    with Records.open(place) as records:
        create(records)
        records.add_trial("lm", {"x": 1}, "random")
    with sqlite3.connect(place) as old:
        old.execute("ALTER TABLE tuner_trial DROP COLUMN forecast")
        old.execute("UPDATE tuner_schema SET version = 1")
    old.close()
    with Records.open(place, must_exist=True) as records:
        (trial,) = records.study("lm").trials
        assert (trial.config, trial.proposed_by, trial.forecast) == ({"x": 1}, "random", None)
    with Records.open(place, must_exist=True) as again:  # and once is enough
        assert len(again.study("lm").trials) == 1
