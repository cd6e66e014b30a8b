"""What every sampler promises: subclass SamplerSuite and give it the sampler's ``name``.

``python -m tests.contracts.sampler_suite NAME`` prints what a sampler asks for after ten told trials: the
suite compares that with its own process.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from trials.contract import FailureKind, Outcome
from trials.metrics import Direction
from tuner.objectives import Objective
from tuner.search.protocol import Observation, Sampler, SearchProblem
from tuner.search.registry import build_sampler
from tuner.space.domains import Choice, Choices, Fixed, Range
from tuner.space.expressions import parse_expression
from tuner.space.space import Config, Parameter, Rule, Space, config_key

THROUGHPUT = Objective("samples_per_s", Direction.MAXIMIZE)
LOSS = Objective("val_loss_nats", Direction.MINIMIZE)
MEMORY = Objective("peak_memory_gib", Direction.MINIMIZE)


def choices(*values: Any) -> Choices:
    """A choice among values that are their own labels."""
    return Choices(tuple(Choice(value, value) for value in values))


def parameter(name: str, domain: Choices | Range | Fixed, when: str | None = None) -> Parameter:
    """A parameter whose default is None."""
    return Parameter(name, domain, None if when is None else parse_expression(when), None, 1)


def space(parameters: Iterable[Parameter], *rules: str) -> Space:
    """A space with these rules and no workload."""
    return Space(tuple(parameters), tuple(Rule(parse_expression(rule), 1) for rule in rules))


def training_space(*rules: str) -> Space:
    """Choices, powers of two, a step and a conditional parameter: 96 configurations before rules."""
    return space(
        [
            parameter("precision", choices("fp32", "bf16", "fp16")),
            parameter("batch", Range(4, 32, None, "log2", True)),
            parameter("workers", Range(0, 2, 2, "linear", True)),
            parameter("degree", choices(1, 2)),
            parameter("compression", choices("none", "fp16", "powersgd"), when="degree > 1"),
            parameter("seed", Fixed(7)),
        ],
        *rules,
    )


def continuous_space() -> Space:
    """A learning rate on a log scale, a whole number on a log scale and a choice."""
    return space(
        [
            parameter("rate", Range(1e-4, 1e-1, None, "log", False)),
            parameter("width", Range(8, 4096, None, "log", True)),
            parameter("optimizer", choices("sgd", "adamw")),
        ]
    )


def result(number: int, config: Config, objectives: Sequence[Objective], fails: bool = False) -> Observation:
    """A made-up but fixed result of a configuration."""
    if fails:
        return Observation(number, config, Outcome.FAILED, FailureKind.OUT_OF_MEMORY, cost_s=1.0)
    seed = int.from_bytes(config_key(config).encode(), "little") % 2**32
    values = np.random.default_rng(seed).uniform(1.0, 10.0, size=len(objectives))
    return Observation(
        number,
        config,
        Outcome.COMPLETE,
        values=tuple(map(float, values)),
        violations=(float(values[0]) - 8.0,),
    )


def drive(
    sampler: Sampler,
    objectives: Sequence[Objective],
    numbers: Iterable[int],
    fails: Any = lambda config: False,
) -> list[Config]:
    """Ask and tell, one at a time; ends early at None."""
    asked = []
    for number in numbers:
        proposal = sampler.ask(number, [])
        if proposal is None:
            break
        asked.append(proposal.config)
        sampler.tell(result(number, proposal.config, objectives, fails(proposal.config)))
    return asked


class SamplerSuite:
    """The promises of the Sampler protocol."""

    name: str
    searches_continuous = True
    trials = 24  # of most searches: some after the model has taken over

    def build(
        self,
        searched: Space,
        objectives: Sequence[Objective] = (THROUGHPUT, LOSS),
        seed: int = 0,
        budget_trials: int = 40,  # less than the spaces below hold, so that samplers do choose
    ) -> Sampler:
        return build_sampler(self.name, SearchProblem(searched, tuple(objectives), seed, budget_trials))

    def baseline(self, searched: Space) -> Observation:
        return result(0, searched.configure({}), (THROUGHPUT, LOSS))

    @pytest.mark.parametrize("budget_trials", [200, 5], ids=["it fits the budget", "beyond the budget"])
    def test_a_finite_space_is_exhausted_exactly_and_then_there_is_nothing_left(
        self, budget_trials: int
    ) -> None:
        searched = training_space("batch == 4", "precision != 'fp32' or workers == 0")
        valid = {config_key(c) for c in searched.configs() if searched.rejection(c) is None}
        assert len(valid) == 20
        sampler = self.build(searched, budget_trials=budget_trials)
        asked = drive(sampler, (THROUGHPUT, LOSS), range(1, 40))
        assert len(asked) == len(valid)
        assert {config_key(c) for c in asked} == valid
        assert sampler.ask(40, []) is None

    def test_what_fits_the_budget_is_proposed_as_exhaustive(self) -> None:
        searched = space([parameter("a", choices("x", "y", "z"))])
        sampler = self.build(searched, budget_trials=4)
        sampler.tell(self.baseline(searched))
        proposal = sampler.ask(1, [])
        assert proposal is not None
        assert proposal.reason == "exhaustive"

    def test_nothing_is_proposed_twice_and_nothing_that_a_rule_rejects(self) -> None:
        searched = training_space("batch * degree <= 32", "not (precision == 'fp16' and workers == 0)")
        sampler = self.build(searched)
        asked = drive(sampler, (THROUGHPUT, LOSS), range(1, self.trials + 1))
        assert len({config_key(c) for c in asked}) == self.trials
        assert all(searched.rejection(c) is None for c in asked)

    def test_what_a_rule_rejects_is_counted_by_its_text_once_for_each_configuration(self) -> None:
        searched = training_space("precision != 'fp32'")
        sampler = self.build(searched)
        drive(sampler, (THROUGHPUT, LOSS), range(1, self.trials - 2))
        first = dict(sampler.rejected())
        drive(sampler, (THROUGHPUT, LOSS), range(self.trials - 2, self.trials))
        assert set(first) <= {"precision != 'fp32'"}
        assert sum(first.values()) <= sum(sampler.rejected().values()) <= 32

    def test_conditional_parameters_are_there_exactly_when_their_condition_holds(self) -> None:
        searched = training_space()
        asked = drive(self.build(searched), (THROUGHPUT, LOSS), range(1, self.trials + 1))
        assert {config["degree"] for config in asked} == {1, 2}
        assert all(("compression" in config) == (config["degree"] > 1) for config in asked)
        assert all(searched.contains(config) for config in asked)

    def test_choices_that_python_takes_for_equal_stay_apart(self) -> None:
        searched = space(
            [parameter("a", choices(1, 1.0, True, None, "1")), parameter("b", choices(0, False, 0.0))]
        )
        asked = drive(self.build(searched, budget_trials=5), (THROUGHPUT, LOSS), range(1, 20))
        assert {config_key(config) for config in asked} == {config_key(c) for c in searched.configs()}
        assert all(searched.contains(config) for config in asked)

    @pytest.mark.parametrize("objectives", [(LOSS,), (THROUGHPUT, LOSS, MEMORY)], ids=["one", "three"])
    def test_one_objective_and_three_are_searched(self, objectives: tuple[Objective, ...]) -> None:
        asked = drive(self.build(training_space(), objectives), objectives, range(1, self.trials + 1))
        assert len({config_key(config) for config in asked}) == self.trials

    def test_a_history_of_failures_alone_does_not_stop_the_search(self) -> None:
        sampler = self.build(training_space())
        asked = drive(sampler, (THROUGHPUT, LOSS), range(1, self.trials + 1), fails=lambda config: True)
        assert len({config_key(config) for config in asked}) == self.trials

    def test_failures_cut_trials_and_interruptions_are_accepted_between_results(self) -> None:
        searched = training_space()
        sampler = self.build(searched)
        sampler.tell(self.baseline(searched))
        kinds = [*FailureKind, None]
        asked = []
        for number in range(1, self.trials + 1):
            proposal = sampler.ask(number, [])
            assert proposal is not None
            asked.append(config_key(proposal.config))
            kind = kinds[number % len(kinds)]
            outcome = Outcome.PRUNED if kind is None else Outcome.FAILED
            told = result(number, proposal.config, (THROUGHPUT, LOSS))
            sampler.tell(told if number % 2 else Observation(number, proposal.config, outcome, kind))
        assert len(set(asked)) == self.trials

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_values_that_are_not_finite_do_no_harm(self, bad: float) -> None:
        sampler = self.build(training_space())
        for number, config in enumerate(drive(sampler, (THROUGHPUT, LOSS), range(1, 12)), 1):
            if number % 3 == 0:
                told = Observation(
                    number, config, Outcome.COMPLETE, values=(bad, 1.0), violations=(abs(bad),)
                )
                sampler.tell(told)
        assert len(drive(sampler, (THROUGHPUT, LOSS), range(12, 14))) == 2

    def test_a_limit_that_is_unknown_does_no_harm(self) -> None:
        sampler = self.build(training_space())
        for number, config in enumerate(drive(sampler, (THROUGHPUT, LOSS), range(1, 12)), 1):
            sampler.tell(
                Observation(
                    number, config, Outcome.COMPLETE, values=(1.0 * number, 2.0), violations=(math.inf,)
                )
            )
        assert len(drive(sampler, (THROUGHPUT, LOSS), range(12, 14))) == 2

    def test_results_that_are_all_the_same_do_not_stop_the_search(self) -> None:
        sampler = self.build(training_space())
        asked = set()
        for number in range(1, self.trials + 1):
            proposal = sampler.ask(number, [])
            assert proposal is not None
            asked.add(config_key(proposal.config))
            sampler.tell(Observation(number, proposal.config, Outcome.COMPLETE, values=(3.0, 3.0)))
        assert len(asked) == self.trials

    def test_a_baseline_off_the_grid_is_accepted(self) -> None:
        searched = training_space()
        sampler = self.build(searched)
        off = {**searched.configure({}), "batch": 5, "precision": "fp64"}
        sampler.tell(result(0, off, (THROUGHPUT, LOSS)))
        assert len(drive(sampler, (THROUGHPUT, LOSS), range(1, self.trials + 1))) == self.trials

    def test_pending_configurations_are_never_proposed_again(self) -> None:
        searched = training_space()
        sampler = self.build(searched)
        sampler.tell(self.baseline(searched))
        running = [c for c in searched.configs() if c["precision"] == "bf16"]
        asked = []
        for number in range(1, self.trials + 1):
            proposal = sampler.ask(number, running)
            assert proposal is not None
            asked.append(proposal.config)
            sampler.tell(result(number, proposal.config, (THROUGHPUT, LOSS)))
        assert not {config_key(c) for c in running} & {config_key(c) for c in asked}

    def test_asks_in_a_row_without_results_differ(self) -> None:
        sampler = self.build(training_space())
        drive(sampler, (THROUGHPUT, LOSS), range(1, 13))
        pending: list[Config] = []
        for number in range(13, 16):
            proposal = sampler.ask(number, pending)
            assert proposal is not None
            pending.append(proposal.config)
        assert len({config_key(config) for config in pending}) == 3

    def test_the_order_of_telling_does_not_matter(self) -> None:
        searched = training_space()
        told = [result(n, c, (THROUGHPUT, LOSS)) for n, c in enumerate(_spread(searched, 14))]
        proposals = []
        for order in (told, told[::-1]):
            sampler = self.build(searched)
            for observation in order:
                sampler.tell(observation)
            proposals.append(sampler.ask(14, []))
        assert proposals[0] == proposals[1] is not None

    def test_a_continuous_space_is_searched_within_its_bounds(self) -> None:
        searched = continuous_space()
        if not self.searches_continuous:
            with pytest.raises(ValueError, match="rate is continuous"):
                self.build(searched)
            return
        asked = drive(self.build(searched), (THROUGHPUT, LOSS), range(1, 14))
        assert len({config_key(config) for config in asked}) == 13
        assert all(searched.contains(config) for config in asked)

    def test_another_process_asks_for_the_same_after_the_same_tells(self) -> None:
        arguments = [sys.executable, "-m", "tests.contracts.sampler_suite", self.name]
        there = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=120)
        asked = drive(self.build(training_space(), seed=5), (THROUGHPUT, LOSS), range(1, 15))
        assert json.loads(there.stdout.splitlines()[-1]) == asked[10:]


def _spread(searched: Space, count: int) -> list[Config]:
    every = list(searched.configs())
    return [every[i * len(every) // count] for i in range(count)]


def _continue_elsewhere(name: str) -> list[Config]:
    """Ten trials by one sampler, told to a second one, which goes on."""
    problem = SearchProblem(training_space(), (THROUGHPUT, LOSS), 5, 40)
    first, second = build_sampler(name, problem), build_sampler(name, problem)
    for number, config in enumerate(drive(first, problem.objectives, range(1, 11)), 1):
        second.tell(result(number, config, problem.objectives))
    return drive(second, problem.objectives, range(11, 15))


if __name__ == "__main__":
    print(json.dumps(_continue_elsewhere(sys.argv[1])))
