"""A view of a study cannot end it."""

from __future__ import annotations

import logging

import pytest

from tests.unit.study.bench import Bench, Notes, study_file
from tuner.loop.watching import Watchers


class Broken(Notes):
    def started(self, ticket, config):
        raise BrokenPipeError("nobody reads this any more")


def test_a_watcher_that_raises_is_told_no_more_and_the_others_are(caplog: pytest.LogCaptureFixture) -> None:
    broken, healthy = Broken(), Notes()
    watchers = Watchers([broken, healthy])
    watchers.note("before")
    watchers.started(None, {})  # type: ignore[arg-type]  # nobody looks at it
    watchers.note("after")
    assert broken.said == ["before"]
    assert healthy.said == ["before", "after"]
    assert "Broken failed and is told no more" in caplog.text
    assert "nobody reads this any more" in caplog.text


def test_a_study_outlives_its_only_watcher(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    bench.notes = Broken()
    ending, executor = bench.run(study_file(trials=3))
    assert ending.stopped_because == "budget of 3 trials is spent"
    assert len(executor.searched()) == 2


def test_an_interrupt_passes_through_a_watcher() -> None:
    class Pressed(Notes):
        def note(self, message):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Watchers([Pressed()]).note("hello")
