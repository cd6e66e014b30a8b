"""What Optuna is told, and what it is kept from."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import optuna
import pytest

from tests.contracts.sampler_suite import LOSS, THROUGHPUT, drive, result, training_space
from trials.contract import FailureKind, Outcome
from tuner.search.optuna_backed import OptunaSampler, TpeSampler
from tuner.search.protocol import Observation, SearchProblem


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> list[optuna.Study]:
    """Every study that a sampler builds."""
    built: list[optuna.Study] = []
    original = OptunaSampler._study

    def spy(self: OptunaSampler, *arguments: Any) -> optuna.Study:
        built.append(original(self, *arguments))
        return built[-1]

    monkeypatch.setattr(OptunaSampler, "_study", spy)
    return built


def sampler_after(observations: list[Observation]) -> TpeSampler:
    sampler = TpeSampler(SearchProblem(training_space(), (THROUGHPUT, LOSS), 0, 70))
    for observation in observations:
        sampler.tell(observation)
    return sampler


def results(count: int) -> list[Observation]:
    configs = list(training_space().configs())[:count]
    return [result(number, config, (THROUGHPUT, LOSS)) for number, config in enumerate(configs)]


def finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(states=[optuna.trial.TrialState.COMPLETE])


def test_failures_are_told_as_completed_bad_and_infeasible(studies: list[optuna.Study]) -> None:
    told = results(14)
    told[3] = Observation(3, told[3].config, Outcome.FAILED, FailureKind.OUT_OF_MEMORY)
    told[4] = Observation(4, told[4].config, Outcome.FAILED, FailureKind.TIMEOUT)
    sampler_after(told).ask(14, [])
    trials = finished(studies[0])
    assert len(trials) == 14
    worst = np.max([t.values for i, t in enumerate(trials) if i not in (3, 4)], axis=0)
    assert all((np.array(trials[i].values) > worst).all() for i in (3, 4))
    assert [t.constraints["failed"] > 0 for t in trials] == [i in (3, 4) for i in range(14)]


def test_interrupted_and_killed_trials_are_not_told(studies: list[optuna.Study]) -> None:
    told = results(14)
    told[3] = Observation(3, told[3].config, Outcome.FAILED, FailureKind.INTERRUPTED)
    told[4] = Observation(4, told[4].config, Outcome.FAILED, FailureKind.KILLED)
    sampler_after(told).ask(14, [])
    assert len(finished(studies[0])) == 12


def test_nothing_that_is_not_finite_reaches_optuna(studies: list[optuna.Study]) -> None:
    told = results(14)
    for i, bad in enumerate((math.nan, math.inf, -math.inf)):
        told[i] = Observation(i, told[i].config, Outcome.COMPLETE, values=(bad, 1.0), violations=(0.0,))
    told[5] = Observation(5, told[5].config, Outcome.COMPLETE, values=(1.0, 1.0), violations=(math.inf,))
    sampler_after(told).ask(14, [])
    for trial in finished(studies[0]):
        assert np.isfinite(trial.values).all()
        assert np.isfinite(list(trial.constraints.values())).all()
    assert finished(studies[0])[5].constraints["limit_0"] > 0


def test_limits_are_told_as_constraints_and_directions_as_losses(studies: list[optuna.Study]) -> None:
    told = results(12)
    sampler_after(told).ask(12, [])
    for observation, trial in zip(told, finished(studies[0]), strict=True):
        assert observation.values is not None
        assert trial.values == [-observation.values[0], observation.values[1]]
        assert (trial.constraints["limit_0"] <= 0) == observation.is_feasible
        assert "failed" not in trial.constraints


def test_a_long_history_is_told_in_part(studies: list[optuna.Study]) -> None:
    sampler = sampler_after([])
    sampler.window = 20
    for observation in results(60):
        sampler.tell(observation)
    sampler.ask(60, [])
    assert len(finished(studies[0])) == 20


def test_what_is_running_is_told_as_running(studies: list[optuna.Study]) -> None:
    pending = list(training_space().configs())[20:22]
    sampler_after(results(12)).ask(12, pending)
    running = studies[0].get_trials(states=[optuna.trial.TrialState.RUNNING])
    assert [trial.params.get("compression") is None for trial in running[:2]] == [
        "compression" not in config for config in pending
    ]


def test_optuna_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    before = optuna.logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drive(sampler_after(results(12)), (THROUGHPUT, LOSS), range(12, 15))
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
