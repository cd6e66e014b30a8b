"""How much room a study's trial folders take, and which of them may go.

The records keep every number; a folder holds the log, the trial's files, and what it takes to run it alone.
Folders of failed measurements stay (they say why), as do those of the front, the baseline, and what runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from trials.contract import Outcome
from tuner.records.rows import MeasurementRecord, StudyRecord

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own block size is


@dataclass(frozen=True)
class TrialFolder:
    """The folder of one measurement. ``must_stay``: no setting lets it be deleted."""

    path: Path
    must_stay: bool


def folders_size(folders: Iterable[str | Path]) -> int:
    """Bytes on the disk of everything in these folders; one that is not there (any more) counts as nothing.

    Links are not followed, and a folder given twice, or inside another given one, counts once.
    """
    distinct = {Path(folder).absolute() for folder in folders}
    return sum(_size(path) for path in distinct if distinct.isdisjoint(path.parents))


def folders_of(study: StudyRecord, front: Collection[int]) -> list[TrialFolder]:
    """The folders of a study, the oldest first; ``front`` are the trials on the Pareto front."""
    stays: dict[Path, bool] = {}
    taken = [measurement for trial in study.trials for measurement in trial.measurements]
    for measurement in sorted(taken, key=lambda one: one.started_at):
        path = Path(measurement.log_dir)
        stays[path] = stays.get(path, False) or _must_stay(measurement, front)
    return [TrialFolder(path, must_stay) for path, must_stay in stays.items()]


def superfluous(folders: Iterable[TrialFolder], keep: int) -> list[Path]:
    """What goes when, of the folders that need not stay, only the last ``keep`` are kept."""
    if keep < 0:
        raise ValueError(f"cannot keep {keep} folders; say 0 or more")
    others = [folder.path for folder in folders if not folder.must_stay]
    return others[: max(0, len(others) - keep)]


def delete_folders(folders: Iterable[Path], inside: Path) -> int:
    """Delete folders below ``inside`` (the study's own); returns the bytes freed.

    ValueError, before anything is deleted, where one lies elsewhere: the paths come from a database, and the
    user's other files are not at its mercy. A folder that is gone already is passed over.
    """
    root = inside.resolve()
    chosen = [(folder, folder.parent.resolve() / folder.name) for folder in folders]
    for given, real in chosen:
        if root not in real.parents or given.name in ("", ".", ".."):
            raise ValueError(f"{given} is not inside {root}; nothing was deleted")
    freed = 0
    for _, real in chosen:
        if real.is_dir() and not real.is_symlink():
            size = _size(real)
            shutil.rmtree(real)
            freed += size
    return freed


def _must_stay(measurement: MeasurementRecord, front: Collection[int]) -> bool:
    is_wanted = measurement.trial_number == 0 or measurement.trial_number in front
    return is_wanted or measurement.outcome in (None, Outcome.FAILED)


def _size(folder: Path) -> int:
    total = 0
    for current, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(current) / name).st_blocks * _BLOCK_BYTES
            except FileNotFoundError:
                continue  # a running trial tidies up while we look
    return total
