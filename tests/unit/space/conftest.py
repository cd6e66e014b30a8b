from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.unit.space.toy import KINDS
from tuner.space import SpaceError, StudyFile, load_study_file
from tuner.space import file as space_file

Load = Callable[..., StudyFile]
Refuse = Callable[..., str]

WORKLOAD = "workload: {kind: toy}\n"
GOALS = "objectives: [tokens_per_s, val_loss_nats]\n"


@pytest.fixture(autouse=True)
def _toy_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_file, "workload", lambda kind: KINDS[kind]())
    monkeypatch.setattr(space_file, "workload_names", lambda: sorted(KINDS))


def completed(text: str) -> str:
    """A whole file: what a test does not say about workload, parameters and objectives is filled in below."""
    for key, line in (
        ("workload", WORKLOAD),
        ("parameters", "parameters: {precision: [fp32, bf16]}\n"),
        ("objectives", GOALS),
    ):
        if f"\n{key}:" not in f"\n{text}":
            text = f"{text.rstrip()}\n{line}"
    return text.lstrip()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(
        text: str, overrides: Mapping[str, str] | None = None, *, cpus: int = 4, gpus: int = 0
    ) -> StudyFile:
        path = tmp_path / "space.yaml"
        path.write_text(completed(text), encoding="utf-8")
        return load_study_file(path, overrides or {}, cpus=cpus, gpus=gpus)

    return load


@pytest.fixture
def refuse(load: Load, tmp_path: Path) -> Refuse:
    """The problems of a file, one a line, paths without their folder."""

    def refuse(text: str, overrides: Mapping[str, str] | None = None, **world: int) -> str:
        with pytest.raises(SpaceError) as caught:
            load(text, overrides, **world)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return refuse
