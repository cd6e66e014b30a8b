from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.study.bench import Bench, Clock
from tuner.records import codec

_MEMORY = Path("/dev/shm")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench whose records are dated by its fake clock, in memory where that can be had: nothing is lost by
    a real power cut here, and a study waits for the disk a hundred times.
    """
    clock = Clock()
    monkeypatch.setattr(codec, "now_text", clock.as_text)
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Bench(Path(folder), clock)
