"""Runs a spec: finds the workload by name, turns whatever happens into a typed result, writes it atomically."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from trials.context import TrialContext
from trials.contract import (
    RESULT_FILE,
    FailureKind,
    Measurement,
    Outcome,
    TrialFailure,
    TrialSpec,
    write_atomically,
)

EXIT_COMPLETE, EXIT_FAILED, EXIT_BAD_SPEC = 0, 1, 2


Runner = Callable[[TrialContext], Measurement]


def main(arguments: list[str], started_at: float, runner: Runner | None = None) -> int:
    """Run the spec named by the only argument; returns the exit status.

    ``runner`` does something else with the spec than its workload would: builds its artifact, for example.
    """
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print("usage: python -m trials spec.json", file=sys.stderr)
        return EXIT_BAD_SPEC
    try:
        spec = TrialSpec.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        print(f"{arguments[0]}: not a trial spec: {problem}", file=sys.stderr)
        return EXIT_BAD_SPEC
    if spec.cpus:
        _pin(spec.cpus)
    context = TrialContext(spec, started_at)
    measurement = run(context, runner)
    write_atomically(spec.trial_dir / RESULT_FILE, measurement.to_json())
    context.close()
    if measurement.outcome is Outcome.FAILED:
        print(f"{measurement.failure_kind}: {measurement.message}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_COMPLETE


def run(context: TrialContext, runner: Runner | None = None) -> Measurement:
    """Run the workload of the spec in this process; every exception becomes a typed failure."""
    from trials.workloads import load_runner

    try:
        measurement = (runner or load_runner(context.spec.kind))(context)
    except TrialFailure as failure:
        measurement = Measurement.failed(failure.kind, failure.message)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything; it ends as a typed outcome
        traceback.print_exc()
        measurement = Measurement.failed(kind_of(error), f"{type(error).__name__}: {error}".strip()[:2000])
    context.phases["total_s"] = time.monotonic() - context.started_at
    return dataclasses.replace(
        measurement,
        phases={**context.phases, **measurement.phases},
        warnings=(*context.warnings, *measurement.warnings),
    )


def kind_of(error: Exception) -> FailureKind:
    """Classified by type, never by searching a message for a word; torch is not imported to ask."""
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"OutOfMemoryError", "MemoryError"}:
        return FailureKind.OUT_OF_MEMORY
    if names & {"NotImplementedError", "ModuleNotFoundError"}:
        return FailureKind.UNSUPPORTED
    return FailureKind.CRASH


def _pin(cpus: tuple[int, ...]) -> None:
    allowed = set(cpus) & os.sched_getaffinity(0)
    if allowed:
        os.sched_setaffinity(0, allowed)
