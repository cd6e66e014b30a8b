"""Part (b): the driver of one study is killed again and again, at moments drawn by chance, and started again."""

from __future__ import annotations

import json
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.processes import wait_until
from tests.long.ground import Ground, Row, ground, runs, wrong_in_the_end

EARLY_SHARE = 0.25  # of the kills come while the program starts; the others once it measures
EARLY_S, LATE_S = 8.0, 1.5
TRIALS_PER_KILL = 6  # a run must not measure more than that before it is killed, or the study ends too soon
START_WITHIN_S = 300.0
MOST_LOST = 10  # then the rest would say nothing new

Finished = dict[str, Any]
"""What was recorded of each measurement that had ended, by its id."""


@dataclass
class Progress:
    """How far the killing is; kept beside the study, so that a later call of the campaign goes on."""

    killed: int = 0
    lost: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> Progress:
        """As kept in ``file``; fresh where there is none."""
        return cls(**json.loads(file.read_text())) if file.exists() else cls()

    def write(self, file: Path) -> None:
        """Keep it."""
        file.write_text(json.dumps(vars(self)))


def killed_drivers(
    kills: int, seed: int = 0, folder: Path | None = None, until: float = float("inf")
) -> list[Row]:
    """One study of no-op trials, its driver killed up to ``kills`` times; a study that is done earlier says so.

    With a ``folder`` the study stays there. Past ``until`` (monotonic clock) no further driver is started: the
    row then says how far it came, and the next call with the folder goes on.
    """
    budget = 6 + TRIALS_PER_KILL * kills
    with ground(folder) as place:
        place.write_space(budget)
        file = place.runtime / "progress.json"
        progress = Progress.read(file)
        while progress.killed < kills:
            if time.monotonic() > until:
                said = f"so far {progress.killed} of {kills} kills; the same command goes on"
                return [Row("the driver killed", said, tuple(progress.lost), place.left(), is_final=False)]
            seen = _killed_at_a_moment(place, place.start(), random.Random(f"{seed}:{progress.killed}"))
            if seen is None and place.drivers[-1].returncode == 0:
                break
            if seen is None:
                progress.lost.append(f"a run ended by itself: {place.said()[-300:]}")
            else:
                progress.killed += 1
                progress.lost += _gone(seen, place)
            progress.write(file)
            if len(progress.lost) >= MOST_LOST:
                break
        return [_end(place, budget, progress)]


def _end(place: Ground, budget: int, progress: Progress) -> Row:
    """Let the study come to its end, undisturbed, and judge it."""
    seen = _finished(place)
    status = place.run()
    lost = [*progress.lost, *_gone(seen, place), *wrong_in_the_end(place.record(), budget)]
    if status != 0:
        lost.append(f"exit status {status}: {place.said()[-300:]}")
    cut = sum(run.failure_kind == "interrupted" for run in runs(place.record()))
    what = f"the driver killed {progress.killed} times over {budget} trials"
    return Row(what, f"exit {status}; interrupted {cut}", tuple(lost), place.left())


def _killed_at_a_moment(
    place: Ground, driver: subprocess.Popen[bytes], chance: random.Random
) -> Finished | None:
    """SIGKILL the driver, early or while it measures; what had ended just before. None where it was done by itself."""
    if chance.random() < EARLY_SHARE:
        time.sleep(chance.uniform(0, EARLY_S))
    else:
        before = len(_finished(place))  # or a slow machine would never get past its first measurement
        wait_until(lambda: driver.poll() is not None or len(_finished(place)) > before, START_WITHIN_S)
        time.sleep(chance.uniform(0, LATE_S))
    seen = _finished(place)
    if driver.poll() is not None:
        return None
    driver.kill()
    driver.wait()
    return seen


def _finished(place: Ground) -> Finished:
    return {
        run.measurement_id: (run.outcome, run.failure_kind, dict(run.metrics), run.ended_at)
        for run in runs(place.record())
        if run.outcome is not None
    }


def _gone(seen: Finished, place: Ground) -> list[str]:
    """What had ended before and is not there any more as it was."""
    now = _finished(place)
    return [f"{name} was finished and is gone or changed" for name in seen if now.get(name) != seen[name]]
