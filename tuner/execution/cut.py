"""Cutting one trial short: a file in its folder says why, and its guardian looks for it once a second.

A file, because the trial may run under an actor on another machine that shares the folder; where it does not,
nobody sees the trial's stages either, and it simply runs to its end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from trials.contract import Measurement, MetricValue, Outcome, write_atomically
from trials.stages import PARTIAL, Stage

CUT_FILE = "cut.json"
GUESSED = "guessed"
"""The fact of a measurement that was cut: metric -> best guess of its final value, and the standard error."""

Guesses = Mapping[str, tuple[float, float | None]]


def ask_to_cut(trial_dir: Path, why: str, guessed: Guesses | None = None) -> None:
    """Have the trial in this folder ended as ``pruned``. Where it cannot be written, the trial goes on."""
    with contextlib.suppress(OSError):
        write_atomically(trial_dir / CUT_FILE, json.dumps({"why": why, GUESSED: dict(guessed or {})}))


def cut_short(trial_dir: Path, stages: Sequence[Stage]) -> Measurement:
    """The measurement of a trial that was cut: why, what it had reported by then, what it looked like."""
    try:
        asked = json.loads((trial_dir / CUT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        asked = {"why": "cut short", GUESSED: {}}  # removed meanwhile: that it was cut is known all the same
    metrics: dict[str, MetricValue] = {}
    for stage in stages:
        method = f"{stage.fraction:.0%} of the run done"
        metrics |= {key: _partial(metric, method) for key, metric in stage.metrics.items()}
    facts = {GUESSED: asked[GUESSED]} if asked[GUESSED] else {}
    return Measurement(Outcome.PRUNED, message=asked["why"], metrics=metrics, facts=facts)


def _partial(metric: MetricValue, when: str) -> MetricValue:
    method = f"{metric.method}, {when}" if metric.method else when
    return dataclasses.replace(metric, flags=(*metric.flags, PARTIAL), method=method)
