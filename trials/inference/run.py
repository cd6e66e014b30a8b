"""The entry of an inference trial: takes its cores and devices before anything heavy is imported."""

from __future__ import annotations

from trials.context import TrialContext
from trials.contract import FailureKind, Measurement, TrialFailure
from trials.inference.replica import places
from trials.measurement.environment import machine
from trials.workloads.inference import InferenceWorkload


def run(context: TrialContext) -> Measurement:
    """Serve, time and judge the configuration of the spec."""
    spec = context.spec
    config = {name: value for name, value in spec.config.items() if value is not None}
    environment = machine()  # before this process keeps to the cores of its own instance
    where = places(spec, config)
    world = {"cpus": len(environment["cores_held"]), "gpus": len(spec.gpus)}
    problem = InferenceWorkload().rejection(spec.workload, config, world)
    if problem is not None:
        way_out = f"; {problem.way_out}" if problem.way_out else ""
        raise TrialFailure(FailureKind.UNSUPPORTED, f"{problem.message}{way_out}")
    where[0].take()
    from trials.inference.session import Session

    return Session(context, where, environment).measure()
