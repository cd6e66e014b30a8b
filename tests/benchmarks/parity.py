"""Does measuring cost anything? ``tokens_per_s`` of byte_lm as a trial against the same loop written by hand.

    python tests/benchmarks/parity.py --pairs 12 --ray

Each pair runs both arms in fresh processes, in alternating order, so that drift of the machine hits both.
The 95% interval of the paired ratio (trial / by hand) has to lie within 0.98 to 1.02. ``--ray`` keeps a Ray
cluster up meanwhile, as a study does. Needs a quiet machine: the two arms of a pair are seconds apart.
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
import time
from pathlib import Path

from trials.contract import Measurement, Purpose, TrialSpec
from trials.measurement.statistics import deviation, mean, t_quantile
from trials.metrics import Key

TASK = "trials.tasks.byte_lm:ByteLM"
WARMUP_STEPS = 4


def main() -> int:
    """Run the pairs and print the ratio with its interval as JSON."""
    options = _options()
    if options.by_hand:
        print(json.dumps(by_hand(options)))
        return 0
    with _ray() if options.ray else contextlib.nullcontext():
        ratios = [_pair(number, options) for number in range(options.pairs)]
    logs = [math.log(ratio) for ratio in ratios]
    half = t_quantile(len(logs) - 1) * deviation(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(mean(logs) + shift) for shift in (-half, 0.0, half))
    print(json.dumps({"ratio": middle, "low": low, "high": high, "pairs": len(ratios), "ratios": ratios}))
    return 0 if low >= 0.98 and high <= 1.02 else 1


def by_hand(options: argparse.Namespace) -> float:
    """Tokens per second of the plain loop that a user would write."""
    import torch

    from trials.tasks.byte_lm import ByteLM

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    task = ByteLM(width=options.width)
    model = task.model()
    data = task.train_data()
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=task.weight_decay)
    order = torch.randperm(len(data))
    for step in range(options.steps):
        if step == WARMUP_STEPS:
            begin = time.perf_counter()
        batch = data[order[step * options.batch : (step + 1) * options.batch]]
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = task.loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    steps = options.steps - WARMUP_STEPS
    return steps * options.batch * task.tokens_per_sample / (time.perf_counter() - begin)


def as_trial(options: argparse.Namespace) -> float:
    """Tokens per second as a trial measures them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload = {"kind": "training", "task": TASK, "train_for": {"steps": options.steps}, "evaluate_on": 8}
        config = {
            "precision": options.precision,
            "micro_batch_size": options.batch,
            "threads": options.threads,
            "task.width": options.width,
        }
        spec = TrialSpec("parity", 0, "m", Purpose.SEARCH, workload, config, 0, folder, folder / "cache")
        (folder / "spec.json").write_text(spec.to_json())
        subprocess.run([sys.executable, "-m", "trials", str(folder / "spec.json")], check=True)
        found = Measurement.from_json((folder / "result.json").read_text())
        return found.metrics[Key.TOKENS_PER_S].value


def _pair(number: int, options: argparse.Namespace) -> float:
    """One ratio; the arm that goes first alternates."""
    arms = {"trial": as_trial, "by hand": _by_hand_elsewhere}
    found = {
        name: arms[name](options) for name in (sorted(arms) if number % 2 else sorted(arms, reverse=True))
    }
    ratio = found["trial"] / found["by hand"]
    print(f"pair {number + 1}: {found}, ratio {ratio:.4f}", file=sys.stderr)
    return ratio


def _by_hand_elsewhere(options: argparse.Namespace) -> float:
    arguments = [
        f"--{key}={getattr(options, key)}" for key in ("precision", "batch", "threads", "width", "steps")
    ]
    command = [sys.executable, __file__, "--by-hand", *arguments]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


@contextlib.contextmanager
def _ray():
    import ray

    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--ray", action="store_true", help="keep a Ray cluster up in both arms")
    parser.add_argument("--by-hand", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
