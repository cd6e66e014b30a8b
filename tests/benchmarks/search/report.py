"""What many runs say: medians with their spread, ratios to other arms with bootstrap intervals; markdown and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.search.arms import ARMS
from tests.benchmarks.search.replay import NEAR_BEST, Run
from tests.benchmarks.search.tables import Benchmark

CHECKPOINTS = (10, 25, 50, 100)
RESAMPLES = 4_000
Runs = Mapping[str, Mapping[str, Sequence[Run]]]
"""benchmark -> arm -> runs, by seed"""


def markdown(benchmarks: Sequence[Benchmark], runs: Runs) -> str:
    """The whole report."""
    by_kind = {kind: [b for b in benchmarks if b.kind == kind and b.name in runs] for kind in _SECTIONS}
    parts = [part for kind, some in by_kind.items() if some for part in _SECTIONS[kind](some, runs)]
    return "\n".join(parts) + "\n"


def summary(benchmarks: Sequence[Benchmark], runs: Runs) -> dict[str, Any]:
    """The same as numbers."""
    told = {
        b.name: {arm: _figures(b, some) for arm, some in runs[b.name].items()}
        for b in benchmarks
        if b.name in runs
    }
    fronts = [b.name for b in benchmarks if b.kind == "front" and b.name in runs]
    arms = _arms(runs, fronts)
    against = {other: _ratios_to(other, arms, fronts, runs) for other in arms} if fronts else {}
    return {"benchmarks": told, "ratio_to": against}


# --- fronts -------------------------------------------------------------------------------------------------


def _fronts(benchmarks: Sequence[Benchmark], runs: Runs) -> Iterable[str]:
    for benchmark in benchmarks:
        space = benchmark.space
        yield f"\n### {benchmark.name}: {len(space.rows)} rows of {space.combinations()} combinations\n"
        shares = " | ".join(f"at {n}" for n in CHECKPOINTS)
        head = f"| arm | seeds | {shares} | to 95% | to 99% | infeasible | failed | impossible | duplicates | ask ms |"
        yield head + "\n|---" + "|---" * (len(CHECKPOINTS) + 8) + "|"
        for arm, some in runs[benchmark.name].items():
            yield _front_row(benchmark, arm, _figures(benchmark, some))
    yield from _ratio_table([b.name for b in benchmarks], runs)


def _front_row(benchmark: Benchmark, arm: str, told: Mapping[str, Any]) -> str:
    shares = " | ".join(_spread(told[f"share_at_{n}"], "{:.3f}") for n in CHECKPOINTS)
    cap = f">{ARMS[arm].most_trials}"
    to95, to99 = (_spread(told[key], "{:g}", cap) for key in ("to95", "to99"))
    rest = f"{told['infeasible']:.2f} | {told['failed']:.2f} | {told['impossible']:.2f} | {told['duplicates']:.2f}"
    return f"| {arm} | {told['seeds']} | {shares} | {to95} | {to99} | {rest} | {told['ask_p50_ms']:.0f} |"


def _spread(quartiles: Sequence[float], pattern: str, beyond: str = "") -> str:
    low, middle, high = (beyond if np.isinf(value) else pattern.format(value) for value in quartiles)
    return f"{middle} ({low}-{high})"


def _figures(benchmark: Benchmark, runs: Sequence[Run]) -> dict[str, Any]:
    """Quartiles over the seeds of what is spread, means of shares."""
    shares = {
        f"share_at_{n}": _quartiles([run["shares"][min(n, run["trials"]) - 1] for run in runs])
        for n in CHECKPOINTS
    }
    reached = {key: _quartiles([run[key] or np.inf for run in runs]) for key in ("to95", "to99")}
    means = {
        key: statistics.fmean(run[key] for run in runs) for key in ("infeasible", "failed", "failed_late")
    }
    wasted = {
        key: statistics.fmean(run[key] / run["trials"] for run in runs)
        for key in ("impossible", "duplicates")
    }
    asks = {key: statistics.median(run[key] for run in runs) for key in ("ask_p50_ms", "ask_p95_ms")}
    near = {"near_best": statistics.fmean(run["shares"][-1] >= NEAR_BEST for run in runs)}
    return {"seeds": len(runs)} | shares | reached | means | wasted | asks | near


def _quartiles(values: Sequence[float]) -> list[float]:
    """25%, 50%, 75% (of the values themselves: infinities stay)."""
    ordered = sorted(values)
    return [float(ordered[round(q * (len(ordered) - 1))]) for q in (0.25, 0.5, 0.75)]


# --- ratios -------------------------------------------------------------------------------------------------


def _ratio_table(names: Sequence[str], runs: Runs) -> Iterable[str]:
    arms = _arms(runs, names)
    for other in [arm for arm in ("random", "auto") if arm in arms]:
        told = _ratios_to(other, arms, names, runs)
        yield (
            f"\n### Trials to 95%, as a ratio to {other} (geometric mean over the seeds, 95% bootstrap interval; a run "
            "that does not get there counts as its cap)\n"
        )
        yield "| benchmark | " + " | ".join(arms) + " |\n|---" + "|---" * len(arms) + "|"
        for name, row in told.items():
            cells = [_interval(row[arm]) if arm in row else "" for arm in arms]
            yield f"| {name} | " + " | ".join(cells) + " |"


def _interval(ratio: Sequence[float]) -> str:
    return "{:.2f} ({:.2f}-{:.2f})".format(*ratio)


def _ratios_to(
    other: str, arms: Sequence[str], names: Sequence[str], runs: Runs
) -> dict[str, dict[str, list[float]]]:
    """benchmark -> arm -> ratio, low, high; the last row is over all benchmarks that both arms have run."""
    rng = np.random.default_rng(0)
    told: dict[str, dict[str, list[float]]] = {name: {} for name in [*names, "all"]}
    for arm in arms:
        draws = []
        for name in names:
            logs = _paired_logs(runs[name], arm, other)
            if len(logs):
                picked = rng.integers(len(logs), size=(RESAMPLES, len(logs)))
                draws.append((float(logs.mean()), logs[picked].mean(axis=1)))
                told[name][arm] = _ratio(*draws[-1])
        if draws:
            middle = float(np.mean([mean for mean, _ in draws]))
            told["all"][arm] = _ratio(middle, np.mean([drawn for _, drawn in draws], axis=0))
    return told


def _ratio(middle: float, draws: NDArray[np.float64]) -> list[float]:
    return [float(np.exp(middle)), *(float(value) for value in np.exp(np.quantile(draws, [0.025, 0.975])))]


def _paired_logs(by_arm: Mapping[str, Sequence[Run]], arm: str, other: str) -> NDArray[np.float64]:
    """Log ratios of the trials to 95% by seed, both capped alike."""
    cap = min(ARMS[arm].most_trials, ARMS[other].most_trials)
    one, two = ({run["seed"]: _capped(run, cap) for run in by_arm.get(name, ())} for name in (arm, other))
    return np.array([np.log(one[seed] / two[seed]) for seed in sorted(one.keys() & two.keys())])


def _capped(run: Run, cap: int) -> int:
    return min(run["to95"] or cap + 1, cap + 1)


def _arms(runs: Runs, names: Sequence[str]) -> list[str]:
    return [arm for arm in ARMS if any(runs[name].get(arm) for name in names)]


# --- single objectives, failures ----------------------------------------------------------------------------


def _singles(benchmarks: Sequence[Benchmark], runs: Runs) -> Iterable[str]:
    arms = _arms(runs, [b.name for b in benchmarks])
    yield "\n### One objective: share of seeds within 95% of the best value at 10% of the space (median of trials)\n"
    yield "| search | trials | " + " | ".join(arms) + " |\n|---|---" + "|---" * len(arms) + "|"
    for benchmark in benchmarks:
        cells = [_single_cell(runs[benchmark.name].get(arm, ())) for arm in arms]
        yield f"| {benchmark.name} | {max(1, len(benchmark.space.rows) // 10)} | " + " | ".join(cells) + " |"


def _single_cell(some: Sequence[Run]) -> str:
    if not some:
        return ""
    near = statistics.fmean(run["shares"][-1] >= NEAR_BEST for run in some)
    return f"{near:.2f} ({statistics.median(run['trials'] for run in some):g})"


def _failing(benchmarks: Sequence[Benchmark], runs: Runs) -> Iterable[str]:
    arms = _arms(runs, [b.name for b in benchmarks])
    yield "\n### A third of the space fails: share of failed trials after the 20th; share of the hypervolume at 100\n"
    yield "| benchmark | " + " | ".join(arms) + " |\n|---" + "|---" * len(arms) + "|"
    for benchmark in benchmarks:
        cells = [_failing_cell(benchmark, runs[benchmark.name].get(arm, ())) for arm in arms]
        yield f"| {benchmark.name} | " + " | ".join(cells) + " |"


def _failing_cell(benchmark: Benchmark, some: Sequence[Run]) -> str:
    if not some:
        return ""
    told = _figures(benchmark, some)
    return f"{told['failed_late']:.2f} ({told['share_at_100'][1]:.3f})"


_SECTIONS = {"front": _fronts, "single": _singles, "failing": _failing}
