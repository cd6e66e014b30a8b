"""One run of the command workload in this process, with real programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trials.context import TrialContext
from trials.contract import Measurement, Purpose, TrialSpec
from trials.runner import run
from trials.workloads.command import CommandWorkload

MakeSpec = Callable[..., TrialSpec]
RunCommand = Callable[..., Measurement]


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    """A spec for a section of the space file in ``tmp_path``; keywords: config, parameters, wanted, seed."""

    def make(section: dict[str, Any], **given: Any) -> TrialSpec:
        resolved, problems = CommandWorkload().resolve({"kind": "command", **section}, tmp_path)
        assert problems == []
        trial_dir = tmp_path / "trial"
        trial_dir.mkdir(exist_ok=True)
        config = given.pop("config", {})
        return TrialSpec(
            study="s",
            trial_number=0,
            measurement_id="m",
            purpose=Purpose.SEARCH,
            workload=resolved,
            config={name: value for name, value in config.items() if value is not None},
            seed=given.pop("seed", 0),
            trial_dir=trial_dir,
            cache_dir=tmp_path / "cache",
            parameters=tuple(config),
            **given,
        )

    return make


@pytest.fixture
def run_command(make_spec: MakeSpec) -> RunCommand:
    """Run a section in this process and hand back its measurement."""

    def run_it(section: dict[str, Any], **given: Any) -> Measurement:
        context = TrialContext(make_spec(section, **given), time.monotonic())
        try:
            return run(context)
        finally:
            context.close()

    return run_it
