"""One serving trial in this process, against the stub server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from trials import runner
from trials.context import TrialContext
from trials.contract import Measurement, Purpose, TrialSpec
from trials.serving import generator, report
from trials.workloads import workload

STUB = Path(__file__).with_name("stub_server.py")
START_TIMEOUT = "60 s"  # a busy machine takes long to start an interpreter


def stub_section(folder: Path, options: Sequence[object] = (), **changed: Any) -> dict[str, Any]:
    """A resolved section that starts the stub with these options; ``load`` is laid over a small one."""
    load = {"prompts": ["one two three"], "output_tokens": 4, "requests": 30, "request_timeout": "20 s"}
    load |= changed.pop("load", {"concurrency": 2})
    section: dict[str, Any] = {
        "kind": "serving",
        "server": "custom",
        "launch": [sys.executable, "-S", str(STUB), "--port", "{port}", *map(str, options), "{engine_args}"],
        "health": "/health",
        "api": "openai",
        "start_timeout": START_TIMEOUT,
        "load": load,
        "quality": "none",
    }
    resolved, problems = workload("serving").resolve({**section, **changed}, folder)
    assert problems == []
    return resolved


def stub_spec(folder: Path, section: Mapping[str, Any], **given: Any) -> TrialSpec:
    """A spec of this section; keywords: config, seed, wanted."""
    trial_dir = folder / f"trial-{len(list(folder.iterdir()))}"
    trial_dir.mkdir()
    return TrialSpec(
        study="s",
        trial_number=0,
        measurement_id="m",
        purpose=Purpose.SEARCH,
        workload=section,
        config=given.pop("config", {}),
        seed=given.pop("seed", 0),
        trial_dir=trial_dir,
        cache_dir=folder / "cache",
        **given,
    )


@contextmanager
def patience() -> Iterator[None]:
    """A load generator that is late on a busy machine is no fault of the code under test."""
    with (
        patch.object(report, "LEAST_LAG_MS", 1e9),
        patch.object(report, "SATURATED_CPU_SHARE", 2.0),
        patch.object(generator, "HOPELESS_S", 120.0),
    ):
        yield


def serve(
    folder: Path,
    options: Sequence[object] = (),
    config: Any = None,
    *,
    is_patient: bool = True,
    **changed: Any,
) -> Measurement:
    """Run one trial and hand its measurement back as it comes from a process."""
    with patience() if is_patient else nullcontext():
        return _serve(folder, options, config, **changed)


def _serve(folder: Path, options: Sequence[object], config: Any, **changed: Any) -> Measurement:
    section = stub_section(folder, options, **changed)
    context = TrialContext(stub_spec(folder, section, config=config or {}), time.monotonic())
    try:
        return Measurement.from_json(runner.run(context).to_json())
    finally:
        context.close()
