"""Records that cannot be written: a lock or a full disk is waited out, then the study stops cleanly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.study.bench import Bench, failure_of, study_file
from tuner.loop.patience import PAUSES_S
from tuner.records.errors import RecordsUnavailable
from tuner.records.repository import Records

FILE = study_file(trials=4)


def fails(method: str, calls: Callable[[int], bool]) -> Callable[[Records], None]:
    """Makes a method fail at its n-th calls, counted from 1."""
    count = 0

    def patch(records: Records) -> None:
        works = getattr(records, method)

        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if calls(count):
                raise RecordsUnavailable("cannot use the records: the disk is full; free some space")
            return works(*arguments, **named)

        setattr(records, method, call)

    return patch


@pytest.mark.parametrize(
    "method", ["add_trial", "start_measurement", "finish_measurement", "freeze", "study"]
)
def test_a_short_absence_is_waited_out(bench: Bench, method: str) -> None:
    bench.patch = fails(method, lambda call: call in (1, 2) if method == "freeze" else call in (3, 4))
    ending, _ = bench.run(FILE)
    assert ending.failure is None
    assert bench.clock.slept == list(PAUSES_S[:2])
    assert len(bench.xs()) == 4
    assert any("the disk is full; free some space; next try in 1 s" in said for said in bench.notes.said)


def test_what_cannot_be_recorded_for_a_minute_stops_the_study_and_is_taken_over_later(bench: Bench) -> None:
    bench.patch = fails("finish_measurement", lambda call: call >= 5)
    ending, executor = bench.run(FILE)
    assert sum(bench.clock.slept) == 60.0
    assert failure_of(ending).startswith("cannot use the records: the disk is full; free some space\n")
    assert "in their folders" in failure_of(ending)
    assert ending.result is not None
    assert len(executor.searched()) == 2

    bench.patch = lambda records: None
    ending, executor = bench.run(FILE)
    assert ending.failure is None
    assert len(executor.searched()) == 1, "the one that was not recorded is not measured again"
    assert len(bench.runs(2)) == 1


def test_a_study_that_cannot_record_at_all_ends_with_one_clear_failure(bench: Bench) -> None:
    def all_away(records: Records) -> None:
        for method in ("finish_measurement", "set_stopped", "note", "release"):
            fails(method, lambda call: call > 5)(records)

    bench.patch = all_away
    ending, _ = bench.run(FILE)
    assert "the disk is full" in failure_of(ending)


def test_two_slots_do_not_wait_a_minute_each(bench: Bench) -> None:
    bench.patch = fails("finish_measurement", lambda call: call >= 5)
    ending, _ = bench.run(study_file(trials=6, at_once=2))
    assert ending.failure is not None
    assert sum(bench.clock.slept) == 60.0


def test_ctrl_c_ends_the_waiting(bench: Bench) -> None:
    bench.patch = fails("finish_measurement", lambda call: call >= 5)

    def press(executor: Any, source: Any) -> None:
        bench.clock.on_sleep = source.interrupt

    ending, _ = bench.run(FILE, on_step=press)
    assert ending.is_interrupted
    assert len(bench.clock.slept) == 1
