"""Putting a study together: input that cannot work, signals, slots, folders."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.study.bench import Bench, study_file
from tuner.launch import machine_cores, slots_of, trials_folder
from tuner.space import SpaceError
from tuner.space.model import Resources


def test_a_sampler_that_does_not_exist_is_wrong_input_and_nothing_runs(bench: Bench) -> None:
    with pytest.raises(SpaceError, match=r"space.yaml: search.sampler=radnom .* did you mean random\?"):
        bench.run(study_file(sampler="radnom"))
    assert bench.xs() == []


@pytest.fixture
def not_under_nohup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("not_under_nohup")
def test_under_nohup_a_closed_terminal_ends_nothing(bench: Bench) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending, executor = bench.run(
        study_file(), on_step=lambda executor, source: os.kill(os.getpid(), signal.SIGHUP)
    )
    assert not ending.is_interrupted
    assert not executor.is_interrupted


@pytest.mark.usefixtures("not_under_nohup")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_ends_the_study_with_everything_saved_and_gives_the_handler_back(
    bench: Bench, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    def press(executor, source):
        if executor.steps == 12:
            os.kill(os.getpid(), number)

    ending, executor = bench.run(study_file(), on_step=press)
    assert ending.is_interrupted
    assert executor.is_interrupted
    assert signal.getsignal(number) is before
    outcomes = [run.outcome for trial in bench.record().trials for run in trial.measurements]
    assert len(outcomes) == len(executor.taken)
    assert None not in outcomes


def test_slots_share_the_cores_unless_the_file_says_how_many() -> None:
    assert slots_of(study_file()).cpus == machine_cores()
    assert slots_of(study_file(at_once=2)).cpus == max(1, machine_cores() // 2)
    assert slots_of(study_file(at_once=2, resources=Resources(cpus=3, gpus=1))).cpus == 3


def test_trial_folders_lie_beside_a_records_file_and_else_in_the_working_directory(tmp_path: Path) -> None:
    assert trials_folder(f"sqlite:///{tmp_path}/r.db", "s", 2) == tmp_path / "tuner-trials" / "s" / "g2"
    assert trials_folder("postgresql://host/db", "s", 1) == Path.cwd() / "tuner-trials" / "s" / "g1"
