"""What a running study says: lines, and the panel on a terminal."""

from __future__ import annotations

import io
import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import builders
from trials.contract import FailureKind, Measurement, Outcome, Purpose
from tuner.cli.announced import Announced
from tuner.cli.exhausted import too_few_left
from tuner.cli.live import LiveProgress, cut_to_width, progress_for
from tuner.cli.options import parse_settings
from tuner.cli.progress import LineProgress
from tuner.execution.protocol import Slots
from tuner.space import load_study_file
from tuner.space.model import StudyFile
from tuner.study import Ticket

CONFIG = {"x": 2, "mode": "1", "scale": 0.5}


@pytest.fixture
def file(space: Path) -> StudyFile:
    return load_study_file(space)


def complete(speed: float = 12.5, **facts: Any) -> Measurement:
    metrics = builders.metrics({"speed": speed})
    return Measurement(Outcome.COMPLETE, metrics=metrics, phases={"wall_s": 0.25}, facts=facts)


def search(number: int = 1, **changed: Any) -> Ticket:
    return Ticket(number, Purpose.SEARCH, 0, **changed)


class Screen(io.StringIO):
    """A terminal that keeps what is visible."""

    def isatty(self) -> bool:
        return True

    @property
    def visible(self) -> list[str]:
        lines = [""]
        for part in re.split(r"(\r\x1b\[\d+A\x1b\[J|\n)", self.getvalue()):
            if part == "\n":
                lines.append("")
            elif part.startswith("\r\x1b["):
                up = int(part[3:].partition("A")[0])
                lines = [*lines[: len(lines) - 1 - up], ""]
            else:
                lines[-1] += re.sub(r"\x1b\[\d*m", "", part)
        return lines


def test_a_measurement_is_one_line_with_trial_purpose_configuration_and_result(
    file: StudyFile, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = LineProgress(file, known=0)
    progress.started(search(), CONFIG)
    progress.measured(search(), CONFIG, complete(), is_feasible=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == '[2/6] trial 1 (search): x=2 mode="1" scale=0.5 -> speed=12.5  ok  [0.2 s]\n'


@pytest.mark.parametrize(
    ("ticket", "measurement", "is_feasible", "words"),
    [
        (search(), complete(), False, "speed=12.5  breaks a limit"),
        (search(), complete(contaminated="other programs"), True, "ok  contaminated"),
        (search(attempt=2), complete(), True, "(search, again)"),
        (Ticket(1, Purpose.RETRY, 0, attempt=2), complete(), True, "(retry)"),
        (Ticket(0, Purpose.BASELINE, 0, is_cold=True), complete(), None, "(cold run)"),
        (Ticket(0, Purpose.BASELINE, 0, is_cold=True), complete(), None, "not counted"),
        (Ticket(1, Purpose.CONFIRM, 2, round_number=2), complete(), True, "(confirm, round 3)"),
        (
            search(),
            Measurement.failed(FailureKind.OUT_OF_MEMORY, "\x1b[31mno memory\nTraceback"),
            None,
            "-> failed (out_of_memory): [31mno memory",
        ),
        (search(), Measurement(Outcome.PRUNED, message="hopeless"), None, "-> pruned: hopeless"),
    ],
)
def test_the_line_marks_what_is_not_ordinary(
    ticket: Ticket,
    measurement: Measurement,
    is_feasible: bool | None,
    words: str,
    file: StudyFile,
    capsys: pytest.CaptureFixture[str],
) -> None:
    LineProgress(file, known=3).measured(ticket, CONFIG, measurement, is_feasible=is_feasible)
    line = capsys.readouterr().err
    assert words in line
    assert len(line.splitlines()) == 1


def test_a_study_that_goes_on_counts_on(file: StudyFile, capsys: pytest.CaptureFixture[str]) -> None:
    progress = LineProgress(file, known=4)
    progress.started(search(4), CONFIG)
    progress.measured(search(4), CONFIG, complete(), is_feasible=True)
    assert capsys.readouterr().err.startswith("[5/6] trial 4 ")


@dataclass
class Confirming:
    """What the progress reads of a study."""

    confirm_runs: int


def confirm_line(progress: LineProgress, number: int) -> None:
    ticket = Ticket(number, Purpose.CONFIRM, 0, round_number=0)
    progress.started(ticket, CONFIG)
    progress.measured(ticket, CONFIG, complete(), is_feasible=True)


def test_confirmation_counts_its_own_runs_and_says_what_is_left(
    file: StudyFile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.cli.progress.time.monotonic", itertools.count(0, 10).__next__)
    progress, study = LineProgress(file, known=6), Confirming(6)
    progress.ready(study)  # type: ignore[arg-type]  # the part of a study that is read
    progress.phase("confirm", "trials 1, 2 and the baseline, 2 interleaved rounds")
    for number in (0, 1, 2):
        confirm_line(progress, number)
    study.confirm_runs += 4  # a finalist fell
    confirm_line(progress, 0)
    lines = [line.partition(" trial ")[0] for line in capsys.readouterr().err.splitlines()[1:]]
    assert lines == [
        "[confirm 1/6, about 50 s left]",
        "[confirm 2/6, about 40 s left]",
        "[confirm 3/6, about 30 s left]",
        "[confirm  4/10, about 60 s left]",
    ]


def test_a_remark_is_one_line(file: StudyFile, capsys: pytest.CaptureFixture[str]) -> None:
    LineProgress(file, known=0).note("first\nsecond")
    assert capsys.readouterr().err == "  first\n"


def test_lines_are_for_pipes_and_dumb_terminals(file: StudyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(progress_for(file, 0)) is LineProgress
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setenv("TERM", "dumb")
    assert type(progress_for(file, 0)) is LineProgress
    monkeypatch.setenv("TERM", "xterm")
    assert type(progress_for(file, 0)) is LiveProgress


def test_the_panel_shows_front_running_trial_budget_and_is_gone_at_the_end(
    file: StudyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "100")
    live = LiveProgress(file, known=0)
    live.phase("search", "up to 6 configurations")
    for number, speed in ((1, 12.0), (2, 15.0)):
        live.started(search(number), CONFIG)
        live.measured(search(number), CONFIG, complete(speed), is_feasible=True)
    live.started(search(3), CONFIG)
    text = "\n".join(screen.visible)
    assert "best so far" in text
    assert re.search(r"^ +2 +15 +x=2", text, re.M), text
    assert not re.search(r"^ +1 +12 ", text, re.M)
    assert 'running  trial 3 (search): x=2 mode="1"' in text
    assert "search: 4 of 6 trials" in text
    live.close()
    assert screen.visible == [
        "search: up to 6 configurations",
        '[2/6] trial 1 (search): x=2 mode="1" scale=0.5 -> speed=12  ok  [0.2 s]',
        '[3/6] trial 2 (search): x=2 mode="1" scale=0.5 -> speed=15  ok  [0.2 s]',
        "",
    ]
    assert "\x1b[?25l" not in screen.getvalue(), "the cursor is never hidden: a kill would leave it so"


def test_a_trial_that_turns_out_to_break_a_limit_leaves_the_panel(
    file: StudyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    live = LiveProgress(file, known=0)
    live.measured(search(), CONFIG, complete(), is_feasible=None)
    assert "so far" in "\n".join(screen.visible)
    live.measured(search(), CONFIG, complete(), is_feasible=False)
    assert "so far" not in "\n".join(screen.visible)


def test_the_panel_never_takes_more_than_the_screen(file: StudyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "5")
    live = LiveProgress(file, known=0)
    for number in range(4):
        live.started(search(number), {"x": 1, "mode": "宽" * 40})
    assert len(screen.visible) <= 5
    live.close()
    assert screen.visible == [""]


def test_wide_characters_take_two_columns() -> None:
    assert cut_to_width("abc", 3) == "abc"
    assert cut_to_width("abcd", 3) == "ab…"
    assert cut_to_width("宽宽宽", 4) == "宽…"


def test_a_configuration_of_ones_own_is_a_try(file: StudyFile, capsys: pytest.CaptureFixture[str]) -> None:
    progress = LineProgress(file, known=4, search="try")
    progress.measured(search(4), CONFIG, complete(), is_feasible=True)
    assert "trial 4 (try): " in capsys.readouterr().err


def test_before_ray_starts_a_line_says_so() -> None:
    said: list[str] = []

    class Executor:
        def run(self, source: object, slots: object) -> None:
            said.append("runs")

        def interrupt(self) -> None:
            said.append("is cut")

    announced = Announced(Executor(), said.append)
    announced.run(None, Slots(1, 1))  # type: ignore[arg-type]  # the source is only handed on
    announced.interrupt()
    assert said == ["starting Ray, which takes some seconds ...", "runs", "is cut"]


def test_more_than_the_space_has_is_said_before_the_run(space: Path) -> None:
    """Of x in 1..4 and four modes two are ruled out: 14 valid ones, of which two are measured."""
    file = load_study_file(space, parse_settings(("parameters.scale=1.0",)))
    trials = [builders.trial(n, config={"x": n + 1, "mode": True, "scale": 1.0}) for n in range(2)]
    record = builders.study(*trials, is_frozen=False)
    assert too_few_left(file, record, 12) is None
    assert too_few_left(file, record, 13) == (
        "--more 13: 2 of 14 valid configurations are measured already, so only 12 can be added"
    )
    valid = [c for c in file.space.configs() if file.space.rejection(c) is None]
    everything = [builders.trial(n, config=c) for n, c in enumerate(valid)]
    said = too_few_left(file, builders.study(*everything, is_frozen=False), 1)
    assert said is not None and said.endswith("none is left to search; widen the space, and add --new-space")


def test_a_space_that_cannot_be_counted_is_never_called_exhausted(file: StudyFile) -> None:
    assert too_few_left(file, builders.study(is_frozen=False), 10_000) is None
