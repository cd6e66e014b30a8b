"""One training trial from start to end, in the order in which things happen."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from typing import Any

from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, TrialFailure
from trials.training.batch_plan import BatchPlan, BatchProblem
from trials.training.world import show_devices


def run(context: TrialContext) -> Measurement:
    """Train, time and evaluate the configuration of the spec; every problem is a TrialFailure or a torch error."""
    config = {**_DEFAULTS, **{key: value for key, value in context.spec.config.items() if value is not None}}
    try:
        plan = BatchPlan.of(config)
    except BatchProblem as problem:
        raise TrialFailure(FailureKind.UNSUPPORTED, f"{problem.message}; {problem.way_out}") from problem
    show_devices(context.spec)
    begin = time.monotonic()
    import torch

    startup = {"import_torch_s": time.monotonic() - begin}
    torch.set_num_threads(int(config.get("threads") or len(os.sched_getaffinity(0))))
    if config["compile"] is False:
        from trials.training.lean_start import defer_compiler

        defer_compiler()
    from trials.training.session import Session

    try:
        return Session(context, config, plan, startup).measure()
    except TrialFailure:
        raise
    except Exception as error:
        raise _named(error, str(context.spec.workload["task"])) from error


def _named(error: Exception, target: str) -> Exception:
    """The error as a typed failure that names the task's own method, where it came through one.

    Errors of memory keep their type, which says more than where they struck.
    """
    place = target.rpartition(":")[0].replace(".", "/").removesuffix("/py")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.removesuffix(".py").endswith(place)]
    if not frames or any(base.__name__ in ("OutOfMemoryError", "MemoryError") for base in type(error).__mro__):
        return error
    return TrialFailure(FailureKind.CRASH, "")


def _defaults() -> Mapping[str, Any]:
    from trials.workloads.training import TrainingWorkload

    return {name: knob.default for name, knob in TrainingWorkload().knobs({}).items()}


_DEFAULTS = _defaults()
