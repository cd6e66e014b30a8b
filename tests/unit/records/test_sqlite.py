"""The contract suite on the default database, a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.records_suite import RecordsSuite
from tuner.records.errors import RecordsUnavailable
from tuner.records.repository import Records


class TestSqlite(RecordsSuite):
    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        return str(tmp_path / "tuner.db")


def test_records_that_are_removed_while_in_use_are_not_written_into_the_void(tmp_path: Path) -> None:
    with Records.open(tmp_path / "tuner.db") as records:
        records.create_study("one", "", "", {}, [], [])
        (tmp_path / "tuner.db").unlink()
        with pytest.raises(RecordsUnavailable, match="removed or replaced while in use"):
            records.note("one", "key", 1)
