from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trials.contract import Outcome, Purpose
from tuner.records.retention import TrialFolder, delete_folders, folders_of, folders_size, superfluous
from tuner.records.rows import MeasurementRecord, StudyRecord, TrialRecord

START = datetime(2026, 1, 1, tzinfo=UTC)


def a_measurement(trial: int, minute: int, outcome: Outcome | None, log_dir: str) -> MeasurementRecord:
    return MeasurementRecord(
        measurement_id=f"m{minute}",
        trial_number=trial,
        purpose=Purpose.SEARCH,
        seed=0,
        outcome=outcome,
        failure_kind=None,
        message="",
        metrics={},
        phases={},
        proof={},
        facts={},
        environment={},
        warnings=(),
        log_dir=log_dir,
        started_at=START + timedelta(minutes=minute),
        ended_at=None,
    )


def a_study(*measurements: MeasurementRecord) -> StudyRecord:
    numbers = sorted({m.trial_number for m in measurements})
    trials = tuple(
        TrialRecord(n, {}, "tpe", tuple(m for m in measurements if m.trial_number == n)) for n in numbers
    )
    return StudyRecord("lm", 1, START, START, "", "", {}, (), (), None, None, {}, None, trials)


def a_folder(path: Path, size_bytes: int) -> Path:
    path.mkdir(parents=True)
    (path / "trial.log").write_bytes(b"x" * size_bytes)
    return path


def test_the_size_counts_every_file_once_and_missing_folders_as_nothing(tmp_path: Path) -> None:
    first = a_folder(tmp_path / "1", 10_000)
    inner = a_folder(first / "deep" / "er", 20_000)
    alone = folders_size([first])
    assert 30_000 <= alone <= 50_000
    assert folders_size([first, str(first), inner, tmp_path / "gone"]) == alone
    assert folders_size([]) == 0


def test_the_size_does_not_follow_links(tmp_path: Path) -> None:
    big = a_folder(tmp_path / "big", 1_000_000)
    folder = a_folder(tmp_path / "trial", 10)
    (folder / "data").symlink_to(big)
    (folder / "file").symlink_to(big / "trial.log")
    assert folders_size([folder]) < 100_000


def test_folders_of_failures_of_the_front_of_the_baseline_and_of_what_runs_must_stay() -> None:
    study = a_study(
        a_measurement(0, 0, Outcome.COMPLETE, "/r/baseline"),
        a_measurement(1, 1, Outcome.FAILED, "/r/failed"),
        a_measurement(1, 2, Outcome.COMPLETE, "/r/retried"),
        a_measurement(2, 3, Outcome.COMPLETE, "/r/front"),
        a_measurement(3, 4, None, "/r/running"),
        a_measurement(4, 5, Outcome.PRUNED, "/r/pruned"),
    )
    folders = folders_of(study, front={2})
    assert {f.path.name: f.must_stay for f in folders} == {
        "baseline": True,
        "failed": True,
        "retried": False,
        "front": True,
        "running": True,
        "pruned": False,
    }


def test_folders_come_oldest_first_and_one_of_two_measurements_can_hold_it() -> None:
    study = a_study(
        a_measurement(1, 9, Outcome.COMPLETE, "/r/late"),
        a_measurement(2, 1, Outcome.FAILED, "/r/shared"),
        a_measurement(3, 2, Outcome.COMPLETE, "/r/shared"),
    )
    assert folders_of(study, ()) == [
        TrialFolder(Path("/r/shared"), True),
        TrialFolder(Path("/r/late"), False),
    ]


@pytest.mark.parametrize(("keep", "gone"), [(0, ["a", "c", "d"]), (1, ["a", "c"]), (3, []), (9, [])])
def test_of_what_need_not_stay_the_newest_are_kept(keep: int, gone: list[str]) -> None:
    folders = [TrialFolder(Path(name), name == "b") for name in "abcd"]
    assert [path.name for path in superfluous(folders, keep)] == gone


def test_a_negative_number_to_keep_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot keep -1"):
        superfluous([], -1)


def test_deleting_frees_what_it_says_and_passes_over_what_is_gone(tmp_path: Path) -> None:
    folder, other = a_folder(tmp_path / "lm" / "1", 10_000), a_folder(tmp_path / "lm" / "2", 10)
    size = folders_size([folder])
    assert delete_folders([folder, tmp_path / "lm" / "gone"], inside=tmp_path / "lm") == size
    assert (folder.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize("outside", ["..", "../other", "1/../../other", ".", "link/x"])
def test_nothing_outside_the_study_is_ever_deleted(tmp_path: Path, outside: str) -> None:
    study, other = tmp_path / "lm", a_folder(tmp_path / "other" / "x", 10)
    inside = a_folder(study / "1", 10)
    (study / "link").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match="nothing was deleted"):
        delete_folders([inside, study / outside], inside=study)
    assert other.exists()
    assert inside.exists()


def test_a_link_in_place_of_a_folder_is_left_alone(tmp_path: Path) -> None:
    other = a_folder(tmp_path / "other", 10)
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "1").symlink_to(other)
    assert delete_folders([tmp_path / "lm" / "1"], inside=tmp_path / "lm") == 0
    assert (other / "trial.log").exists()
