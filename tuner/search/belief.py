"""What the model believes about configurations that nobody has run: objectives, limits, risk, cost.

Each is a Gaussian process of its own. Hyperparameters are fitted again only each time the history has grown
by a sixth (fits dominate the cost of an ask) and on the first so many trials by number, so that a resumed
study finds the same ones. Configurations that are running now are believed to give what the model expects of
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tuner.search.acquisition import expected_gain, probability_met
from tuner.search.features import FeatureMap
from tuner.search.history import History
from tuner.search.surrogate import Kernel, Process, fit
from tuner.space.space import Config

Floats = NDArray[np.float64]

WINDOW = 200  # observations that predictions rest on
FIT_WINDOW = 120  # observations that hyperparameters are fitted to
REMEMBERED_FITS = 32
GROWTH = 7 / 6
LABEL_NOISE = 0.25  # of "runs" (-1) against "fails" (+1): one failure is no certainty about its neighbours
_LARGEST = 100.0  # exponent
_TWO_SIDED = 1.96  # standard deviations that hold 95%
LOG_SPREAD = 2.0  # a positive quantity that spans more than this factor is modelled by its logarithm


@dataclass(frozen=True)
class Outlook:
    """Beliefs about n candidates: ``means``, ``stds`` (n, m) of scaled losses, ``runs`` (n,) the chance that it
    runs, ``meets`` (n,) that it meets the limits if so, ``cost`` (n,) the logarithm of what it costs.

    ``front`` (f, m), empty where nothing feasible is known, is in scaled losses as well, as are ``noises`` (m,),
    the standard deviations of what the parameters do not explain; ``scales`` turn all of these into losses.
    """

    means: Floats
    stds: Floats
    runs: Floats
    meets: Floats
    cost: Floats
    front: Floats
    scales: tuple[Scale, ...]
    noises: Floats

    def gain(self, sizes: tuple[int, int], reference: Floats | None, rng: np.random.Generator) -> Floats:
        """(n,) expected gain in hypervolume; 1 while nothing feasible is known: any such point is one.

        ``sizes``: directions, and steps along each. With a ``reference`` (m,) it is the hypervolume of the losses
        up to there; without, that of the scaled losses, where a factor counts alike at every size.
        """
        if not len(self.front):
            return np.ones(len(self.means))
        if reference is None:
            plain = (PLAIN,) * len(self.scales)
            return expected_gain(
                self.means, self.stds, plain, self.front, _beyond_worst(self.front), sizes, rng
            )
        front = np.stack([scale.invert(self.front[:, i]) for i, scale in enumerate(self.scales)], axis=1)
        return expected_gain(self.means, self.stds, self.scales, front, reference, sizes, rng)

    def of_one_run(self) -> list[tuple[float, float, float]]:
        """For each objective the loss that a run of the first candidate is expected to give: middle, low, high."""
        spread = _TWO_SIDED * np.hypot(self.stds[0], self.noises)
        bounds = zip(self.scales, self.means[0], spread, strict=True)
        losses = [scale.invert(np.array([mean, mean - reach, mean + reach])) for scale, mean, reach in bounds]
        return [(float(middle), float(low), float(high)) for middle, low, high in losses]

    def of(self, rows: NDArray[np.intp]) -> Outlook:
        """The same for some candidates."""
        kept = {name: getattr(self, name)[rows] for name in ("means", "stds", "runs", "meets", "cost")}
        return replace(self, **kept)


@dataclass(frozen=True)
class _Rows:
    """The observations that are fitted, those that predictions rest on, and what is running."""

    early: History
    recent: History
    x_early: Floats
    x_recent: Floats
    x_pending: Floats


Target = Callable[[History], tuple[Floats, Floats | None]]
"""(n,) what a process is about, NaN where an observation does not tell; its standard errors, None: exact."""


class Belief:
    """Learns from a history; keeps fitted hyperparameters between asks."""

    def __init__(self, features: FeatureMap) -> None:
        self._features = features
        self._fits: dict[bytes, Kernel] = {}

    def outlook(self, history: History, pending: list[Config], x: Floats) -> Outlook:
        """Beliefs about the configurations with features ``x`` (n, columns)."""
        rows = self._rows(history, pending)
        scales = tuple(Scale.of(column) for column in history.losses[~history.is_failed].T)
        processes = [self._process(rows, partial(_loss, i, scale)) for i, scale in enumerate(scales)]
        chances = self._chance(rows, _breaks, LABEL_NOISE, x), self._meets(rows, x)
        cost = self._cost(rows, x)
        if any(process is None for process in processes) or not rows.recent.is_feasible.any():
            nothing = np.zeros((len(x), len(scales)))
            return Outlook(nothing, nothing, *chances, cost, nothing[:0], scales, nothing[0])
        known = [p for p in processes if p is not None]
        means, stds = _columns([process.predict(x) for process in known])
        noises = np.array([process.noise_std for process in known])
        return Outlook(means, stds, *chances, cost, self._front(rows, known), scales, noises)

    def _front(self, rows: _Rows, known: list[Process]) -> Floats:
        """What is feasible, as it is believed to be, and what is running, as it is expected to come out."""
        is_told = ~rows.recent.is_failed
        seen = np.stack([process.believed()[: is_told.sum()] for process in known], axis=1)
        running = np.stack([process.mean(rows.x_pending) for process in known], axis=1)
        return np.concatenate([seen[rows.recent.is_feasible[is_told]], running])

    def _rows(self, history: History, pending: list[Config]) -> _Rows:
        early = history.take(range(_fitted_length(len(history)))).windowed(FIT_WINDOW)
        recent = history.windowed(WINDOW)
        of = self._features.of_configs
        return _Rows(early, recent, of(early.configs), of(recent.configs), of(pending))

    def _process(self, rows: _Rows, target: Target) -> Process | None:
        """A process for one quantity; None where fewer than two observations tell of it."""
        y, errors = target(rows.recent)
        told = np.isfinite(y)
        if told.sum() < 2:
            return None
        errors = np.zeros_like(y) if errors is None else errors
        kernel = self._kernel(rows.x_early, *target(rows.early))
        process = Process(kernel, self._features.group, rows.x_recent[told], y[told], errors[told])
        return process.believing(rows.x_pending) if len(rows.x_pending) else process

    def _kernel(self, x: Floats, y: Floats, errors: Floats | None) -> Kernel:
        told = np.isfinite(y)
        errors = np.zeros_like(y) if errors is None else errors
        key = x[told].tobytes() + y[told].tobytes() + errors[told].tobytes()
        if key not in self._fits:
            while len(self._fits) >= REMEMBERED_FITS:
                del self._fits[next(iter(self._fits))]
            self._fits[key] = fit(self._features.group, x[told], y[told], errors[told])
        return self._fits[key]

    def _meets(self, rows: _Rows, x: Floats) -> Floats:
        """(n,) probability that a configuration that runs meets every limit."""
        limits = range(rows.recent.violations.shape[1])
        chances = [self._chance(rows, partial(_violation, limit), 0.0, x) for limit in limits]
        return np.asarray(np.prod([np.ones(len(x)), *chances], axis=0))

    def _chance(self, rows: _Rows, target: Target, noise: float, x: Floats) -> Floats:
        """(n,) probability that the target is not above 0."""
        # what was never broken is taken to hold: one process less to pay for
        process = self._process(rows, target) if (target(rows.recent)[0] > 0).any() else None
        if process is None:
            return np.ones(len(x))
        mean, std = process.predict(x)
        return probability_met(mean, np.hypot(std, noise))

    def _cost(self, rows: _Rows, x: Floats) -> Floats:
        """(n,) logarithm of the expected cost; 0 where the trials tell of none."""
        process = self._process(rows, _log_cost)
        return np.zeros(len(x)) if process is None else process.mean(x)


@dataclass(frozen=True)
class Scale:
    """How a loss is modelled: as it is, or by the logarithm where the quantity is positive and wide; and with
    the worse half drawn together, because how bad a bad configuration is says little about the good ones.
    """

    sign: int  # 0: as it is; +1, -1: the loss is plus or minus a positive quantity
    middle: float = 0.0
    width: float = 1.0  # from the best to the middle

    @classmethod
    def of(cls, losses: Floats) -> Scale:
        """The scale that suits these losses (finite)."""
        size = np.abs(losses)
        has_one_sign = len(losses) > 0 and abs(float(np.sign(losses).sum())) == len(losses)
        is_wide = has_one_sign and float(size.max()) > LOG_SPREAD * float(size.min())
        plain = cls(int(np.sign(losses[0])) if is_wide else 0)
        if not len(losses):
            return plain
        level = plain._level(losses)
        middle = float(np.median(level))
        return cls(plain.sign, middle, (middle - float(level.min())) or 1.0)

    def apply(self, losses: Floats) -> Floats:
        """The scaled losses, in the same order; NaN stays NaN."""
        level = self._level(losses)
        beyond = np.maximum(level - self.middle, 0.0)
        return np.asarray(np.minimum(level, self.middle) + self.width * np.log1p(beyond / self.width))

    def invert(self, scaled: Floats) -> Floats:
        """The losses of scaled ones."""
        beyond = np.clip((scaled - self.middle) / self.width, 0.0, _LARGEST)
        level = np.minimum(scaled, self.middle) + self.width * np.expm1(beyond)
        if self.sign == 0:
            return np.asarray(level)
        return np.asarray(self.sign * np.exp(np.clip(self.sign * level, -_LARGEST, _LARGEST)))

    def _level(self, losses: Floats) -> Floats:
        if self.sign == 0:
            return losses
        size = self.sign * losses
        beyond_zero = -np.inf * self.sign  # a positive loss cannot get below 0, a negative one not above
        return np.where(size <= 0, beyond_zero, self.sign * np.log(np.where(size <= 0, 1.0, size)))


PLAIN = Scale(0, middle=np.inf)
"""Losses as they are."""


def _fitted_length(n: int) -> int:
    """The largest step of a geometric ladder that is not above ``n``."""
    step = 4
    while (following := max(step + 1, int(step * GROWTH))) <= n:
        step = following
    return min(step, n)


def _columns(predicted: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    return np.stack([mean for mean, _ in predicted], axis=1), np.stack([std for _, std in predicted], axis=1)


def _beyond_worst(losses: Floats) -> Floats:
    """A tenth of the range beyond the worst feasible value, so that both ends of the front count."""
    worst, best = losses.max(axis=0), losses.min(axis=0)
    return np.asarray(worst + 0.1 * np.where(worst > best, worst - best, 1.0))


def _breaks(history: History) -> tuple[Floats, None]:
    """+1 where a trial failed or left a limit unknown, -1 where it ran."""
    return np.where(history.is_failed | np.isposinf(history.violations).any(axis=1), 1.0, -1.0), None


def _loss(objective: int, scale: Scale, history: History) -> tuple[Floats, Floats]:
    losses, errors = history.losses[:, objective], history.errors[:, objective]
    # on a logarithmic scale an error as large as the value reaches to no end
    reach = np.minimum(errors, 0.5 * np.abs(losses)) if scale.sign else errors
    return scale.apply(losses), (scale.apply(losses + reach) - scale.apply(losses - reach)) / 2


def _violation(limit: int, history: History) -> tuple[Floats, None]:
    """By order of magnitude, in units of a usual margin: a latency may break its limit a thousandfold."""
    column = history.violations[:, limit]
    column = np.where(np.isfinite(column), column, np.nan)
    met, told = -column[column < 0], np.abs(column[np.isfinite(column)])
    margin = float(np.median(met)) if len(met) else float(told.min(initial=np.inf))
    width = margin if 0 < margin < np.inf else 1.0
    return np.asarray(np.sign(column) * np.log1p(np.abs(column) / width)), None


def _log_cost(history: History) -> tuple[Floats, None]:
    return np.where(history.costs_s > 0, np.log(np.maximum(history.costs_s, 1e-9)), np.nan), None
