"""The entry of a training trial: fixes what must be fixed before PyTorch is used, and names what went
wrong.
"""

from __future__ import annotations

import os
import time
import traceback
from typing import Any

from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, TrialFailure
from trials.training.batch_plan import BatchPlan, BatchProblem
from trials.training.layout import Layout
from trials.training.task_source import TaskProblem, locate, split_target
from trials.training.world import STARTED_AT, follow_launcher, is_rank, show_devices
from trials.workloads.training import TrainingWorkload

_TELLING_TYPES = {"OutOfMemoryError", "MemoryError", "NotImplementedError", "ModuleNotFoundError"}
"""Errors whose type decides the kind of failure, wherever they were raised."""


def run(context: TrialContext) -> Measurement:
    """Train, time and evaluate the configuration of the spec; where it asks for several processes, in these."""
    given = {name: value for name, value in context.spec.config.items() if value is not None}
    config = {**{knob.name: knob.default for knob in TrainingWorkload().knobs({}).values()}, **given}
    plan = _checked_plan(context, given)
    layout = Layout.of(given)
    if layout.world_size > 1 and not is_rank():
        from trials.training.parallel.launch import launch

        return launch(context, layout)
    if is_rank():
        follow_launcher()
    context.started_at = float(os.environ.get(STARTED_AT, context.started_at))
    show_devices(context.spec)
    begin = time.monotonic()
    import torch

    import_torch_s = time.monotonic() - begin
    torch.set_num_threads(int(config["threads"] or len(os.sched_getaffinity(0))))
    if config["compile"] is False:
        from trials.training.lean_start import defer_compiler

        defer_compiler()
    from trials.training.session import Session

    try:
        return Session(context, config, plan, import_torch_s).measure()
    except Exception as error:
        raise _named(error, str(context.spec.workload["task"])) from error


def _checked_plan(context: TrialContext, given: dict[str, Any]) -> BatchPlan:
    """The batch sizes; TrialFailure where they or the degrees are such as no check would have let through."""
    workload, spec = TrainingWorkload(), context.spec
    try:
        plan = BatchPlan.of(given)
    except BatchProblem as problem:
        raise TrialFailure(FailureKind.UNSUPPORTED, f"{problem.message}; {problem.way_out}") from problem
    refused = workload.layout_rejection(spec.workload, given, {"gpus": len(spec.gpus)})
    if refused:
        raise TrialFailure(FailureKind.UNSUPPORTED, f"{refused.message}; {refused.way_out}")
    return plan


def _named(error: Exception, target: str) -> Exception:
    """A failure that names the task's own method, where the error came through one; else the error itself."""
    if isinstance(error, TrialFailure) or _TELLING_TYPES & {base.__name__ for base in type(error).__mro__}:
        return error
    try:
        place, name = split_target(target)
        file = str(locate(place))
    except TaskProblem:
        return error
    frame = next((f for f in traceback.extract_tb(error.__traceback__) if f.filename == file), None)
    if frame is None:
        return error
    traceback.print_exception(error)
    where = f"{name}.{frame.name} ({os.path.basename(file)}:{frame.lineno})"  # noqa: PTH119 - a text, not a path
    return TrialFailure(FailureKind.CRASH, f"{where}: {type(error).__name__}: {error}"[:2000])
