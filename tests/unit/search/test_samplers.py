"""The shipped samplers keep the promises of every sampler."""

from __future__ import annotations

import optuna
import pytest

from tests.contracts.sampler_suite import LOSS, SamplerSuite, drive, training_space
from tuner.search.history import History
from tuner.search.optuna_backed import GpSampler
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
    trials = 13  # each one after the tenth is a fit

    @pytest.fixture(autouse=True)
    def _searches_less(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """The promises do not hang on how long Optuna looks for its optimum; another process looks in full."""
        if "another_process" in request.node.name:
            return
        original = GpSampler.build

        def build(self: GpSampler, seed: int, history: History) -> optuna.samplers.BaseSampler:
            sampler = original(self, seed, history)
            for name, less in (
                ("_n_preliminary_samples", 64),
                ("_n_local_search", 2),
                ("_n_qmc_samples_ehvi", 8),
            ):
                assert hasattr(sampler, name)
                setattr(sampler, name, less)
            return sampler

        monkeypatch.setattr(GpSampler, "build", build)


class TestAuto(SamplerSuite):
    name = "auto"

    def test_another_seed_asks_for_something_else(self) -> None:
        searched = training_space()
        asked = [drive(self.build(searched, (LOSS,), seed=seed), (LOSS,), range(1, 8)) for seed in (1, 2)]
        assert [config_key(c) for c in asked[0]] != [config_key(c) for c in asked[1]]
