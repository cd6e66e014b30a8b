"""A small Gaussian process: Matern 5/2, one length scale per parameter, noise fitted; numpy and scipy only.

The fit is the most probable one under weak priors (Rasmussen and Williams 2006, chapter 5), found by L-BFGS
from a fixed start, so that equal data give equal predictions in every process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

Floats = NDArray[np.float64]
_STEPS = 40
_JITTER = 1e-8
_SQRT5 = 5**0.5


@dataclass(frozen=True)
class Kernel:
    """Fitted hyperparameters: a length scale per axis; variances in units of the standardised target's."""

    length_scales: Floats
    signal: float
    noise: float


class Process:
    """A Gaussian process on standardised targets, conditioned on (x, y); ``errors`` (n,) are standard errors of y."""

    def __init__(self, kernel: Kernel, group: NDArray[np.intp], x: Floats, y: Floats, errors: Floats) -> None:
        self._kernel, self._group, self._x, self._y, self._errors = kernel, group, x, y, errors
        self._scale = 1 / kernel.length_scales[group]
        self._mean, self._std = _moments(y)
        gram = kernel.signal * _matern(_squared(x * self._scale, x * self._scale))
        gram[np.diag_indices_from(gram)] += kernel.noise + (errors / self._std) ** 2 + _JITTER
        self._lower = np.linalg.cholesky(gram)
        self._alpha = cho_solve((self._lower, True), (y - self._mean) / self._std)

    def believing(self, x: Floats) -> Process:
        """The process that has also seen its own mean at ``x``: surer there, the same everywhere else."""
        seen = np.concatenate([self._x, x]), np.concatenate([self._y, self.mean(x)])
        return Process(self._kernel, self._group, *seen, np.concatenate([self._errors, np.zeros(len(x))]))

    def mean(self, x: Floats) -> Floats:
        """The mean at each row, in the target's own units."""
        return np.asarray(self._mean + self._std * (self._cross(x) @ self._alpha))

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation (without noise) at each row, in the target's own units."""
        cross = self._cross(x)
        shrunk = solve_triangular(self._lower, cross.T, lower=True, check_finite=False)
        variance = np.maximum(self._kernel.signal - (shrunk**2).sum(axis=0), 1e-10)
        return self._mean + self._std * (cross @ self._alpha), self._std * np.sqrt(variance)

    def believed(self) -> Floats:
        """(n,) what the values that were seen are taken for, less the luck that their errors allow.

        What neither the parameters nor the errors explain is taken for the configuration's own.
        """
        own = self.noise_std**2
        share = np.where(self._errors > 0, own / (own + self._errors**2 + _JITTER * self._std**2), 1.0)
        expected = self.mean(self._x)
        return np.asarray(expected + share * (self._y - expected))

    @property
    def noise_std(self) -> float:
        """Standard deviation of what the parameters do not explain, in the target's own units."""
        return self._std * float(np.sqrt(self._kernel.noise))

    def _cross(self, x: Floats) -> Floats:
        return self._kernel.signal * _matern(_squared(x * self._scale, self._x * self._scale))


def fit(group: NDArray[np.intp], x: Floats, y: Floats, errors: Floats) -> Kernel:
    """The most probable hyperparameters for targets ``y`` (n,) with standard ``errors`` at ``x`` (n, columns)."""
    mean, std = _moments(y)
    target = (y - mean) / std
    axes = int(group.max()) + 1
    apart = np.stack([_squared(x[:, group == axis], x[:, group == axis]) for axis in range(axes)])
    centre = np.concatenate([np.full(axes, 0.5 * np.log(axes) + 0.5), [0.0, np.log(1e-3)]])
    spread = np.concatenate([np.full(axes, 1.0), [1.0, 2.0]])
    bounds = list(zip(centre - 3 * spread, centre + 3 * spread, strict=True))
    found = minimize(
        _negative_log_posterior, centre, args=(apart, target, (errors / std) ** 2, centre, spread),
        jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS},
    )  # fmt: skip
    theta = np.exp(found.x)
    return Kernel(theta[:axes], float(theta[axes]), float(theta[axes + 1]))


def _negative_log_posterior(
    theta: Floats, apart: Floats, y: Floats, known: Floats, centre: Floats, spread: Floats
) -> tuple[float, Floats]:
    axes, n = len(apart), len(y)
    weights, signal, noise = np.exp(-2 * theta[:axes]), np.exp(theta[axes]), np.exp(theta[axes + 1])
    distance = np.sqrt(np.maximum(np.tensordot(weights, apart, axes=1), 0.0))
    decay = np.exp(-_SQRT5 * distance)
    shape = (1 + _SQRT5 * distance + 5 / 3 * distance**2) * decay
    gram = signal * shape
    gram[np.diag_indices(n)] += noise + known + _JITTER
    try:
        lower = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return 1e25, np.zeros_like(theta)
    alpha = cho_solve((lower, True), y)
    inner = 0.5 * (cho_solve((lower, True), np.eye(n)) - np.outer(alpha, alpha))
    slope = signal * (5 / 6) * (1 + _SQRT5 * distance) * decay  # minus dk/d(distance^2)
    gradient = np.concatenate(
        [
            2 * weights * np.tensordot(apart, inner * slope, axes=2),
            [signal * (inner * shape).sum(), noise * np.trace(inner)],
        ]
    )
    deviation = (theta - centre) / spread
    value = 0.5 * y @ alpha + np.log(np.diag(lower)).sum() + 0.5 * deviation @ deviation
    return float(value), gradient + deviation / spread


def _moments(y: Floats) -> tuple[float, float]:
    std = float(y.std())
    return float(y.mean()), std if std > 1e-12 * max(1.0, abs(float(y.mean()))) else 1.0


def _squared(a: Floats, b: Floats) -> Floats:
    apart = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.asarray(np.maximum(apart, 0.0))


def _matern(squared: Floats) -> Floats:
    distance = _SQRT5 * np.sqrt(squared)
    return np.asarray((1 + distance + distance**2 / 3) * np.exp(-distance))
