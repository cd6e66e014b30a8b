"""What showing and resuming a study cost as it grows: python -m tests.benchmarks.study_scale [--sizes 200 2000 10000]

Made-up studies of a command, as large as a training trial's in every measurement. Of each verb the CPU seconds of its
own process, start included (Ray's processes and the trial are not in it), and its peak of memory. ``resume`` is
``tuner run --more 1``: read the records, rebuild the sampler, measure one trial more. The last column is what a trial
more costs between two sizes; it must not grow from line to line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from tests.benchmarks.records_scale import a_measurement
from trials.contract import Measurement, MetricValue, Purpose
from trials.measurement.environment import machine
from tuner.launch import note_settings, prepare_records
from tuner.records.repository import Records
from tuner.records.rows import GIVEN
from tuner.space import load_study_file

REPEATS = 3
MEMORY_FOLDER = Path("/dev/shm")  # filling 10,000 trials commits 30,000 times; a disk would take minutes
PROGRAM = """
import resource, sys, time
from tuner.cli import main
try:
    main()
finally:
    sys.stdout.flush()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open(sys.argv[0] + ".cost", "w") as stream:
        print(time.process_time(), peak / 1024, file=stream)
"""
VERBS = {
    "show --json": ["show", "scale", "--json"],
    "show": ["show", "scale"],
    "list": ["list"],
    "resume": ["run", "space.yaml", "--more", "1", "--no-mlflow"],
}


def write_space(folder: Path, trials: int) -> Path:
    """A space of four parameters; a real trial of it ends at once."""
    run = "print('speed =', {x}); print('cost =', 1000001 - {x})"
    patterns = {name: rf"{name} = ([0-9.]+)" for name in ("speed", "cost")}
    space = {
        "study": "scale",
        "workload": {"kind": "command", "run": ["{python}", "-c", run], "metrics": {"patterns": patterns}},
        "parameters": {
            "x": {"min": 1, "max": 10**6},
            "rate": {"min": 1e-4, "max": 1e-1, "scale": "log"},
            "mode": ["a", "b", "c"],
            "depth": {"min": 1, "max": 8},
        },
        "objectives": [
            {"metric": "speed", "direction": "maximize"},
            {"metric": "cost", "direction": "minimize"},
        ],
        "budget": {"trials": trials},
        "confirm": {"finalists": 0},
        "resources": {"cpus": 1},
    }
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(space, sort_keys=False))
    return path


def made_up(number: int, chance: random.Random) -> Measurement:
    """A complete measurement of this machine, with values that give a front of some ten members."""
    found = a_measurement(number)
    speed, cost = chance.uniform(1, 100), chance.uniform(1, 100)
    values = {"speed": MetricValue(speed, "", 1), "cost": MetricValue(cost, "", 1)}
    environment = {**machine(), "cores_held": [0]}
    return replace(found, metrics={**found.metrics, **values}, environment=environment)


def fill(folder: Path, trials: int) -> None:
    """Records with a study of so many trials, baseline and limits included, in ``folder``."""
    chance = random.Random(trials)
    file = load_study_file(write_space(folder, trials))
    with Records.open(folder / "tuner.db") as records:
        prepare_records(file, records, new_space=False)
        note_settings(file, records)
        configs = [file.baseline, *(_config(chance, x) for x in range(2, trials + 1))]
        for number, config in enumerate(configs):
            records.add_trial(file.name, config, "baseline" if number == 0 else "tpe")
            for repeat in range(1 if number else 3):
                purpose = Purpose.SEARCH if number else Purpose.BASELINE
                measurement = made_up(number, chance)
                facts = {**measurement.facts, GIVEN: config}
                folder_of_run = folder / "tuner-trials" / "scale" / "g1" / f"{number:04d}-{purpose}"
                started = records.start_measurement(file.name, number, purpose, repeat, folder_of_run)
                records.finish_measurement(started, replace(measurement, facts=facts))
        records.freeze(file.name, (), {"speed": 0.0, "cost": 200.0})
        records.set_stopped(file.name, f"budget of {trials} trials is spent")


def _config(chance: random.Random, x: int) -> dict[str, object]:
    rate = 10 ** chance.uniform(-4, -1)
    return {"x": x, "rate": rate, "mode": chance.choice("abc"), "depth": chance.randint(1, 8)}


def cost(folder: Path, arguments: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MiB of one verb's own process."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    with (folder / "said.txt").open("w") as said:
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=said,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit((folder / "said.txt").read_text())
    seconds, peak_mib = Path(f"{script}.cost").read_text().split()
    return float(seconds), float(peak_mib)


@contextmanager
def roomy_folder() -> Iterator[Path]:
    """A folder in memory where there is one."""
    place = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="study-scale-", dir=place) as folder:
        yield Path(folder)


def measure(sizes: list[int], verbs: list[str]) -> dict[str, dict[int, float]]:
    """Every verb at every size: a line of the table each, the cheapest of a few runs."""
    found: dict[str, dict[int, float]] = {verb: {} for verb in verbs}
    for size in sizes:
        with roomy_folder() as folder:
            fill(folder, size)
            for verb in verbs:
                costs = [cost(folder, VERBS[verb]) for _ in range(REPEATS)]
                found[verb][size] = min(seconds for seconds, _ in costs)
                peak_mib = max(peak for _, peak in costs)
                print(
                    f"| {verb} | {size} | {found[verb][size]:.2f} | {peak_mib:.0f} | {_marginal(found[verb])} |",
                    flush=True,
                )
    return found


def _marginal(by_size: dict[int, float]) -> str:
    """Milliseconds of CPU for each trial more than at the size before."""
    if len(by_size) < 2:
        return ""
    (small, before), (large, now) = list(by_size.items())[-2:]
    return f"{1000 * (now - before) / (large - small):.3f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[200, 2_000, 10_000])
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    given = parser.parse_args()
    print("| verb | trials | CPU s | peak MiB | ms for a trial more |\n|---|---|---|---|---|", flush=True)
    print(json.dumps(measure(sorted(given.sizes), given.verbs)))


if __name__ == "__main__":
    main()
