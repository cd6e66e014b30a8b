"""What the cases run on: a bench with a fake clock, and the real program with real trials in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.faults.processes import private_runtime
from tests.unit.cli.conftest import Tuner, tuner, workplace
from tests.unit.study.conftest import bench
from tuner.execution.local import LocalExecutor

__all__ = ["bench", "tuner", "workplace"]


@pytest.fixture
def program(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tuner]:
    """``tuner`` with everything real but Ray: trials are processes under guardians, placed without it."""
    stand_in = SimpleNamespace(RayTuneExecutor=lambda address: LocalExecutor())
    monkeypatch.setitem(sys.modules, "tuner.execution.ray_tune", stand_in)
    with private_runtime():
        yield tuner
