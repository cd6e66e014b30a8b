"""Where the baseline's time goes decides what is tried first: one change each, of the knobs that work there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tuner.records.rows import TrialRecord
from tuner.search.axes import Axis, axes_of
from tuner.search.protocol import Proposal
from tuner.space.space import Config, Space

KNOBS = "knobs_to_search"
"""The fact of a profiled measurement that names them, the most promising first."""
REASON = "bottleneck"
MOST_LEADS = 3
TRIALS_A_LEAD = 8
"""Of a study's budget: the rest belongs to the sampler."""


def leads(space: Space, baseline: TrialRecord, budget_trials: int, seed: int) -> list[Proposal]:
    """Neighbours of the baseline, one for each named knob that the space searches; none where nothing was named."""
    named = next((run.facts[KNOBS] for run in baseline.measurements if KNOBS in run.facts), ())
    axes = {axis.name: axis for axis in axes_of(space)}
    found = (_changed(space, baseline.config, axes[name], seed) for name in named if name in axes)
    at_most = min(MOST_LEADS, budget_trials // TRIALS_A_LEAD)
    return [Proposal(config, REASON) for config in found if config is not None][:at_most]


def _changed(space: Space, baseline: Mapping[str, Any], axis: Axis, seed: int) -> Config | None:
    """The baseline with the nearest other value that is valid. Of an ordered axis the larger one first (batches,
    workers, buckets), but of degrees the smaller one: what is split further sends more.
    """
    if axis.name not in baseline or not axis.holds(baseline[axis.name]):
        return None
    near: Sequence[Any] = axis.neighbours(baseline[axis.name], np.random.default_rng(seed))
    if axis.is_ordered:
        near = sorted(near, reverse=not axis.name.endswith("_degree"))
    kept = {name: value for name, value in baseline.items() if name != axis.name}
    changed = (space.configure({**kept, axis.name: value}) for value in near)
    return next((config for config in changed if space.rejection(config) is None), None)
