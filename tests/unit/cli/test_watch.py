"""``tuner show --watch``: a study that another process runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.unit.cli.stored import store, two_sided_study
from trials.contract import Measurement, MetricValue, Outcome, Purpose
from tuner.cli import watch as module
from tuner.cli.watch import LineView, ScreenView, watch
from tuner.records.owner import Owner
from tuner.records.repository import Records
from tuner.results import judge

SPEED, LOSS = "tokens_per_s", "val_loss_nats"


@pytest.fixture
def other_process() -> Iterator[Records]:
    """The records as the process sees them that runs the study (which lives: it is our parent)."""
    here = Owner.current()
    parent = replace(here, pid=os.getppid(), started_ticks=_ticks(os.getppid()))
    with Records.open("tuner.db", owner=parent) as records:
        yield records


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:  # noqa: PTH123 - a line of the kernel's
        return int(stat.read().rpartition(")")[2].split()[19])


def measured(records: Records, x: int, speed: float) -> None:
    number = records.add_trial("built", {"x": x}, "tpe")
    run = records.start_measurement("built", number, Purpose.SEARCH, 0, "/tmp/none")
    metrics = {SPEED: MetricValue(speed, "tokens/s"), LOSS: MetricValue(2.0, "nats")}
    records.finish_measurement(run, Measurement(Outcome.COMPLETE, metrics=metrics))


def steps(*actions: Callable[[], None]) -> Callable[[float], None]:
    """What happens while it sleeps, in turn; fails where it sleeps longer than there is something to see."""
    left = list(actions)

    def sleep(seconds: float) -> None:
        assert seconds >= module.LOOK_S
        left.pop(0)()

    return sleep


def test_a_line_a_change_until_the_run_ends_then_the_summary(
    other_process: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    store(two_sided_study(stopped_because=None))
    other_process.claim("built")

    def end() -> None:
        other_process.set_stopped("built", "budget of 6 trials is spent")
        other_process.release("built")

    watch("built", None, steps(lambda: None, lambda: measured(other_process, 9, 9000.0), lambda: None, end))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "built: Pareto front of 3 (2 confirmed) out of 5 trials (4 complete, 1 failed); "
        "a run is on, between two measurements"
    )
    assert lines[1] == "trial 5 (search): x=9 -> tokens_per_s=9,000  val_loss_nats=2  on the front"
    assert lines[2] == ""
    assert "6 trials" in lines[3]
    assert lines[-1] == "stopped: budget of 6 trials is spent"


def test_the_screen_is_drawn_on_change_only(
    other_process: Records, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store(two_sided_study())
    other_process.claim("built")
    monkeypatch.setattr(module, "LineView", ScreenView)

    def press() -> None:
        raise KeyboardInterrupt

    watch("built", None, steps(lambda: None, lambda: measured(other_process, 9, 1.0), lambda: None, press))
    assert capsys.readouterr().out.count("Ctrl-C ends watching, not the run") == 2


def test_a_study_that_nobody_runs_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    store(two_sided_study())
    watch("built", None, steps())
    said = capsys.readouterr().out
    assert said.rstrip().endswith("stopped: budget of 5 trials is spent")
    assert said.count("Pareto front of 3") == 1


def test_who_is_quicker_than_the_run_waits_for_it(
    other_process: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin() -> None:
        store(two_sided_study(stopped_because=None))

    def end() -> None:
        other_process.set_stopped("built", "budget of 5 trials is spent")
        other_process.release("built")

    watch("built", None, steps(lambda: None, begin, lambda: other_process.claim("built"), lambda: None, end))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("waiting for a run of 'built', which the records do not have yet  (Ctrl-C ends it)")
    assert lines[1].endswith("(4 complete, 1 failed); no process runs it")
    assert lines[2].startswith("no process runs 'built' now; waiting for tuner run to go on with it")
    assert lines[-1] == "stopped: budget of 5 trials is spent"


def test_only_what_the_search_found_is_called_a_member_of_the_front(
    other_process: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    store(two_sided_study())
    record = other_process.study("built")
    view = LineView()
    view.changed(judge(replace(record, trials=())), is_run=True)
    view.changed(judge(record), is_run=True)
    told = capsys.readouterr().out.splitlines()[1:]
    assert [line.partition(" (")[0] for line in told if line.endswith("on the front")] == [
        "trial 1",
        "trial 2",
    ]
    assert not any("(baseline)" in line and "on the front" in line for line in told)


def test_the_parameters_of_a_line_are_the_same_from_the_first_trial_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    domains = {"x": {"min": 1, "max": 9}, "precision": {"choices": ["bf16", "fp32"]}, "flag": {"value": "1"}}
    result = judge(two_sided_study(definition={"parameters": domains}))
    view = LineView()
    view.changed(judge(replace(result.record, trials=())), is_run=True)
    view.changed(judge(replace(result.record, trials=result.record.trials[:1])), is_run=True)
    view.changed(result, is_run=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("trial 0 (baseline): x=1 precision=bf16 ->")
    assert any(line.startswith("trial 1 (search): baseline + x=2 ->") for line in lines), lines


def test_what_runs_now_is_named(other_process: Records, capsys: pytest.CaptureFixture[str]) -> None:
    store(two_sided_study())
    other_process.start_measurement("built", 2, Purpose.CONFIRM, 1, "/tmp/none", 0)
    LineView().changed(judge(other_process.study("built")), is_run=True)
    assert "running: trial 2 (confirm)" in capsys.readouterr().out
