"""How numbers are written for people, the same in every place that shows a study."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from tuner.comparison import Difference, Estimate, LimitStatus, is_lopsided
from tuner.objectives import Objective
from tuner.results.model import BASELINE, StudyResult, TrialResult

_NEAR_ONE = 0.1
_MANY_TIMES = 100.0
_WIDEST = 1e9
"""A number beyond it, or below its inverse, is written with an exponent: no column has room for its digits."""


STATUS_WORDS = {
    LimitStatus.MET: "met",
    LimitStatus.UNDECIDED: "limit undecided",
    LimitStatus.NOT_MET: "limit not met",
}
"""How a limit stands, the worst last."""


def limited(result: StudyResult) -> list[str]:
    """The metrics that are limited and are no objectives: each has a column of its own beside the front."""
    goals = {objective.metric for objective in result.objectives}
    return [m for m in dict.fromkeys(bound.metric for bound in result.bounds) if m not in goals]


def limit_status_on(trial: TrialResult, metric: str) -> LimitStatus | None:
    """How the limit on the metric stands, the worst of several; None where it has none."""
    found = [limit.status for limit in trial.limits if limit.bound.metric == metric]
    return max(found, key=list(STATUS_WORDS).index, default=None)


def limit_words(trial: TrialResult, metric: str) -> str:
    """``met``, ``limit undecided`` or ``limit not met``; '' where the metric has no limit."""
    status = limit_status_on(trial, metric)
    return "" if status is None else STATUS_WORDS[status]


def number_text(value: float, digits: int = 5) -> str:
    """So many significant digits, thousands grouped: ``24,892``, ``2.3172``, ``1.2e-07``."""
    if not math.isfinite(value):
        return str(value)
    if value and 10 ** (digits - 1) <= abs(value) < _WIDEST:
        return f"{round(value, digits - 1 - math.floor(math.log10(abs(value)))):,.0f}"
    return f"{value:,.{digits}g}"


def share_text(share: float) -> str:
    """``12.3%``; what is many times the whole in three digits: ``1.5e+42%``."""
    return f"{share:.1%}" if abs(share) < _MANY_TIMES else f"{number_text(100 * share, 3)}%"


def estimate_text(estimate: Estimate | None) -> str:
    """``24,892 ± 140 tokens/s``, half of the 95% interval; a dash where there is no value.

    ``100 (60 to 170) tokens/s`` where the interval's sides differ.
    """
    if estimate is None:
        return "–"
    unit = f" {estimate.unit}" if estimate.unit not in ("", "1") else ""
    if estimate.low is None or estimate.high is None:
        return f"{number_text(estimate.value)}{unit}"
    if is_lopsided(estimate.value, estimate.low, estimate.high):
        ends = f"{number_text(estimate.low, 3)} to {number_text(estimate.high, 3)}"
        return f"{number_text(estimate.value)} ({ends}){unit}"
    return f"{number_text(estimate.value)} ± {number_text((estimate.high - estimate.low) / 2, 2)}{unit}"


def gain_text(gain: Difference) -> str:
    """``x2.11 (2.05 to 2.17)``, ``x1.0318 (1.0290 to 1.0347)``, or a plain difference with its sign."""
    if gain.low is None or gain.high is None:
        return f"{_gain(gain.value, gain)}, interval unknown"
    ends = (_gain(end, gain).removeprefix("x") for end in (gain.low, gain.high))
    return f"{_gain(gain.value, gain)} ({' to '.join(ends)})"


def against_baseline(trial: TrialResult, objectives: Sequence[Objective]) -> str:
    """``x3.93 samples_per_s, val_loss_nats within noise``; '' where there is no baseline to compare with."""
    gains = [(o, trial.gain[o.metric]) for o in objectives if o.metric in trial.gain]
    return ", ".join(_against(objective, gain) for objective, gain in gains)


def advice(result: StudyResult) -> str:
    """What to do, in a line; '' while the front is empty: ``use trial 4: bf16``, ``keep what you run``."""
    found = result.recommended
    if found is None:
        return ""
    if found.trial != BASELINE:
        return f"use trial {found.trial}: {changes_text(result.trial(found.trial))}"
    gains = [
        t.gain[o.metric].is_improvement(o) for t in result.front_trials for o in result.objectives if t.gain
    ]
    return "keep what you run" if any(gains) else "keep what you run: nothing better is certain"


def nearest_lines(result: StudyResult) -> list[str]:
    """``trial 4 (bf16): x1.02 tokens_per_s, val_loss_nats within noise``: what the kept baseline was held against."""
    near = [result.trial(number) for number in result.recommended.nearest] if result.recommended else []
    return [
        f"trial {trial.number} ({changes_text(trial)}): {against_baseline(trial, result.objectives)}"
        for trial in near
    ]


def _against(objective: Objective, gain: Difference) -> str:
    if gain.low is None:
        return f"{_times(gain)} {objective.metric} (noise unknown)"
    if not gain.is_beyond_noise:
        return f"{objective.metric} within noise"
    return f"{_times(gain)} {objective.metric}{'' if gain.is_improvement(objective) else ' (worse)'}"


def _times(gain: Difference) -> str:
    """``x3.93``, with more digits near 1; a difference with its sign."""
    if not gain.is_ratio:
        return f"{gain.value:+.3g}"
    return f"x{number_text(gain.value, 3 if abs(gain.value - 1) > 0.1 else 5)}"


def value_text(value: Any, length: int = 60) -> str:
    """A parameter's value as the space file would write it, cut to ``length``."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= length else f"{text[: length - 3]}..."


def changes_text(trial: TrialResult, length: int = 44) -> str:
    """What differs from the baseline, in about ``length`` letters: ``bf16, micro_batch_size 8, ...``."""
    if trial.number == BASELINE:
        return "baseline"
    words = [_change(name, trial.config[name]) for name in trial.changes if name in trial.config]
    shown = len(words)
    while shown > 1 and len(", ".join(words[:shown])) > length:
        shown -= 1
    text = ", ".join(words[:shown]) or "as the baseline"
    text = text if len(text) <= length else f"{text[: length - 3]}..."
    return text if shown == len(words) else f"{text}, ..."


def _change(name: str, value: Any) -> str:
    """Words speak for themselves (``bf16``), numbers need their name (``micro_batch_size 8``)."""
    last = name.rsplit(".", 1)[-1]
    if isinstance(value, bool):
        return last if value else f"no {last}"
    return value if isinstance(value, str) and value else f"{last} {value_text(value)}"


def _gain(value: float, gain: Difference) -> str:
    """Ratios all in one form, so that a column can be read down; more digits where they are near 1."""
    if not gain.is_ratio:
        return f"{value:+.3g}"
    if not all(0.01 <= number < _WIDEST for number in (value, gain.value)):
        return f"x{number_text(value, 3)}"
    digits = 4 if abs(gain.value - 1) < _NEAR_ONE else 2
    return f"x{value:,.{digits}f}" if gain.value < 100 else f"x{value:,.0f}"
