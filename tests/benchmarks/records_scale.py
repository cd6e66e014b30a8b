"""What the records cost as a study grows: python -m tests.benchmarks.records_scale [--largest 10000]

A trial is added, started and finished (three commits, each on the disk) at three sizes of the study; the
ratio between the largest and the smallest says whether the cost grows. Then the study is read, and listed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from trials.contract import Measurement, MetricValue, Outcome, Purpose
from trials.metrics import CATALOGUE, Direction
from tuner.objectives import Objective
from tuner.records.repository import Records

SAMPLES = 100  # trials timed at each size


def a_measurement(number: int) -> Measurement:
    """As large as a training trial's: every catalogue metric, phases, proof, an environment of 60 entries."""
    remark = "median of 40 steps"
    metrics = {
        str(key): MetricValue(number + 0.123456789, info.unit, 40, number + 0.1, number + 0.2, remark)
        for key, info in CATALOGUE.items()
    }
    phases = ("startup_s", "compile_s", "warmup_s", "measured_s", "evaluation_s")
    return Measurement(
        Outcome.COMPLETE,
        metrics=metrics,
        phases=dict.fromkeys(phases, 1.23456789),
        proof={"matmul_dtype": "bfloat16", "checkpointed_blocks": 12, "threads": 2},
        facts={"compute_pct": 81.5, "data_wait_pct": 2.25},
        environment={f"library_{index}": f"1.{index}.0" for index in range(60)},
    )


def a_trial(records: Records, number: int) -> None:
    """Add, start, finish."""
    config = {"precision": "bf16", "micro_batch_size": number, "task.learning_rate": 0.001, "compile": False}
    added = records.add_trial("scale", config, "tpe")
    measurement_id = records.start_measurement("scale", added, Purpose.SEARCH, 0, f"/runs/scale/{added:05d}")
    records.finish_measurement(measurement_id, a_measurement(number))


def timed_ms(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began_s = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began_s)


def grow(records: Records, sizes: list[int]) -> dict[int, list[float]]:
    """Fill the study; at each size, the milliseconds of the last trials added."""
    all_ms = [timed_ms(partial(a_trial, records, number)) for number in range(sizes[-1])]
    return {size: all_ms[max(0, size - SAMPLES) : size] for size in sizes}


def report(records: Records, sizes: list[int]) -> None:
    """Measure and print."""
    took = grow(records, sizes)
    for size, values in took.items():
        quantiles = statistics.quantiles(values, n=20)
        print(f"{size:6d} trials: add + start + finish p50 {quantiles[9]:.2f} ms, p95 {quantiles[18]:.2f} ms")
    smallest, largest = (statistics.median(took[size]) for size in (sizes[0], sizes[-1]))
    print(f"ratio of the largest to the smallest: {largest / smallest:.2f}")
    for what, read in (
        ("study()", partial(records.study, "scale")),
        ("study(only=two trials)", partial(records.study, "scale", only=(0, sizes[-1] - 1))),
        ("studies()", records.studies),
    ):
        print(f"{what} with {sizes[-1]} trials: {min(timed_ms(read) for _ in range(3)):.1f} ms")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--largest", type=int, default=10_000)
    parser.add_argument("--records", help="a database URL; default: a new sqlite file")
    chosen = parser.parse_args()
    sizes = sorted({min(size, chosen.largest) for size in (200, 2_000, chosen.largest)})
    with tempfile.TemporaryDirectory() as folder:
        records = Records.open(chosen.records or Path(folder) / "tuner.db")
        records.create_study("scale", "", "", {}, [Objective("tokens_per_s", Direction.MAXIMIZE)], [])
        report(records, sizes)
        records.close()


if __name__ == "__main__":
    main()
