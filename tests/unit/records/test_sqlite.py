"""The contract suite on the default database, a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.records_suite import RecordsSuite


class TestSqlite(RecordsSuite):
    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        return str(tmp_path / "tuner.db")
