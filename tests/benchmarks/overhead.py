"""What a trial costs beyond its own work: ``tuner run`` against plain Ray Tune, the same program in both.

    python tests/benchmarks/overhead.py [--trials 30] [--rounds 2]

Both arms run a program that only writes down when it ran; the time from one such moment to the next, less
what the program takes by itself, is the overhead of a trial. It contains everything: asking, starting,
isolation, records and (in our arm) MLflow. Ray is up in both, since only the time between trials counts. The
arms alternate; the first trials of each run are left out. Plain Ray Tune: ``OptunaSearch`` and a function
trainable that starts the program with ``subprocess.run``. The target is a ratio of at most 0.15.
Exit status 0: met, 1: not met.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TARGET_RATIO = 0.15
SKIPPED_TRIALS = 5  # the cold ones
SPACE = """\
study: overhead-{round}
workload:
  kind: command
  run: [sh, -c, 'date +%s.%N >> {stamps}']
parameters:
  x: {{min: 0.0, max: 1.0}}
  y: [a, b, c]
baseline: {{x: 0.5, y: a}}
objectives: [wall_time_s, peak_rss_gib]
budget: {{trials: {trials}, trial_timeout: 60 s}}
confirm: {{finalists: 0, baseline_repeats: 1}}
search: {{sampler: {sampler}}}
resources: {{cpus: 1}}
tracking: {{mlflow: "sqlite:///{folder}/mlflow.db"}}
"""


def run_ours(folder: Path, stamps: Path, round_number: int, trials: int, sampler: str) -> None:
    """``tuner run`` on a generated space, MLflow on."""
    space = folder / "noop.yaml"
    space.write_text(
        SPACE.format(round=round_number, stamps=stamps, trials=trials, folder=folder, sampler=sampler)
    )
    program = [sys.executable, "-c", "from tuner.cli import main; main()"]
    records = f"sqlite:///{folder}/tuner.db"
    subprocess.run([*program, "run", str(space), "--records", records], cwd=folder, check=True)


def run_plain(folder: Path, stamps: Path, round_number: int, trials: int, sampler: str) -> None:
    """Plain Ray Tune, in a process of its own."""
    del round_number, sampler  # one fresh study with the stock sampler each time
    subprocess.run(
        [sys.executable, __file__, "--plain", str(stamps), "--trials", str(trials)], cwd=folder, check=True
    )


def plain_ray_tune(stamps: str, trials: int) -> None:
    """The other arm's process: what one writes without ``tuner``."""
    import ray
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    def trainable(config: dict[str, object]) -> None:
        del config
        begin = time.perf_counter()
        subprocess.run(["sh", "-c", f"date +%s.%N >> {stamps}"], check=True)
        tune.report({"wall_time_s": time.perf_counter() - begin})

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space={"x": tune.uniform(0.0, 1.0), "y": tune.choice(["a", "b", "c"])},
        tune_config=tune.TuneConfig(
            search_alg=OptunaSearch(metric="wall_time_s", mode="min", seed=0),
            num_samples=trials,
            max_concurrent_trials=1,
        ),
        run_config=tune.RunConfig(storage_path=str(Path.cwd() / "ray"), verbose=0),
    ).fit()
    ray.shutdown()


def periods_s(stamps: Path) -> list[float]:
    """Seconds from each trial's moment to the next one's."""
    moments = [float(line) for line in stamps.read_text(encoding="ascii").split()]
    return [after - before for before, after in itertools.pairwise(moments)][SKIPPED_TRIALS:]


def own_time_s(folder: Path) -> float:
    """What the program takes by itself: median of 20."""
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        subprocess.run(["sh", "-c", f"date +%s.%N >> {folder}/own"], check=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(trials: int, rounds: int, sampler: str, folder: Path) -> dict[str, float]:
    """Both arms in turn; overheads are medians over all rounds, in milliseconds."""
    arms: dict[str, Callable[[Path, Path, int, int, str], None]] = {"tuner": run_ours, "plain": run_plain}
    periods: dict[str, list[float]] = {name: [] for name in arms}
    for round_number in range(rounds):
        for name, run in arms.items():
            stamps = folder / f"{name}-{round_number}.stamps"
            run(folder, stamps, round_number, trials, sampler)
            periods[name] += periods_s(stamps)
    own_s = own_time_s(folder)
    overhead = {name: statistics.median(found) - own_s for name, found in periods.items()}
    return {
        "own_ms": own_s * 1e3,
        **{f"{name}_p50_ms": value * 1e3 for name, value in overhead.items()},
        **{f"{name}_p95_ms": (statistics.quantiles(periods[name], n=20)[-1] - own_s) * 1e3 for name in arms},
        **{f"{name}_n": len(periods[name]) for name in arms},
        "ratio": overhead["tuner"] / overhead["plain"],
    }


def main() -> int:
    """Measure, print, and say whether the target is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sampler", default="auto", help="of our arm")
    parser.add_argument("--plain", metavar="STAMPS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # both arms: nothing is reported over the network
    if given.plain:
        plain_ray_tune(given.plain, given.trials)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.trials, given.rounds, given.sampler, Path(folder))
    print(json.dumps({key: round(value, 4) for key, value in found.items()}))
    verdict = "met" if found["ratio"] <= TARGET_RATIO else "not met"
    print(f"overhead of a trial: {found['ratio']:.3f} of plain Ray Tune's (target {TARGET_RATIO}: {verdict})")
    return 0 if found["ratio"] <= TARGET_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
