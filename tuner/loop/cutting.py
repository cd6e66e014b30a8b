"""Whether a trial that runs can still reach the front: a pure function of what is known, without any IO.

The rule. A trial ends on the front only if no finished feasible trial beats it, so for each of these its chance
is at most the sum, over the objectives, of the chance of being the better one there; and it must meet every
limit. Where the smallest of these bounds is below ``RISK``, the trial is cut. No value is ever compared bare:

- a value that is **steady** (throughput) scatters as the baseline's repeats do; where their spread is not
  known, nothing is concluded;
- a quality reported **early** is carried to the end of the run by what finished trials gained from the very
  same point on, with the scatter of these gains; n of them that agree promise no more than an nth of the spread
  of the ends, nor more than the noise of an end;
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
from statistics import NormalDist, fmean, median

from tuner import student_t
from tuner.comparison import CONFIDENCE, log_ratio, standard_deviation
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
_LARGEST_LOG = 700.0
"""Of a number that a float holds."""
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
        (trial.early[partial.fraction][metric], trial.values[metric])
        for trial in seen
        if metric in trial.early.get(partial.fraction, {}) and metric in trial.values
    ]
    if len(pairs) < FEWEST_PAIRS or not math.isfinite(now):
        return None
    early, late = [value for value, _ in pairs], [guess.value for _, guess in pairs]
    is_log = now > 0 and min(early) > 0 and min(late) > 0
    if not is_log and _drowns([now, *early], late):
        return None
    begin, end = ([math.log(v) for v in values] if is_log else values for values in (early, late))
    noise = [(guess.error or 0.0) / (guess.value if is_log else 1.0) for _, guess in pairs]
    gains = [b - a for a, b in zip(begin, end, strict=True)]
    middle, error, degrees = _next_of(gains, max(standard_deviation(end) / len(pairs), median(noise)))
    if error == 0:
        return None  # every trial ended alike: nothing shows how far one may differ
    if not is_log:
        return Guess(now + middle, error, degrees)
    return _positive(math.log(now) + middle, error, degrees)


def _drowns(early: Sequence[float], late: Sequence[float]) -> bool:
    """Whether early values are so large, as -1e18 for "nothing yet", that a gain has lost the digits of the end.

    Such gains seem to be all the same, and the end would seem certain.
    """
    return max(map(math.ulp, early)) > _FINEST * standard_deviation(late)


def _predicted(values: Sequence[float]) -> Guess:
    """One more value like these; of their logarithms where all are positive."""
    if min(values) <= 0:
        return Guess(*_next_of(values))
    return _positive(*_next_of([math.log(value) for value in values]))


def _next_of(levels: Sequence[float], least_spread: float = 0.0) -> tuple[float, float, float]:
    """Middle, error and degrees of freedom of one more of these. That a few agree by luck, to the last digit
    even, does not make the next one certain: they scatter by ``least_spread`` or more.
    """
    n = len(levels)
    spread = max(standard_deviation(levels), least_spread)
    return fmean(levels), spread * math.sqrt(1 + 1 / n), n - 1


def _positive(level: float, error: float, degrees: float) -> Guess:
    """From the logarithm of a value and its error."""
    value = math.exp(min(level, _LARGEST_LOG))
    return Guess(value, value * error, degrees)


def _of_model(expected: Expected) -> Guess:
    if expected.low > 0:
        error = expected.value * log_ratio(expected.high, expected.low) / (2 * _Z)
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
        log_ratio(ours.value, theirs.value) if is_log else ours.value - theirs.value
    )
    error = math.hypot(*errors)
    if error == 0:
        return 1.0 if worse_by <= 0 else 0.0
    return student_t.cdf(-worse_by / error, _degrees(errors, (ours.degrees, theirs.degrees)))


def _degrees(errors: tuple[float, float], degrees: tuple[float, float]) -> float:
    """Degrees of freedom of a difference whose two errors rest on the same few repeats of the baseline.

    Satterthwaite's formula would count these repeats twice, once for each side.
    """
    largest = max(errors)
    if largest == 0 or math.isinf(largest):
        return min(degrees)
    parts = [(error / largest) ** 2 for error in errors]
    return sum(parts) / sum(part / freedom for part, freedom in zip(parts, degrees, strict=True))


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
