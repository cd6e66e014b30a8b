"""The timed passes: every replica serves until all have served enough, and none after one has died."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trials.inference.samples import PlannedBatch
from trials.inference.serving import Pass, Turnstile, serve

BATCHES = [(PlannedBatch((n,), 1, 0), {"x": np.array([n])}) for n in range(3)]


class Doubling:
    """An engine at whose ``at``-th call something happens."""

    def __init__(self, at, happens):
        self.calls, self._at, self._happens = 0, at, happens

    def run(self, batch):
        self.calls += 1
        if self.calls == self._at:
            self._happens()
        return {"y": 2 * batch["x"]}


def served(turnstile: Turnstile, engine: Doubling, window_s: float) -> Pass:
    return serve(engine, BATCHES, window_s, 0.0, turnstile, 0)


def test_a_replica_serves_on_until_the_other_has_served_enough_too(tmp_path: Path) -> None:
    turnstile = Turnstile.new(tmp_path / "turnstile", 2)
    engine = Doubling(8, lambda: turnstile.pass_through(1))
    found = served(turnstile, engine, window_s=0)
    assert engine.calls == len(found.durations_s) == 8
    assert {index: outputs["y"] for index, outputs in found.outputs.items()} == {0: 0, 1: 2, 2: 4}


def test_nobody_serves_out_the_window_after_a_replica_has_died(tmp_path: Path) -> None:
    turnstile = Turnstile.new(tmp_path / "turnstile", 2)
    engine = Doubling(8, turnstile.give_up)
    found = served(turnstile, engine, window_s=3600)
    assert engine.calls == 8
    assert found.outputs == {}
