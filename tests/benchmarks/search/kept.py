"""Results of finished runs on disk, a line of JSON each, so that an interrupted comparison goes on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.benchmarks.search.arms import ARMS
from tests.benchmarks.search.replay import FORMAT, Run
from tests.benchmarks.search.tables import Benchmark

_SOURCES = Path(__file__).parents[3] / "tuner" / "search"


class Kept:
    """Runs by (benchmark, arm, seed), of this version of the arm's sources, the table and the entry."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self._separator = "" if text.endswith("\n") or not text else "\n"  # the last line was cut off
        self._runs: dict[str, Run] = {}
        for line in text.splitlines():
            entry = _parsed(line)
            if entry is not None:
                self._runs[entry["key"]] = entry["run"]

    def get(self, benchmark: Benchmark, arm: str, seed: int) -> Run | None:
        """The run, None where there is none."""
        return self._runs.get(_key(benchmark, arm, seed))

    def add(self, benchmark: Benchmark, arm: str, seed: int, run: Run) -> None:
        """Write a run down at once."""
        key = _key(benchmark, arm, seed)
        self._runs[key] = run
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(self._separator + json.dumps({"key": key, "run": run}) + "\n")
        self._separator = ""


def _parsed(line: str) -> dict[str, Any] | None:
    """None for a line that was cut off."""
    try:
        entry: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return entry


def _key(benchmark: Benchmark, arm: str, seed: int) -> str:
    return f"{benchmark.name}|{arm}|{seed}|{benchmark.digest}|{_version(arm)}"


_versions: dict[str, str] = {}


def _version(arm: str) -> str:
    if arm not in _versions:
        files = [path for name in ARMS[arm].sources for path in sorted(_SOURCES.glob(name))]
        content = b"".join(path.read_bytes() for path in files)
        _versions[arm] = f"{FORMAT}-{hashlib.sha256(content).hexdigest()[:12]}"
    return _versions[arm]
