"""What the model-based sampler learns: good regions, risks, limits, costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.contracts.sampler_suite import LOSS, THROUGHPUT, choices, parameter, space
from trials.contract import FailureKind, Outcome
from tuner.objectives import Objective
from tuner.search.auto import SPREAD_TRIALS, AutoSampler
from tuner.search.protocol import Observation, Proposal, SearchProblem
from tuner.space.domains import Range
from tuner.space.space import Config, Space, config_key

Result = Callable[[int, Config], Observation]


def searched() -> Space:
    """640 configurations: two ordered axes and a choice."""
    return space(
        [
            parameter("batch", Range(1, 128, None, "log2", True)),
            parameter("workers", Range(0, 15, None, "linear", True)),
            parameter("precision", choices("fp32", "bf16", "fp16", "tf32", "int8")),
        ]
    )


def run(
    result: Result, trials: int, objectives: tuple[Objective, ...] = (LOSS,), seed: int = 0
) -> list[Proposal]:
    sampler = AutoSampler(SearchProblem(searched(), objectives, seed, 600))
    sampler.tell(result(0, searched().configure({})))
    proposals = []
    for number in range(1, trials):
        proposal = sampler.ask(number, [])
        assert proposal is not None
        proposals.append(proposal)
        sampler.tell(result(number, proposal.config))
    return proposals


def loss(config: Config) -> float:
    """Best at batch 32, 9 workers, bf16."""
    away = (np.log2(config["batch"]) - 5) ** 2 / 10 + ((config["workers"] - 9) / 10) ** 2
    return float(1 + away + 0.5 * (config["precision"] != "bf16"))


def test_the_best_of_640_is_found_in_40_trials() -> None:
    best = []
    for seed in range(3):
        proposals = run(lambda n, c: Observation(n, c, Outcome.COMPLETE, values=(loss(c),)), 40, seed=seed)
        best.append(min(loss(p.config) for p in proposals))
    assert sorted(best)[1] < 1.02


def test_the_first_trials_spread_and_try_the_neighbours_of_the_baseline() -> None:
    proposals = run(lambda n, c: Observation(n, c, Outcome.COMPLETE, values=(loss(c),)), SPREAD_TRIALS + 2)
    reasons = [p.reason for p in proposals]
    assert reasons[:7] == ["neighbour of the baseline", "spread"] * 3 + ["neighbour of the baseline"]
    assert set(reasons[7:]) <= {"explore", "exploit"}
    baseline = searched().configure({})
    near = [p.config for p in proposals if p.reason == "neighbour of the baseline"]
    assert all(sum(config[name] != baseline[name] for name in baseline) == 1 for config in near)


def test_a_proposal_says_what_the_model_expects() -> None:
    def result(number: int, config: Config) -> Observation:
        return Observation(number, config, Outcome.COMPLETE, values=(100.0 / loss(config), loss(config)))

    proposals = run(result, 40, (THROUGHPUT, LOSS))
    assert all(p.expected is None and p.probability_ok is None for p in proposals[: SPREAD_TRIALS - 1])
    late = proposals[20:]
    assert all(p.expected is not None and p.probability_ok == 1.0 for p in late)
    inside = 0
    for p in late:
        expected = (p.expected or {})[LOSS.metric]
        assert expected.low <= expected.value <= expected.high
        inside += expected.low <= loss(p.config) <= expected.high
    assert inside >= 0.7 * len(late)


def test_a_region_that_fails_is_left_alone() -> None:
    def result(number: int, config: Config) -> Observation:
        if config["batch"] >= 32:
            return Observation(number, config, Outcome.FAILED, FailureKind.OUT_OF_MEMORY)
        return Observation(number, config, Outcome.COMPLETE, values=(float(config["batch"]), loss(config)))

    proposals = run(result, 50, (THROUGHPUT, LOSS))
    assert sum(p.config["batch"] >= 32 for p in proposals[20:]) <= 5


def test_the_best_at_the_edge_of_a_limit_is_found() -> None:
    def result(number: int, config: Config) -> Observation:
        over = config["batch"] * (1 + config["workers"]) - 64.0
        return Observation(
            number, config, Outcome.COMPLETE, values=(float(config["batch"]),), violations=(over,)
        )

    for seed in range(2):  # 5 of the 640 are the best: 40 by chance find one in a quarter of all studies
        proposals = run(result, 40, (THROUGHPUT,), seed=seed)
        told = [result(0, p.config) for p in proposals]
        assert max(o.config["batch"] for o in told if o.is_feasible) == 64


def test_the_cheaper_of_equals_is_tried_first() -> None:
    def result(number: int, config: Config) -> Observation:
        cost = 100.0 if config["precision"] in ("fp32", "tf32") else 1.0
        return Observation(number, config, Outcome.COMPLETE, values=(2.0,), cost_s=cost)

    late = run(result, 45)[15:]
    assert sum(p.config["precision"] in ("fp32", "tf32") for p in late) < 0.25 * len(late)


def test_concurrent_asks_spread_instead_of_crowding_one_point() -> None:
    sampler = AutoSampler(SearchProblem(searched(), (LOSS,), 0, 600))
    rng = np.random.default_rng(0)
    for number, config in enumerate(rng.permutation(np.array(list(searched().configs()), dtype=object))[:25]):
        sampler.tell(Observation(number, config, Outcome.COMPLETE, values=(loss(config),)))
    pending: list[Config] = []
    for number in range(25, 29):
        proposal = sampler.ask(number, pending)
        assert proposal is not None
        pending.append(proposal.config)
    assert len({config_key(config) for config in pending}) == 4
