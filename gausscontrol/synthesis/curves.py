"""Paths that the user gives as functions of depth (Theory 6a to 6c).

    t -> (m(t), Sigma(t)),    Sigma = L L^T,    Sigma' = L' L^T + L L'^T

Velocities come from a second function, or from a Chebyshev interpolant whose degree is doubled
until its coefficients have decayed to rounding: for a smooth path the derivative is then accurate
to about 1e-11 of the range, where finite differences would stop at 1e-8. The factor is made of the
leading eigenvectors of Sigma, and L' is its shortest velocity:

    L' = (I - P) Sigma' L^{+T} + L (C / 2 + K),   C = L^+ Sigma' L^{+T},   L^T L' symmetric

with P = L L^+ and K skew. A path of rank r < d must move inside the covariances of rank r, where
(I - P) Sigma' (I - P) = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_vector
from gausscontrol.linalg.symmetric import covariance_matrix, symmetrise, vech, vech_index
from gausscontrol.synthesis.paths import PathPoint
from gausscontrol.synthesis.reach import Ends, numerical_rank

__all__ = ["UserPath"]

DEGREES = (16, 32, 64, 128, 256, 512)
# Coefficients of an interpolant that has converged, over the largest.
DECAYED = 1e-13
# They must at least decay to this, or the function is not smooth.
SMOOTH = 1e-9
# How well a path must meet its ends, and velocities the increments of the path, relative.
MEETS = 1e-8
AGREES = 1e-6
QUADRATURE = 96


class UserPath:
    """A path given by a function of depth.

    Parameters
    ----------
    function : callable
        t -> (mean, covariance), or (mean, factor) with a d x r factor, r < d; smooth in t.
    derivative : callable or None
        t -> (mean', covariance').
    ends : Ends
        What the path must start and end with.
    duration : float
        [t]

    Raises
    ------
    ParameterError, ShapeError
        If the function returns no Gaussian of the right rank, misses an end, is not smooth, or
        disagrees with its derivative.
    """

    knots: tuple[float, ...] = ()

    def __init__(
        self,
        function: Callable[[float], Any],
        derivative: Callable[[float], Any] | None,
        ends: Ends,
        duration: float,
    ) -> None:
        self._function, self._derivative, self._ends = function, derivative, ends
        self.duration, self._rank = duration, ends.L0.shape[1]
        self._dim = len(ends.mean0)
        self._check_ends()
        if derivative is None:
            self._state = _interpolant(self._sample, duration)
            self._state_rate = self._state.deriv()
        else:
            self._check_derivative()
        for t in np.linspace(0, duration, 33):
            self._check_rank(float(t))

    def point(self, t: float) -> PathPoint:
        """Return the Gaussian at a depth."""
        state, rate = self._evaluate(t)
        dim, full = self._dim, vech_index(self._dim).full.reshape(self._dim, self._dim)
        values, vectors = np.linalg.eigh(state[dim:][full])
        keep = slice(dim - self._rank, None)
        values, U = np.maximum(values[keep], np.finfo(float).tiny), vectors[:, keep]
        return PathPoint(state[:dim], rate[:dim], *_lift(U, values, rate[dim:][full]))

    @cached_property
    def energy(self) -> float:
        """Integral over depth of |m'|^2 + |L'|_F^2, by Gauss-Legendre quadrature. [x^2/t]."""
        nodes = _nodes(0.0, self.duration)
        return float(sum(weight * self.point(t).power for t, weight in nodes))

    # -- the functions ----------------------------------------------------------------------------

    def _evaluate(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        if self._derivative is None:
            return self._state(t), self._state_rate(t)
        return self._sample(t), self._sample_rate(t)

    def _sample(self, t: float) -> np.ndarray:
        mean, covariance = self._call(self._function, "path", t)
        covariance = real_array(covariance, "path covariance")
        if covariance.shape == (self._dim, self._rank) and self._rank < self._dim:
            covariance = covariance @ covariance.T
        covariance = covariance_matrix(covariance, "path covariance", self._dim)
        return np.concatenate([real_vector(mean, "path mean", self._dim), vech(covariance)])

    def _sample_rate(self, t: float) -> np.ndarray:
        mean, covariance = self._call(self._derivative, "derivative", t)
        rate = np.atleast_2d(real_array(covariance, "derivative covariance"))
        if rate.shape != (self._dim, self._dim):
            raise ShapeError(
                f"derivative: expected a {self._dim} x {self._dim} matrix, found shape "
                f"{np.shape(covariance)}; return (mean', covariance')"
            )
        mean = real_vector(mean, "derivative mean", self._dim)
        return np.concatenate([mean, vech(symmetrise(rate))])

    def _call(self, function: Callable, name: str, t: float) -> tuple:
        value = function(float(t))
        if not (isinstance(value, (tuple, list)) and len(value) == 2):
            raise ParameterError(
                f"{name}: expected a pair (mean, covariance) at depth {t:.6g}, found "
                f"{type(value).__name__}; return two arrays"
            )
        return tuple(value)

    # -- what a path must satisfy -----------------------------------------------------------------

    def _check_ends(self) -> None:
        ends = self._ends
        index = vech_index(self._dim)
        for name, t, mean, L in (
            ("start", 0.0, ends.mean0, ends.L0),
            ("goal", self.duration, ends.mean1, ends.L1),
        ):
            expected = np.concatenate([mean, (L @ L.T)[index.rows, index.columns]])
            size = np.abs(expected).max() or 1.0
            gap = np.abs(self._sample(t) - expected).max()
            if gap > MEETS * size:
                raise ParameterError(
                    f"path: expected the {name} at depth {t:.6g}, found it {gap:.2g} away; "
                    f"make the path and the {name} agree"
                )

    def _check_derivative(self) -> None:
        cuts = np.linspace(0, self.duration, 4)
        for left, right in pairwise(cuts):
            increment = self._sample(right) - self._sample(left)
            total = sum(weight * self._sample_rate(t) for t, weight in _nodes(left, right))
            size = np.abs(self._sample(left)).max() + np.abs(increment).max()
            gap = np.abs(total - increment).max()
            if gap > AGREES * size:
                raise ParameterError(
                    f"derivative: expected the rate of change of path, found integrals off by "
                    f"{gap:.2g} between depths {left:.6g} and {right:.6g}; leave it out to have "
                    "it computed"
                )

    def _check_rank(self, t: float) -> None:
        state, rate = self._evaluate(t)
        full = vech_index(self._dim).full.reshape(self._dim, self._dim)
        covariance = state[self._dim :][full]
        values, vectors = np.linalg.eigh(covariance)
        # An interpolant of a singular covariance is singular up to its own error.
        rank = self._rank if self._derivative is None else numerical_rank(covariance)
        low = self._rank and values[-self._rank] <= 10 * DECAYED * values[-1]
        rest = vectors[:, : self._dim - self._rank]
        spill = np.abs(rest.T @ rate[self._dim :][full] @ rest).max(initial=0.0)
        left_over = np.abs(values[: self._dim - self._rank]).max(initial=0.0)
        size = values[-1] or 1.0
        if low or rank != self._rank or max(left_over, spill * self.duration) > MEETS * size:
            raise ParameterError(
                f"path: expected rank {self._rank} throughout, found eigenvalues "
                f"{values[0]:.2g} to {values[-1]:.2g} at depth {t:.6g}; rank is invariant along (1)"
            )


def _lift(U: np.ndarray, values: np.ndarray, S_rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L = U sqrt(values), and the L' with L^T L' symmetric that gives S'."""
    root = np.sqrt(values)
    L = U * root
    product = S_rate @ (U / root)
    C = (U / root).T @ product
    skew = C * (values - values[:, None]) / (2 * (values + values[:, None]))
    outside = product - U @ (U.T @ product)
    return L, outside + L @ (symmetrise(C) / 2 + skew)


def _nodes(left: float, right: float) -> zip:
    x, weights = np.polynomial.legendre.leggauss(QUADRATURE)
    half = (right - left) / 2
    return zip(left + half * (x + 1), half * weights, strict=True)


def _interpolant(sample: Callable[[float], np.ndarray], duration: float) -> _Chebyshev:
    for degree in DEGREES:
        nodes = chebyshev.chebpts1(degree + 1)
        values = np.stack([sample(duration * (x + 1) / 2) for x in nodes])
        coefficients = chebyshev.chebvander(nodes, degree).T @ values * (2 / (degree + 1))
        coefficients[0] /= 2
        sizes = np.abs(coefficients).max(axis=1)
        tail = sizes[-max(degree // 8, 2) :].max()
        if tail <= DECAYED * sizes.max():
            break
    if tail > SMOOTH * (sizes.max() or 1.0):
        raise ParameterError(
            f"path: expected a smooth function of depth, found Chebyshev coefficients that are "
            f"still {tail / sizes.max():.1g} of the largest at degree {degree}; pass derivative=, "
            "or waypoints"
        )
    significant = np.flatnonzero(sizes > DECAYED / 100 * sizes.max())
    return _Chebyshev(coefficients[: significant.max(initial=0) + 1], duration)


class _Chebyshev:
    """A vector of polynomials on [0, duration]."""

    def __init__(self, coefficients: np.ndarray, duration: float) -> None:
        self._coefficients, self._duration = coefficients, duration

    def __call__(self, t: float) -> np.ndarray:
        return chebyshev.chebval(2 * t / self._duration - 1, self._coefficients)

    def deriv(self) -> _Chebyshev:
        scaled = chebyshev.chebder(self._coefficients, scl=2 / self._duration)
        return _Chebyshev(scaled, self._duration)
