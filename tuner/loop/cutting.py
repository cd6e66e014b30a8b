"""Whether a trial that runs can still reach the front: a pure function of what is known, without any IO.

The rule. A trial ends on the front only if no finished feasible trial beats it, so for each of these its chance
is at most the sum, over the objectives, of the chance of being the better one there; and it must meet every
limit. Where the smallest of these bounds is below ``RISK``, the trial is cut. No value is ever compared bare:

- a value that is **steady** (throughput) scatters as the baseline's repeats do; where their spread is not
  known, nothing is concluded;
- a quality reported **early** is carried to the end of the run by what finished trials gained from the very
  same point on, with the scatter of these gains;
- a quality of which **nothing** is known is what the sampler's model expects, with heavy tails since a model
  may be too sure of itself, or without a model as the qualities seen so far. So the best quality seen is not
  taken for a wall: beating it has a probability, and it is that which must be small.

``RISK`` is so small because a study cuts many trials: at one in a thousand, a hundred cut trials hold a member
of the front in one study of ten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean

from tuner import student_t
from tuner.comparison import CONFIDENCE, standard_deviation
from tuner.objectives import Bound, Objective
from tuner.pareto import front_indices
from tuner.search.protocol import Expected

RISK = 0.001
"""A trial is cut when its chance to be on the front is smaller."""
FEWEST_PAIRS = 6
"""Finished trials that reported at the same point, before an early quality is carried to the end."""
FEWEST_FINISHED = 8
"""Finished trials before their spread says what an unknown quality may be."""
MODEL_DEGREES = 4.0
"""Of Student's t for what a model expects: one in a thousand is then 7 of its standard deviations, not 3."""
_FINEST = 1e-3
"""Of the spread of final values: early values that are rounded more coarsely tell nothing about them."""
_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


@dataclass(frozen=True)
class Guess:
    """A number known within noise: Student's t around ``value``; ``error`` None: how much noise is unknown."""

    value: float
    error: float | None
    degrees: float = math.inf


@dataclass(frozen=True)
class Finished:
    """A complete trial: what it gave, by metric, and what it had reported early: fraction -> metric -> value."""

    number: int
    values: Mapping[str, Guess]
    is_feasible: bool
    early: Mapping[float, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Partial:
    """What a running trial has reported when ``fraction`` (0-1) of it is done, by metric."""

    fraction: float
    steady: Mapping[str, Guess]
    early: Mapping[str, float]


def should_cut(
    seen: Sequence[Finished],
    partial: Partial,
    objectives: Sequence[Objective],
    bounds: Sequence[Bound] = (),
    expected: Mapping[str, Expected] | None = None,
    risk: float = RISK,
) -> str | None:
    """Why the trial cannot reach the front any more, in one line; None while it can.

    ``bounds`` are the frozen limits; ``expected`` is what the sampler's model expects of this configuration.
    """
    known = guesses(seen, partial)
    for bound in bounds:
        if bound.metric in known and _chance_met(bound, known[bound.metric]) < risk:
            shown = _shown(bound.metric, known, partial)
            return f"{shown}, {partial.fraction:.0%} of the run done: breaks the limit {bound}"
    rivals = _front(seen, objectives)
    outlooks = [_outlook(o.metric, known, seen, expected or {}) for o in objectives]
    if not rivals:
        return None
    chances = [_chance_beside(rival, objectives, outlooks) for rival in rivals]
    least = min(range(len(rivals)), key=chances.__getitem__)
    return _said(rivals[least], objectives, known, partial) if chances[least] < risk else None


def guesses(seen: Sequence[Finished], partial: Partial) -> dict[str, Guess]:
    """By metric, what the run will give in the end, as far as that can be told from what it reported."""
    carried = {metric: _carried(metric, partial, seen) for metric in partial.early}
    return {**partial.steady, **{metric: guess for metric, guess in carried.items() if guess is not None}}


def _front(seen: Sequence[Finished], objectives: Sequence[Objective]) -> list[Finished]:
    """The feasible trials that none beats: against them the chances are smallest."""
    able = [trial for trial in seen if trial.is_feasible]
    return [
        able[i] for i in front_indices([[o.loss(t.values[o.metric].value) for o in objectives] for t in able])
    ]


def _chance_beside(
    rival: Finished, objectives: Sequence[Objective], outlooks: Sequence[Guess | None]
) -> float:
    """At most so likely the trial is not beaten by ``rival``: the sum of its chances to be better somewhere."""
    return sum(
        1.0 if guess is None else _chance_better(o, guess, rival.values[o.metric])
        for o, guess in zip(objectives, outlooks, strict=True)
    )


def _outlook(
    metric: str, known: Mapping[str, Guess], seen: Sequence[Finished], expected: Mapping[str, Expected]
) -> Guess | None:
    """What an objective may come out as; None where nothing may be concluded."""
    if metric in known:
        return known[metric]
    if len(seen) < FEWEST_FINISHED:
        return None
    if metric in expected:
        return _of_model(expected[metric])
    return _predicted([trial.values[metric].value for trial in seen])


def _carried(metric: str, partial: Partial, seen: Sequence[Finished]) -> Guess | None:
    """An early value carried to the end of the run; None while too few trials tell how."""
    now = partial.early[metric]
    pairs = [
        (trial.early[partial.fraction][metric], trial.values[metric].value)
        for trial in seen
        if metric in trial.early.get(partial.fraction, {}) and metric in trial.values
    ]
    if len(pairs) < FEWEST_PAIRS or not math.isfinite(now):
        return None
    if now > 0 and all(early > 0 and late > 0 for early, late in pairs):
        gain = _predicted([late / early for early, late in pairs])
        return Guess(now * gain.value, now * (gain.error or 0.0), gain.degrees)
    if _drowns([now, *(early for early, _ in pairs)], [late for _, late in pairs]):
        return None
    gain = _predicted([late - early for early, late in pairs])
    return Guess(now + gain.value, gain.error, gain.degrees)


def _drowns(early: Sequence[float], late: Sequence[float]) -> bool:
    """Whether early values are so large, as -1e18 for "nothing yet", that a gain has lost the digits of the end.

    Such gains seem to be all the same, and the end would seem certain.
    """
    return max(map(math.ulp, early)) > _FINEST * standard_deviation(late)


def _predicted(values: Sequence[float]) -> Guess:
    """One more value like these; of their logarithms where all are positive."""
    is_log = all(value > 0 for value in values)
    levels = [math.log(value) for value in values] if is_log else list(values)
    middle, n = fmean(levels), len(levels)
    error = standard_deviation(levels) * math.sqrt(1 + 1 / n)
    return Guess(math.exp(middle), math.exp(middle) * error, n - 1) if is_log else Guess(middle, error, n - 1)


def _of_model(expected: Expected) -> Guess:
    if expected.low > 0:
        error = expected.value * math.log(expected.high / expected.low) / (2 * _Z)
        return Guess(expected.value, error, MODEL_DEGREES)
    return Guess(expected.value, (expected.high - expected.low) / (2 * _Z), MODEL_DEGREES)


def _chance_better(objective: Objective, ours: Guess, theirs: Guess) -> float:
    """The probability that ``ours`` turns out better; 1 where the noise is unknown."""
    if ours.error is None or theirs.error is None:
        return 1.0
    is_log = ours.value > 0 and theirs.value > 0
    scales = (ours.value, theirs.value) if is_log else (1.0, 1.0)
    errors = (ours.error / scales[0], theirs.error / scales[1])
    worse_by = objective.loss(1.0) * (
        math.log(ours.value / theirs.value) if is_log else ours.value - theirs.value
    )
    error = math.hypot(*errors)
    if error == 0:
        return 1.0 if worse_by <= 0 else 0.0
    return student_t.cdf(-worse_by / error, _degrees(errors, (ours.degrees, theirs.degrees)))


def _degrees(errors: tuple[float, float], degrees: tuple[float, float]) -> float:
    """Degrees of freedom of a difference whose two errors rest on the same few repeats of the baseline.

    Satterthwaite's formula would count these repeats twice, once for each side.
    """
    total = sum(error**2 for error in errors)
    shares = sum(error**2 / freedom for error, freedom in zip(errors, degrees, strict=True))
    return total / shares if shares else math.inf


def _chance_met(bound: Bound, guess: Guess) -> float:
    """The probability that the limit holds; 1 where the noise is unknown."""
    if guess.error is None:
        return 1.0
    broken_by = bound.violation(guess.value)
    if guess.error == 0:
        return 1.0 if broken_by <= 0 else 0.0
    return student_t.cdf(-broken_by / guess.error, guess.degrees)


def _said(
    rival: Finished, objectives: Sequence[Objective], known: Mapping[str, Guess], partial: Partial
) -> str:
    ours = [_shown(o.metric, known, partial) for o in objectives if o.metric in known]
    theirs = [f"{o.metric} {rival.values[o.metric].value:.4g}" for o in objectives]
    so_far = f"{' and '.join(ours) or 'nothing known yet'}, {partial.fraction:.0%} of the run done"
    return f"{so_far}: beaten by trial {rival.number} ({', '.join(theirs)})"


def _shown(metric: str, known: Mapping[str, Guess], partial: Partial) -> str:
    carried = "" if metric in partial.steady else "about "
    return f"{metric} {carried}{known[metric].value:.4g}"
