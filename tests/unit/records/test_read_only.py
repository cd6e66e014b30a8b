"""Records on a disk that is full or read-only can still be looked at."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.records_suite import complete, create, measure
from tuner.records import database
from tuner.records.errors import RecordsError, RecordsMissing
from tuner.records.repository import Records

NOBODY = 65534


@pytest.fixture
def locked() -> Iterator[Path]:
    """Records with a trial, in a folder that this process can read and not write to (root could do both)."""
    folder = Path(tempfile.mkdtemp(prefix="tuner-read-only-"))
    path = folder / "tuner.db"
    with Records.open(path) as records:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        measure(records, 0, complete(1.0))
    path.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_records_in_a_read_only_folder_are_read(locked: Path) -> None:
    before = sorted(path.name for path in locked.parent.iterdir())
    with Records.open(locked, must_exist=True) as records:
        assert [study.name for study in records.studies()] == ["lm"]
        assert records.study("lm").trials[0].config == {"x": 1}
        assert records.location == f"sqlite:///{locked}"
    assert sorted(path.name for path in locked.parent.iterdir()) == before == ["tuner.db"]


def test_a_write_to_them_says_why_it_cannot_be(locked: Path) -> None:
    with Records.open(locked, must_exist=True) as records, pytest.raises(RecordsError) as refused:
        records.add_trial("lm", {"x": 2}, "tpe")
    assert str(locked) in str(refused.value) and "; give another place with --records" in str(refused.value)


def test_whoever_wants_to_write_is_refused_at_once(locked: Path) -> None:
    with pytest.raises(RecordsError, match="give another place with --records"):
        Records.open(locked)


def test_what_only_the_log_beside_them_holds_is_never_left_out_silently(locked: Path) -> None:
    if os.geteuid() == NOBODY:
        os.seteuid(0)
    locked.parent.chmod(0o755)
    locked.with_name("tuner.db-wal").write_bytes(b"\0" * 4096)
    locked.parent.chmod(0o555)
    os.seteuid(NOBODY if os.geteuid() == 0 else os.geteuid())
    with pytest.raises(RecordsError, match=r"copy tuner\.db and tuner\.db-wal to a place with room"):
        Records.open(locked, must_exist=True)


def test_without_records_a_full_disk_is_no_excuse(tmp_path: Path) -> None:
    with pytest.raises(RecordsMissing):
        Records.open(tmp_path / "tuner.db", must_exist=True)


def test_a_disk_without_room_for_the_index_of_the_log_is_full(tmp_path: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    assert "the disk is full; free some space" in str(database.explained(error, str(tmp_path)))
