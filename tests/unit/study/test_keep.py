"""Trial folders after a run: all of them stay unless the file says how many."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.unit.study.bench import FAST, LOSS, MEMORY, Bench, failed, gave, study_file
from trials.contract import Measurement, TrialSpec
from tuner.space.model import ConfirmSettings, KeepSettings

ONCE = ConfirmSettings(finalists=0, baseline_repeats=1)


def only_the_baseline_is_good(spec: TrialSpec, nth: int) -> Measurement:
    """x = 0 beats every other, and x = 5 crashes."""
    x = spec.config["x"]
    return failed("crash") if x == 5 else gave(**{FAST: 100.0 - x, LOSS: 2.0 + x, MEMORY: 1.0})


def folders(bench: Bench) -> list[int]:
    """The trials that have a folder, one entry a measurement."""
    places = [Path(run.log_dir) for trial in bench.record().trials for run in trial.measurements]
    return sorted(int(place.name.split("-")[0]) for place in places if place.is_dir())


def test_by_default_every_folder_stays(bench: Bench) -> None:
    bench.run(study_file(x=6, confirm=ONCE), only_the_baseline_is_good)
    assert folders(bench) == [0, 0, 1, 2, 3, 4, 5]


def test_what_stays_is_the_baseline_the_front_what_failed_and_the_last_few(bench: Bench) -> None:
    few = study_file(x=6, confirm=ONCE, keep=KeepSettings(trial_folders=2))
    bench.run(few, only_the_baseline_is_good)
    crashed = bench.xs().index(5)
    beaten = [number for number in range(1, 6) if number != crashed]
    assert folders(bench) == sorted([0, 0, crashed, *beaten[-2:]])
    assert any(note.startswith("keep.trial_folders: 2 trial folders deleted") for note in bench.notes.said)
    assert len(bench.record().trials) == 6, "the records keep every number"


def test_folders_that_lie_elsewhere_are_left_alone_and_said(bench: Bench, tmp_path: Path) -> None:
    bench.run(study_file(x=3, trials=3, confirm=ONCE), only_the_baseline_is_good)
    moved = Bench(tmp_path, bench.clock)
    for file in bench.folder.glob("tuner.db*"):
        shutil.move(file, tmp_path)
    none = study_file(x=3, trials=3, confirm=ONCE, keep=KeepSettings(trial_folders=0))
    ending, _ = moved.run(none, only_the_baseline_is_good)
    assert ending.failure is None
    assert any("nothing was deleted" in note for note in moved.notes.said)
    assert folders(moved) == [0, 0, 1, 2]
