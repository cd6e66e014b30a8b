"""How much time cutting trials short saves, and how many members of the front it loses, on a table of qualities.

    python -m tests.benchmarks.search.stages --seeds 20

A trial measures its throughput, with noise, and then goes through the validation images one after the other; a
tenth and three tenths of the way it reports the share of right answers so far. The rule is the product's own
(``tuner.loop.cutting``), the reports come where the product asks for them. What a trial costs is written in the
benchmark file: parts with a ``rate`` are the pass over the images, the others come before it.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from tests.benchmarks.search.tables import Benchmark, Row, load
from trials.contract import Outcome
from tuner.loop.cutter import REPORT_AT
from tuner.loop.cutting import RISK, Finished, Guess, Partial, guesses, should_cut
from tuner.pareto import front_indices
from tuner.search.protocol import Observation, Proposal, SearchProblem
from tuner.search.registry import build_sampler
from tuner.space.space import config_key

HERE = Path(__file__).parent
TABLES = HERE.parents[3] / "shared" / "tables"
IMAGES = 50_000
BASELINE_REPEATS = 3


@dataclass(frozen=True)
class Setting:
    """One kind of study: the benchmark, who proposes, how long, how noisy, how careful."""

    benchmarks: Path
    tables: Path
    name: str
    sampler: str
    trials: int
    noise: float
    risk: float


@dataclass
class Bill:
    """What a study cost with and without cutting, and what was cut; ``points`` are the true losses."""

    spent_s: float = 0.0
    whole_s: float = 0.0
    cut: list[int] = field(default_factory=list)
    points: list[tuple[float, ...]] = field(default_factory=list)

    def lost(self) -> tuple[int, int]:
        """Members of the true front that were cut, and all members."""
        front = set(front_indices(self.points))
        return len(front & set(self.cut)), len(front)


class Replay:
    """One study: proposals from a sampler, answers from the table."""

    def __init__(self, benchmark: Benchmark, setting: Setting, seed: int) -> None:
        self.benchmark, self.setting = benchmark, setting
        self.chance = np.random.default_rng((seed, 17))
        problem = SearchProblem(benchmark.space, benchmark.objectives, seed, setting.trials)
        self.sampler = build_sampler(setting.sampler, problem)
        # as three repeats of a baseline find the noise: with two degrees of freedom
        degrees = BASELINE_REPEATS - 1
        self.noise = setting.noise * float(np.sqrt(self.chance.chisquare(degrees) / degrees))
        self.degrees = degrees
        self.seen: list[Finished] = []
        self.bill = Bill()

    def run(self, seed: int) -> Bill:
        """The whole study."""
        self.trial(0, Proposal(self.benchmark.baseline(seed), "baseline"))
        for number in range(1, self.setting.trials):
            proposal = self.sampler.ask(number, [])
            if proposal is None:
                break
            self.trial(number, proposal)
        return self.bill

    def trial(self, number: int, proposal: Proposal) -> None:
        """Measure a configuration, stage by stage, and tell the sampler."""
        row = self.benchmark.space.rows[config_key(proposal.config)]
        before_s, pass_s = self._costs_s(row)
        speed, quality = (o.metric for o in self.benchmark.objectives)
        self.bill.points.append(tuple(o.loss(float(row[o.metric])) for o in self.benchmark.objectives))
        self.bill.whole_s += before_s + pass_s
        measured = float(row[speed]) * float(np.exp(self.setting.noise * self.chance.standard_normal()))
        steady = {speed: Guess(measured, measured * self.noise, self.degrees)}
        early: dict[float, dict[str, float]] = {}
        for fraction, answers in self._on_the_way(float(row[quality])):
            early[fraction] = {quality: answers}
            report = Partial(fraction, steady, early[fraction])
            if number and self._is_cut(report, proposal):
                self.bill.cut.append(number)
                self.bill.spent_s += before_s + fraction * pass_s
                self._tell_cut(number, proposal, report)
                return
        self.bill.spent_s += before_s + pass_s
        values = {**steady, quality: Guess(float(row[quality]), 0.0, self.degrees)}
        self.seen.append(Finished(number, values, True, early))
        self.sampler.tell(
            Observation(
                number, proposal.config, Outcome.COMPLETE, values=(measured, float(row[quality])),
                errors=(measured * self.noise, 0.0), cost_s=before_s + pass_s,
            )
        )  # fmt: skip

    def _costs_s(self, row: Row) -> tuple[float, float]:
        stages = self.benchmark.stages
        return tuple(sum(s.cost_s(row) for s in stages if (s.rate is None) == b) for b in (True, False))  # type: ignore[return-value]

    def _on_the_way(self, accuracy_pct: float) -> list[tuple[float, float]]:
        """The share of right answers among the first images, in percent: each image is asked once."""
        right = round(accuracy_pct / 100 * IMAGES)
        wrong, done, hits, found = IMAGES - right, 0, 0, []
        for fraction in REPORT_AT:
            more = round(fraction * IMAGES) - done
            hits += int(self.chance.hypergeometric(right - hits, wrong - (done - hits), more))
            done += more
            found.append((fraction, 100 * hits / done))
        return found

    def _is_cut(self, report: Partial, proposal: Proposal) -> bool:
        why = should_cut(
            self.seen, report, self.benchmark.objectives, (), proposal.expected, self.setting.risk
        )
        return why is not None

    def _tell_cut(self, number: int, proposal: Proposal, report: Partial) -> None:
        known = guesses(self.seen, report)
        rows = [known.get(o.metric, Guess(float("nan"), None)) for o in self.benchmark.objectives]
        values = tuple(
            guess.value if o.metric in known else None
            for o, guess in zip(self.benchmark.objectives, rows, strict=True)
        )
        errors = tuple(guess.error for guess in rows)
        self.sampler.tell(Observation(number, proposal.config, Outcome.PRUNED, errors=errors, partial=values))


def one(setting: Setting, seed: int) -> tuple[float, int, int, int]:
    """Share of the time saved, trials cut, members of the front lost, members of the front."""
    (benchmark,) = (b for b in load(setting.benchmarks, setting.tables, ("front",)) if b.name == setting.name)
    bill = Replay(benchmark, setting, seed).run(seed)
    return 1 - bill.spent_s / bill.whole_s, len(bill.cut), *bill.lost()


def line(setting: Setting, results: list[tuple[float, int, int, int]]) -> str:
    """A row of the table."""
    saved, cut, lost, members = zip(*results, strict=True)
    shown = f"{np.mean(saved):.0%} ({min(saved):.0%} to {max(saved):.0%})"
    return (
        f"| {setting.name} | {setting.sampler} | {setting.noise:.0%} | {setting.risk:g} | {len(results)} | {shown} | "
        f"{np.mean(cut):.0f} of {setting.trials} | {sum(lost)} of {sum(members)} ({sum(lost) / sum(members):.1%}) |"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of the tables")
    parser.add_argument("--benchmarks", type=Path, default=HERE / "stages.yaml")
    parser.add_argument(
        "--only", default="timm_all", help="name of a benchmark with two objectives and stages"
    )
    parser.add_argument("--samplers", nargs="+", default=["random", "auto"])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--noise", type=float, default=0.01, help="of throughput from run to run")
    parser.add_argument("--risk", type=float, default=RISK)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    print(
        "| benchmark | sampler | noise | risk | seeds | time saved (range) | trials cut | front members lost |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(given.workers) as pool:
        for sampler in given.samplers:
            setting = Setting(
                given.benchmarks, given.tables, given.only, sampler, given.trials, given.noise, given.risk
            )
            print(line(setting, list(pool.map(partial(one, setting), range(given.seeds)))), flush=True)


if __name__ == "__main__":
    main()
