from __future__ import annotations

from pathlib import Path

import pytest

from tuner.tracking import TrackingError, ui_address, ui_command
from tuner.tracking.stores import artifact_folder, checked_uri, without_password


def test_a_relative_sqlite_file_lies_in_the_working_directory(tmp_path: Path) -> None:
    assert checked_uri("sqlite:///mlflow.db", tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    assert checked_uri("sqlite:////data/m.db", tmp_path) == "sqlite:////data/m.db"


@pytest.mark.parametrize("uri", ["file:./mlruns", "./mlruns", "mlruns", "file:///data/mlruns"])
def test_a_folder_is_refused_with_the_way_out(uri: str) -> None:
    with pytest.raises(TrackingError, match=r"folder.*use a database such as sqlite:///mlflow\.db") as caught:
        checked_uri(uri)
    assert uri in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("uri", ["sqlite://", "sqlite:///:memory:", "redis://localhost", "nonsense:x"])
def test_a_store_that_cannot_work_is_refused(uri: str) -> None:
    with pytest.raises(TrackingError, match=r"sqlite:///mlflow\.db"):
        checked_uri(uri)


def test_servers_and_team_databases_are_taken_as_they_are() -> None:
    for uri in ("http://127.0.0.1:5000", "https://mlflow.example/x", "postgresql+psycopg://me@db/mlflow"):
        assert checked_uri(uri) == uri


def test_artifacts_lie_beside_the_database_and_a_server_keeps_its_own(tmp_path: Path) -> None:
    assert artifact_folder(f"sqlite:///{tmp_path}/a/m.db") == f"{tmp_path}/a/mlartifacts"
    assert artifact_folder("postgresql://db/mlflow", tmp_path) == f"{tmp_path}/mlartifacts"
    assert artifact_folder("http://127.0.0.1:5000") is None


def test_no_password_reaches_the_terminal() -> None:
    assert without_password("postgresql://me:secret@db/mlflow") == "postgresql://me:***@db/mlflow"
    assert without_password("http://127.0.0.1:5000") == "http://127.0.0.1:5000"


def test_the_ui_listens_on_this_machine_only(tmp_path: Path) -> None:
    command = ui_command(f"sqlite:///{tmp_path}/m.db", 5123)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "5123"
    assert command[command.index("--backend-store-uri") + 1] == f"sqlite:///{tmp_path}/m.db"


def test_a_server_has_its_ui_already() -> None:
    with pytest.raises(TrackingError, match="open it in a browser"):
        ui_command("http://127.0.0.1:5000")


def test_without_a_store_yet_the_address_is_the_bare_one(tmp_path: Path) -> None:
    assert ui_address(f"sqlite:///{tmp_path}/m.db", 5001) == "http://127.0.0.1:5001/"
    assert not (tmp_path / "m.db").exists()
