"""Time and memory of a sampler's ask plus tell as the history grows.

    python tests/benchmarks/ask_tell.py --samplers auto tpe --at 100 1000 10000

At each size the history is told at once (as on resuming), then 20 trials are asked for and told, and the
first ask, the median and the 95th percentile of the others are printed, by the clock and in CPU time (which a busy
machine does not stretch). One process a sampler, so that the
peak of memory is its own.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from trials.contract import FailureKind, Outcome
from trials.metrics import Direction
from tuner.objectives import Objective
from tuner.search.protocol import Observation, Sampler, SearchProblem
from tuner.search.registry import build_sampler
from tuner.space.domains import Choice, Choices, Range
from tuner.space.space import Config, Parameter, Space, config_key

OBJECTIVES = (Objective("tokens_per_s", Direction.MAXIMIZE), Objective("val_loss_nats", Direction.MINIMIZE))
ASKS = 20


def searched() -> Space:
    """Eight parameters as of a training study, 48,600 configurations."""
    domains: dict[str, Choices | Range] = {
        "precision": _choices("fp32", "bf16", "fp16"),
        "micro_batch_size": Range(1, 256, None, "log2", True),
        "checkpointing": _choices("none", "selective", "full"),
        "compile": _choices(False, True),
        "workers": Range(0, 4, None, "linear", True),
        "prefetch": Range(1, 5, None, "linear", True),
        "offload": _choices("none", "cpu"),
        "learning_rate": _choices(1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3),
    }
    return Space(tuple(Parameter(name, domain, None, None, 1) for name, domain in domains.items()))


def _choices(*values: object) -> Choices:
    return Choices(tuple(Choice(value, value) for value in values))


def outcome(number: int, config: Config) -> Observation:
    """A made-up result; one configuration in eight fails."""
    rng = np.random.default_rng(int.from_bytes(config_key(config).encode(), "little") % 2**32)
    if rng.random() < 1 / 8:
        return Observation(number, config, Outcome.FAILED, FailureKind.OUT_OF_MEMORY, cost_s=5.0)
    speed = (
        config["micro_batch_size"] ** 0.5
        * (2 if config["precision"] != "fp32" else 1)
        * rng.uniform(0.9, 1.1)
    )
    loss = 1 + abs(np.log10(config["learning_rate"]) + 3) + 0.001 * config["micro_batch_size"]
    return Observation(
        number, config, Outcome.COMPLETE, values=(float(speed), float(loss)), violations=(speed - 30,)
    )


def history(space: Space, size: int) -> list[Observation]:
    """Distinct configurations and their results."""
    rng = np.random.default_rng(1)
    found: dict[str, Config] = {}
    while len(found) < size:
        config = {p.name: _drawn(p, rng) for p in space.parameters}
        found.setdefault(config_key(config), config)
    return [outcome(number, config) for number, config in enumerate(found.values())]


def _drawn(parameter: Parameter, rng: np.random.Generator) -> object:
    assert isinstance(parameter.domain, Choices | Range)
    values = list(parameter.domain.values())
    return values[int(rng.integers(len(values)))]


def measure(name: str, size: int) -> None:
    """One line: sampler, size, milliseconds, peak memory."""
    space = searched()
    sampler: Sampler = build_sampler(name, SearchProblem(space, OBJECTIVES, 0, 2 * size + ASKS))
    for observation in history(space, size):
        sampler.tell(observation)
    spent_ms, cpu_ms = [], []
    for number in range(size, size + ASKS + 1):
        started, cpu_started = time.perf_counter(), time.process_time()
        proposal = sampler.ask(number, [])
        assert proposal is not None
        sampler.tell(outcome(number, proposal.config))
        spent_ms.append(1000 * (time.perf_counter() - started))
        cpu_ms.append(1000 * (time.process_time() - cpu_started))
    first, rest, cpu = spent_ms[0], sorted(spent_ms[1:]), sorted(cpu_ms[1:])
    p95, cpu_p95 = (column[int(0.95 * (len(column) - 1))] for column in (rest, cpu))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {name} | {size} | {first:.0f} | {statistics.median(rest):.0f} | {p95:.0f} "
        f"| {statistics.median(cpu):.0f} | {cpu_p95:.0f} | {peak_mib:.0f} |",
        flush=True,
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samplers", nargs="+", default=["auto", "tpe"])
    parser.add_argument("--at", nargs="+", type=int, default=[100, 1_000, 10_000])
    parser.add_argument("--one", action="store_true", help="measure in this process")
    given = parser.parse_args()
    if given.one:
        measure(given.samplers[0], given.at[0])
        return
    print(
        "| sampler | trials told | first ask ms | p50 ms | p95 ms | CPU p50 ms | CPU p95 ms | peak RSS MiB |"
    )
    print("|---" * 8 + "|", flush=True)
    for name in given.samplers:
        for size in given.at:
            subprocess.run(
                [sys.executable, __file__, "--one", "--samplers", name, "--at", str(size)], check=True
            )


if __name__ == "__main__":
    main()
