"""The shipped samplers keep the promises of every sampler."""

from __future__ import annotations

from tests.contracts.sampler_suite import LOSS, SamplerSuite, drive, training_space
from tuner.space.space import config_key


class TestRandom(SamplerSuite):
    name = "random"


class TestGrid(SamplerSuite):
    name = "grid"
    searches_continuous = False

    def test_the_order_is_the_files(self) -> None:
        searched = training_space()
        asked = drive(self.build(searched, (LOSS,)), (LOSS,), range(1, 6))
        assert asked == [config for config, _ in zip(searched.configs(), range(5), strict=False)]


class TestTpe(SamplerSuite):
    name = "tpe"


class TestNsga2(SamplerSuite):
    name = "nsga2"


class TestGp(SamplerSuite):
    name = "gp"
    trials = 13  # a second of L-BFGS for each one after the tenth


class TestAuto(SamplerSuite):
    name = "auto"

    def test_another_seed_asks_for_something_else(self) -> None:
        searched = training_space()
        asked = [drive(self.build(searched, (LOSS,), seed=seed), (LOSS,), range(1, 8)) for seed in (1, 2)]
        assert [config_key(c) for c in asked[0]] != [config_key(c) for c in asked[1]]
