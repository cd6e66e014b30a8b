"""Strategies against tables of measured configurations.

    python -m tests.benchmarks.search --seeds 20 --out results

Results of finished runs are kept in ``OUT/runs.jsonl``: called again, only what is missing is run. Writes
``OUT/report.md`` and ``OUT/report.json``. Any table in the same form will do: ``--tables FOLDER --benchmarks FILE``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.benchmarks.search.arms import ARMS
from tests.benchmarks.search.kept import Kept
from tests.benchmarks.search.replay import Run, replay
from tests.benchmarks.search.report import markdown, summary
from tests.benchmarks.search.tables import KINDS, Benchmark, load

HERE = Path(__file__).parent
TABLES = HERE.parents[3] / "shared" / "tables"

_loaded: dict[str, Benchmark] = {}


def _begin(benchmarks: Path, tables: Path) -> None:
    """What a worker process needs: one thread, and the tables read once."""
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    _loaded.update({benchmark.name: benchmark for benchmark in load(benchmarks, tables)})


def _run(name: str, arm: str, seed: int) -> Run:
    return replay(_loaded[name], arm, seed)


def _missing(
    benchmarks: Sequence[Benchmark], arms: Sequence[str], seeds: int, kept: Kept
) -> list[tuple[Benchmark, str, int]]:
    """By seed first, so that a comparison that is cut short has something of everything."""
    units = [(b, arm, seed) for seed in range(seeds) for arm in arms for b in benchmarks]
    return [unit for unit in units if kept.get(*unit) is None]


def _complete(given: argparse.Namespace, benchmarks: Sequence[Benchmark], kept: Kept) -> None:
    """Run what is missing, ``workers`` processes at a time."""
    missing = _missing(benchmarks, given.arms, given.seeds, kept)
    print(f"{len(missing)} runs are missing", file=sys.stderr, flush=True)
    arguments = (given.benchmarks, given.tables)
    with ProcessPoolExecutor(given.workers, initializer=_begin, initargs=arguments) as pool:
        futures = [pool.submit(_run, unit[0].name, *unit[1:]) for unit in missing]
        for done, (unit, future) in enumerate(zip(missing, futures, strict=True), 1):
            kept.add(*unit, future.result())
            if done % 50 == 0:
                print(f"{done} of {len(missing)}", file=sys.stderr, flush=True)


def _gathered(
    benchmarks: Sequence[Benchmark], arms: Sequence[str], seeds: int, kept: Kept
) -> Iterator[tuple[str, dict[str, list[Run]]]]:
    for benchmark in benchmarks:
        by_arm = {}
        for arm in arms:
            found = ((seed, kept.get(benchmark, arm, seed)) for seed in range(seeds))
            some = [{**run, "seed": seed} for seed, run in found if run is not None]
            by_arm |= {arm: some} if some else {}
        if by_arm:
            yield benchmark.name, by_arm


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of the tables")
    parser.add_argument("--benchmarks", type=Path, default=HERE / "benchmarks.yaml")
    parser.add_argument("--only", nargs="*", default=[], help="names of benchmarks, as in the file")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("search-results"))
    parser.add_argument("--report-only", action="store_true", help="run nothing, report what is there")
    return parser.parse_args()


def main() -> None:
    """The command line."""
    given = _parsed()
    benchmarks = [
        benchmark
        for benchmark in load(given.benchmarks, given.tables, tuple(given.kinds))
        if not given.only or benchmark.name.partition("/")[0] in given.only
    ]
    if not benchmarks:
        raise SystemExit(
            f"no table of {given.benchmarks} is in {given.tables}; give their folder with --tables"
        )
    kept = Kept(given.out / "runs.jsonl")
    if not given.report_only:
        _complete(given, benchmarks, kept)
    runs = dict(_gathered(benchmarks, given.arms, given.seeds, kept))
    text = markdown(benchmarks, runs)
    (given.out / "report.md").write_text(text, encoding="utf-8")
    (given.out / "report.json").write_text(json.dumps(summary(benchmarks, runs), indent=1), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
