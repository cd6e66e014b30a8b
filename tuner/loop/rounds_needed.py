"""How many runs confirmation takes. Light: ``tuner check`` says it before anything is loaded or run."""

from __future__ import annotations

from tuner.space.model import ConfirmSettings

EXTRA_ROUNDS = 3
"""Further rounds for a finalist while one of its limits stays undecided."""
MOST_CONFIRMED = 2
"""So many times ``confirm.finalists`` are confirmed at most: each may be replaced once where it falls."""


def confirm_runs(settings: ConfirmSettings, trials: int, *, has_limits: bool) -> tuple[int, int]:
    """Runs where every finalist holds, and the most there can be, of a study of so many ``trials``.

    The most: each finalist falls, its replacement runs rounds of its own with the baseline, and every limit
    stays undecided to the end.
    """
    others = max(trials - 1, 0)
    first = min(settings.finalists, others)
    if not first:
        return 0, 0
    least = settings.repeats * (first + 1)
    replaced = min(MOST_CONFIRMED * settings.finalists, others) - first
    undecided = EXTRA_ROUNDS * (first + 1) if has_limits else 0
    return least, least + settings.repeats * 2 * replaced + undecided
