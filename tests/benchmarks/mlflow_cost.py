"""What MLflow costs a study: the same study with it on and off, in turn.

    python -m tests.benchmarks.mlflow_cost [--trials 20] [--rounds 4] [--seconds 1]

Each trial computes for about so many seconds on the one core that it holds; the whole ``tuner run`` is timed, from its
start to its end: MLflow's own start, its runs and the pictures at the end are all in it. The order within a round
alternates. Exit status 0: the median ratio of the rounds meets the target, 1: it does not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

TARGET_RATIO = 1.05
ARMS = ("off", "on")
PROGRAM = (sys.executable, "-c", "from tuner.cli import main; main()")
WORK = "n = {turns} + {x}\nwhile n: n -= 1\nprint('speed =', {x}, 'cost =', 1000 - {x})"


def turns_of(seconds: float) -> int:
    """How many turns of the trial's loop take so long here."""
    turns = 2_000_000
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"n = {turns}\nwhile n: n -= 1"], check=True)
    return int(turns * seconds / (time.perf_counter() - begin))


def write_space(folder: Path, trials: int, turns: int) -> None:
    """A study of ``trials`` trials with two objectives, one finalist confirmed twice."""
    goals = [{"metric": "speed", "direction": "maximize"}, {"metric": "cost", "direction": "minimize"}]
    patterns = {name: rf"{name} = ([0-9.]+)" for name in ("speed", "cost")}
    space = {
        "study": "cost",
        "workload": {
            "kind": "command",
            "run": ["{python}", "-c", WORK.replace("{turns}", str(turns))],
            "metrics": {"patterns": patterns},
        },
        "parameters": {"x": {"min": 1, "max": 999}},
        "objectives": goals,
        "budget": {"trials": trials},
        "confirm": {"finalists": 1, "repeats": 2, "baseline_repeats": 2},
        "search": {"sampler": "random"},
        "resources": {"cpus": 1},
    }
    (folder / "space.yaml").write_text(yaml.safe_dump(space, sort_keys=False))


def study_s(arm: str, trials: int, turns: int) -> tuple[float, int]:
    """Seconds of one study in a folder of its own, and how many times something ran in it."""
    with tempfile.TemporaryDirectory(prefix="mlflow-cost-") as name:
        folder = Path(name)
        write_space(folder, trials, turns)
        begin = time.perf_counter()
        subprocess.run(
            [*PROGRAM, "run", "space.yaml", *(["--no-mlflow"] if arm == "off" else [])],
            cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        took_s = time.perf_counter() - begin
        assert (folder / "mlflow.db").exists() == (arm == "on"), "MLflow was not as this arm wants it"
        return took_s, sum(1 for _ in folder.glob("tuner-trials/*/g*/[0-9]*"))


def measure(trials: int, rounds: int, seconds: float) -> dict[str, object]:
    """All rounds; a ratio is taken within a round and per run, since a disturbed run is taken twice."""
    turns = turns_of(seconds)
    per_run: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        for arm in ARMS if number % 2 else reversed(ARMS):
            took_s, ran = study_s(arm, trials, turns)
            per_run[arm].append(took_s / ran)
            print(f"round {number}, MLflow {arm}: {took_s:.1f} s for {ran} runs", file=sys.stderr, flush=True)
    ratios = [on / off for on, off in zip(per_run["on"], per_run["off"], strict=True)]
    return {
        **{f"{arm}_s_per_run": [round(value, 4) for value in per_run[arm]] for arm in ARMS},
        "ratios": [round(ratio, 4) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 4),
    }


def main() -> int:
    """Measure, print, and say whether the target is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one trial's work")
    given = parser.parse_args()
    found = measure(given.trials, given.rounds, given.seconds)
    print(json.dumps(found))
    is_met = float(str(found["ratio"])) <= TARGET_RATIO
    print(
        f"study with MLflow on: {found['ratio']} of off (target {TARGET_RATIO}: {'met' if is_met else 'not met'})"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
