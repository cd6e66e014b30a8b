"""An engine of another package: one file and one registration, and the contract suite runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.contracts.engine_suite import EngineSuite
from trials.inference import engines


@pytest.fixture(autouse=True, scope="module")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The metadata that installing such a package leaves."""
    place: Path = tmp_path_factory.mktemp("site-packages")
    metadata = place / "toy_engine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tuner.engines]\ntoy = tests.engines.toy_engine:ENTRY\n")
    sys.path.insert(0, str(place))
    engines.forget_entries()
    yield
    sys.path.remove(str(place))
    engines.forget_entries()


class TestToy(EngineSuite):
    engine = "toy"
    tolerances: ClassVar = {"fp32": 1e-5}


def test_a_plugin_is_a_value_of_the_knob() -> None:
    engine = next(knob for knob in engines.engine_knobs() if knob.name == "engine")
    assert engine.problem("toy") is None
