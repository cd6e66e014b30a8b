from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tuner.cli import cli
from tuner.cli.errors import run_and_exit

SPACE = """\
study: toy
workload:
  kind: command
  run: ["{python}", -c, "print('speed =', {x})"]
  metrics: {patterns: {speed: 'speed = ([0-9.]+)'}}
parameters:
  x: {min: 1, max: 4}
  mode: [fast, "1", 1, true]
  scale: {min: 0.1, max: 10.0, scale: log}
rules: ["not (mode == 'fast' and x > 2)"]
objectives: [{metric: speed, direction: maximize}]
constraints: {speed: {min_relative: 0.5}}
budget: {trials: 6}
confirm: {finalists: 2, repeats: 2}
tracking: {mlflow: null}
"""


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line of an error; fails where there is more, or a traceback."""
        assert self.out == "", self.out
        assert len(self.err.splitlines()) == 1, self.err
        return self.err.strip()


Tuner = Callable[..., Said]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment that says nothing."""
    monkeypatch.chdir(tmp_path)
    for name in ("TUNER_RECORDS", "TUNER_DEBUG", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def tuner(capsys: pytest.CaptureFixture[str]) -> Tuner:
    """The program, in this process."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            run_and_exit(cli, arguments)
        said = capsys.readouterr()
        assert isinstance(ending.value.code, int)
        return Said(ending.value.code, said.out, said.err)

    return run


@pytest.fixture
def space(workplace: Path) -> Path:
    """A small space file, by name."""
    path = workplace / "toy.yaml"
    path.write_text(SPACE)
    return Path("toy.yaml")
