"""Does measuring cost anything? ``tokens_per_s`` of byte_lm as a trial against the same loop written by hand.

    python tests/benchmarks/parity.py --pairs 12 --ray
    python tests/benchmarks/parity.py --pairs 12 --ray --form ddp       # two processes, by hand under torchrun
    python tests/benchmarks/parity.py --pairs 12 --ray --form fsdp2

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
RANKS = 2
FORMS = {
    "single": {},
    "ddp": {"data_parallel_degree": RANKS},
    "fsdp2": {"data_parallel_degree": RANKS, "zero_stage": 3},
}


def main() -> int:
    """Run the pairs and print the ratio with its interval as JSON."""
    options = _options()
    if options.by_hand:
        rate = by_hand(options)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(rate), flush=True)
        return 0
    with _ray() if options.ray else contextlib.nullcontext():
        ratios = [_pair(number, options) for number in range(options.pairs)]
    logs = [math.log(ratio) for ratio in ratios]
    half = t_quantile(len(logs) - 1) * deviation(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(mean(logs) + shift) for shift in (-half, 0.0, half))
    print(json.dumps({"ratio": middle, "low": low, "high": high, "pairs": len(ratios), "ratios": ratios}))
    return 0 if low >= 0.98 and high <= 1.02 else 1


def by_hand(options: argparse.Namespace) -> float:
    """Tokens per second of the plain loop that a user would write; of all processes together."""
    import torch

    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[rank * len(cores) // ranks : (rank + 1) * len(cores) // ranks])
        torch.distributed.init_process_group("gloo")

    from trials.tasks.byte_lm import ByteLM

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    task = ByteLM(width=options.width)
    model = _formed(task.model(), options.form)
    data = task.train_data()
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=task.weight_decay)
    order = torch.randperm(len(data))
    for step in range(options.steps):
        if step == WARMUP_STEPS:
            begin = time.perf_counter()
        begin_at = (step * ranks + rank) * options.batch
        batch = data[order[begin_at : begin_at + options.batch]]
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = task.loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    steps = options.steps - WARMUP_STEPS
    tokens = steps * options.batch * ranks * task.tokens_per_sample
    return tokens / (time.perf_counter() - begin)


def _formed(model, form: str):
    """The model as its form wants it, in the way of PyTorch's own tutorials."""
    if form == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    if form == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return model


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
            **FORMS[options.form],
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
    launcher = [sys.executable]
    if options.form != "single":
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    command = [*launcher, __file__, "--by-hand", f"--form={options.form}", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(json.loads(done.stdout))


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
    parser.add_argument("--batch", type=int, default=16, help="samples of one process")
    parser.add_argument("--form", choices=FORMS, default="single")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, help="of each process; default: its share of the cores")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--ray", action="store_true", help="keep a Ray cluster up in both arms")
    parser.add_argument("--by-hand", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    ranks = 1 if options.form == "single" else RANKS
    options.threads = options.threads or max(1, len(os.sched_getaffinity(0)) // ranks)
    return options


if __name__ == "__main__":
    sys.exit(main())
