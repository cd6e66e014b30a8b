"""A program whose JSON lines say how far it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.command.conftest import RunCommand
from trials.command.metrics import stamp_of
from trials.command.stages import LineStages
from trials.contract import Outcome
from trials.stages import Stage, read_stages


def write(path: Path, *lines: dict[str, Any] | str) -> None:
    with path.open("a") as stream:
        for line in lines:
            stream.write(line if isinstance(line, str) else json.dumps(line) + "\n")


class Follower:
    """A ``LineStages`` on a file, with what it said."""

    def __init__(self, path: Path, *report_at: float) -> None:
        self.said: list[Stage] = []
        wanted = ("f1", "samples_per_s")
        self.lines = LineStages(path, stamp_of(path), report_at, wanted, self.said.append)

    def look(self) -> list[tuple[float, dict[str, float]]]:
        self.lines.look()
        found = [(s.fraction, {k: m.value for k, m in s.metrics.items()}) for s in self.said]
        self.said.clear()
        return found


def test_the_first_line_at_or_beyond_each_point_is_a_stage_with_what_came_by_then(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    follow = Follower(path, 0.1, 0.3)
    assert follow.look() == []
    write(path, {"samples_per_s": 80}, {"progress": 0.05, "f1": 0.1})
    assert follow.look() == []
    write(
        path,
        {"progress": 0.12, "f1": 0.2, "other": 3},
        {"progress": 0.2, "f1": 0.25},
        '{"progress": 0.3, "f1"',
    )
    assert follow.look() == [(0.1, {"f1": 0.2, "samples_per_s": 80.0})]
    write(path, ": 0.4}\n", {"progress": 0.9, "f1": 0.5}, {"progress": 1, "f1": 0.6})
    assert follow.look() == [(0.3, {"f1": 0.4, "samples_per_s": 80.0})]
    assert follow.look() == []


def test_a_program_that_skips_points_reports_the_last_one_that_it_passed(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    follow = Follower(path, 0.1, 0.3)
    write(path, {"progress": 0.8, "f1": 0.4})
    assert follow.look() == [(0.3, {"f1": 0.4})]


def test_what_an_earlier_run_left_in_the_file_is_not_this_runs(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    write(path, {"progress": 0.5, "f1": 0.9})
    follow = Follower(path, 0.1)
    assert follow.look() == []
    write(path, {"progress": 0.1, "f1": 0.2})
    assert follow.look() == [(0.1, {"f1": 0.2})]


def test_lines_that_are_no_json_objects_and_progress_that_is_none_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    follow = Follower(path, 0.1)
    write(
        path,
        "epoch 1 of 9\n",
        "[1, 2]\n",
        {"progress": "half"},
        {"progress": -1},
        {"progress": 7},
        {"f1": 0.3},
    )
    assert follow.look() == []
    write(path, {"progress": 0.5})
    assert follow.look() == [(0.1, {"f1": 0.3})]


def test_a_trial_writes_the_stages_of_its_program_among_its_events(
    run_command: RunCommand, tmp_path: Path
) -> None:
    """The program waits until its stage is there, so no time is assumed."""
    script = (
        'cd {trial_dir}; echo \'{"progress": 0.2, "f1": 0.25}\' > lines.jsonl; '
        "for i in $(seq 400); do grep -q stage events.jsonl && break; sleep 0.05; done; "
        "echo '{\"f1\": 0.5}' >> lines.jsonl"
    )
    section = {"run": script, "shell": True, "metrics": {"lines": "{trial_dir}/lines.jsonl"}}
    found = run_command(section, wanted=("f1",), report_at=(0.1, 0.3))
    assert found.outcome is Outcome.COMPLETE, found.message
    assert found.metrics["f1"].value == 0.5
    (stage,) = read_stages(tmp_path / "trial")[0]
    assert (stage.fraction, stage.metrics["f1"].value, stage.steady) == (0.1, 0.25, ())


def test_stages_are_read_once_and_whole(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    assert read_stages(tmp_path) == ([], 0)
    write(events, {"event": "stage", **Stage(0.1).as_event()}, '{"event": "stage", "fraction": 0.3, "metr')
    stages, offset = read_stages(tmp_path)
    assert [stage.fraction for stage in stages] == [0.1]
    write(events, 'ics": {}, "steady": []}\n')
    stages, end = read_stages(tmp_path, offset)
    assert [stage.fraction for stage in stages] == [0.3]
    assert end == events.stat().st_size
