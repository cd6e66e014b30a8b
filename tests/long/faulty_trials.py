"""Part (a): one study in which a share of the trials crash, hang, run out of memory, are killed, or report garbage."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tests.long.fates import SHARES, TYPED_AS, fate_of, xs_of
from tests.long.ground import Ground, Row, ground, wrong_in_the_end

SAMPLE_EVERY_S = 0.5
WARM_AT = 50  # trials after which the driver's memory is looked at
MOST_GROWTH = 0.10


@dataclass
class MemoryOfDriver:
    """Resident memory of the driver in MiB, by the number of the trial that was running."""

    seen: list[tuple[int, float]] = field(default_factory=list)

    def sample(self, pid: int, started: int) -> None:
        """Look once."""
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        lines = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        if lines:
            self.seen.append((started, int(lines[0].split()[1]) / 1024))

    def growth(self, warm_at: int, last: int) -> tuple[float, float] | None:
        """Memory at trial ``warm_at``, and at the end of the search: when trial ``last`` had just begun (the report
        comes later). None where one was not seen.
        """
        warm = [mib for started, mib in self.seen if started >= warm_at]
        late = [mib for started, mib in self.seen if started == last]
        return (warm[0], late[0]) if warm and late else None


def faulty_trials(trials: int, timeout_s: float = 4.0, memory: str = "256 MiB", each: int = 1) -> list[Row]:
    """The study, judged. ``each``: at least so many trials of every fate, whatever the sampler draws."""
    with ground() as place:
        place.write_space(
            trials,
            is_faulty=True,
            budget={"trials": trials, "trial_timeout": f"{timeout_s:g} s", "failures_in_a_row": trials},
            resources={"cpus": 1, "memory": memory},
            tracking={"mlflow": "sqlite:///mlflow.db"},
            try_first=[{"x": x} for fate in SHARES for x in islice(xs_of(fate), each)],
        )
        driver = place.start()
        memory_of_driver = MemoryOfDriver()
        while driver.poll() is None:
            memory_of_driver.sample(driver.pid, place.last_trial())
            time.sleep(SAMPLE_EVERY_S)
        left = place.left()
        shown = place.shown()
        rows = [_fate_row(fate, shown["trials"]) for fate in TYPED_AS]
        rows.append(_whole_row(place, shown, trials, driver.returncode, left))
        return [*rows, _memory_row(memory_of_driver, trials)]


def _fate_row(fate: str, shown: list[dict[str, Any]]) -> Row:
    mine = [trial for trial in shown if fate_of(trial["config"]["x"]) == fate]
    typed = Counter(trial["failure_kind"] or trial["outcome"] for trial in mine)
    lost = tuple(
        f"trial {trial['number']}: {trial['failure_kind'] or trial['outcome']} ({trial['message'][:80]})"
        for trial in mine
        if (trial["failure_kind"] or trial["outcome"]) not in TYPED_AS[fate]
    )
    return Row(f"trials: {fate} x {len(mine)}", ", ".join(f"{k} {n}" for k, n in typed.items()), lost)


def _whole_row(place: Ground, shown: dict[str, Any], trials: int, status: int, left: tuple[str, ...]) -> Row:
    wrong = wrong_in_the_end(place.record(), trials)
    if sum(shown["counts"].values()) != trials or sum(shown["failures"].values()) != shown["counts"].get(
        "failed", 0
    ):
        wrong.append(f"counts {shown['counts']} and failures {shown['failures']} do not add up to {trials}")
    if status != 0:
        wrong.append(f"exit status {status}: {place.said()[-300:]}")
    return Row(f"the study of {trials} trials", f"exit {status}, {shown['counts']}", tuple(wrong), left)


def _memory_row(memory: MemoryOfDriver, trials: int) -> Row:
    warm_at = min(WARM_AT, trials // 2)
    found = memory.growth(warm_at, max((started for started, _ in memory.seen), default=0))
    what = f"driver's memory, trial {warm_at} to {trials}"
    if found is None:
        return Row(what, "not seen", left=("no sample",))
    growth = found[1] / found[0] - 1
    left = (f"{growth:+.1%}",) if growth >= MOST_GROWTH else ()
    peak = max(mib for _, mib in memory.seen)
    return Row(
        what, f"{found[0]:.0f} to {found[1]:.0f} MiB ({growth:+.1%}), {peak:.0f} with the report", left=left
    )
