"""Does measuring cost anything? byte_lm as a trial against the same loop written by hand.

    python -m tests.benchmarks.parity --runs 12 --ray

Both arms run at the same time in fresh processes and take turns every few steps (``paced_byte_lm.py``), so
that a pair of turns is a second or two apart and drift of the machine cancels. ``ratio`` is the time of a turn
by hand over the time of the trial's next to it, first the mean within a run, then over the runs: its 95%
interval has to lie within 0.98 to 1.02. ``clock`` is what a trial without turns reports as ``tokens_per_s``
over what the clock of its task says of the same steps. ``--ray`` keeps a Ray cluster up meanwhile, as a study
does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.paced_byte_lm import PacedByteLM
from trials.contract import Measurement, Purpose, TrialSpec
from trials.measurement.statistics import deviation, mean, t_quantile
from trials.metrics import Key

DROPPED_TURNS = 2  # caches are cold and allocators grow then


def main() -> int:
    """Run the pairs and print the ratio with its interval as JSON."""
    options = _options()
    if options.by_hand:
        by_hand(options, json.loads(options.by_hand))
        return 0
    with _ray() if options.ray else contextlib.nullcontext():
        clock = mean([_clock_ratio(options) for _ in range(3)])
        logs = [_run(number, options) for number in range(options.runs)]
    half = t_quantile(len(logs) - 1) * deviation(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(mean(logs) + shift) for shift in (-half, 0.0, half))
    found = {"ratio": middle, "low": low, "high": high, "runs": len(logs), "clock": clock}
    print(json.dumps(found | {"ratios": [math.exp(log) for log in logs]}))
    return 0 if low >= 0.98 and high <= 1.02 else 1


def by_hand(options: argparse.Namespace, task_arguments: dict[str, object]) -> None:
    """The plain loop that a user would write."""
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    task = PacedByteLM(width=options.width, **task_arguments)
    model = task.model()
    data = task.train_data()
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=task.weight_decay)
    order = torch.randperm(len(data))
    for step in range(options.steps):
        batch = data[order[step * options.batch : (step + 1) * options.batch]]
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = task.loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def _run(number: int, options: argparse.Namespace) -> float:
    """The mean log ratio of one pair of processes; the arm that has the first turn alternates."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pipes = {arm: folder / f"{arm}.pipe" for arm in ("trial", "hand")}
        for pipe in pipes.values():
            os.mkfifo(pipe)
        first, second = ("trial", "hand") if number % 2 else ("hand", "trial")
        keep = os.open(pipes[first], os.O_RDWR)
        os.write(keep, b".")
        arms = {
            arm: _start(arm, folder, options, {"mine": str(pipes[arm]), "other": str(pipes[other])})
            for arm, other in ((first, second), (second, first))
        }
        _wait(arms, pipes)
        os.close(keep)
        turns = {arm: json.loads((folder / f"{arm}.clock").read_text()) for arm in arms}
    pairs = list(zip(turns["hand"], turns["trial"], strict=False))[DROPPED_TURNS:]
    log = mean([math.log(by_hand_s / trial_s) for by_hand_s, trial_s in pairs])
    print(f"run {number + 1}: {len(pairs)} pairs of turns, ratio {math.exp(log):.4f}", file=sys.stderr)
    return log


def _wait(arms: dict[str, subprocess.Popen[bytes]], pipes: dict[str, Path]) -> None:
    """Until both have ended; who outlives the other has every turn from then on."""
    waiting = dict(arms)
    while waiting:
        for arm, process in list(waiting.items()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                if process.wait(timeout=0.5):
                    raise SystemExit(f"the arm {arm!r} ended with {process.returncode}")
                del waiting[arm]
                for other in waiting:
                    os.write(os.open(pipes[other], os.O_RDWR), b"." * 1000)


def _clock_ratio(options: argparse.Namespace) -> float:
    """Reported tokens per second over those by the task's own clock, for the steps that were reported."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _wait({"trial": _start("trial", folder, options, {})}, {})
        found = Measurement.from_json((folder / "result.json").read_text()).metrics[Key.TOKENS_PER_S]
        calls = json.loads((folder / "trial.clock").read_text())[: options.steps]
    assert found.n is not None
    seconds = calls[-1] - calls[-1 - found.n]
    tokens = options.batch * PacedByteLM(clock=os.devnull).tokens_per_sample
    return found.value * seconds / (found.n * tokens)


def _start(
    arm: str, folder: Path, options: argparse.Namespace, pipes: dict[str, str]
) -> subprocess.Popen[bytes]:
    task_arguments = pipes | {"clock": str(folder / f"{arm}.clock")}
    if arm == "hand":
        keys = ("precision", "batch", "threads", "width", "steps")
        arguments = [f"--{key}={getattr(options, key)}" for key in keys]
        module = ["-m", "tests.benchmarks.parity"]
        return subprocess.Popen(
            [sys.executable, *module, *arguments, "--by-hand", json.dumps(task_arguments)]
        )
    task = f"{Path(__file__).with_name('paced_byte_lm.py')}:PacedByteLM"
    workload = {"kind": "training", "task": task, "train_for": {"steps": options.steps}, "evaluate_on": 8}
    config = {
        "precision": options.precision,
        "micro_batch_size": options.batch,
        "threads": options.threads,
        "task.width": options.width,
    } | {f"task.{key}": value for key, value in task_arguments.items()}
    spec = TrialSpec("parity", 0, "m", Purpose.SEARCH, workload, config, 0, folder, folder / "cache")
    (folder / "spec.json").write_text(spec.to_json())
    return subprocess.Popen([sys.executable, "-m", "trials", str(folder / "spec.json")])


@contextlib.contextmanager
def _ray() -> Iterator[None]:
    import ray

    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=136)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--ray", action="store_true", help="keep a Ray cluster up in both arms")
    parser.add_argument("--by-hand", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
