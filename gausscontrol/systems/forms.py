"""Right sides of the moment system, in the two forms in which it is integrated (Theory 1.1, 1.6).

    covariance form   y = (mu, vech Sigma)            fast; only while Sigma is well conditioned
    factor form       y = (mu, rows of L)             L' = M L + L Omega, Omega skew

Omega does not change Sigma = L L^T. It is chosen so that |L'| is least, the horizontal lift of
the Bures-Wasserstein geometry: with G = L^T L and N = L^T M L, G Omega + Omega G = N^T - N. Then
L' vanishes at every equilibrium, where plain L' = M L rotates for ever if K != 0; and unlike
L' = L sym(L^-1 M L) it stays bounded by |M| |L| however ill-conditioned L is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf

from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.model.moments import MomentField

__all__ = ["GAUGE_FLOOR", "CovarianceFlow", "FactorFlow"]

# The covariance form hands over to the factor form when lambda_min / lambda_max falls below this.
HANDOVER_RATIO = 1e-5
# It also hands over when lambda_min falls below this multiple of the absolute tolerance, where
# rounding could make Sigma indefinite.
HANDOVER_FLOOR = 1e3
# Eigenvalues of L^T L below this share of the largest carry no digits of N = L^T M L.
GAUGE_FLOOR = 1e-12
# Up to this dimension the right side is evaluated as an expanded polynomial.
POLYNOMIAL_DIM = 4


class CovarianceFlow:
    """Right side of (1) on y = (mu, vech Sigma).

    Parameters
    ----------
    field_at : callable
        t -> MomentField; constant for constant inputs.
    dim : int
        Token dimension d.
    floor : float, optional
        Absolute tolerance on Sigma; eigenvalues near it are not told from zero. [x]^2
    constant : bool, optional
        Whether the field never changes, so that a small one is worth expanding.
    """

    def __init__(
        self,
        field_at: Callable[[float], MomentField],
        dim: int,
        floor: float = 0.0,
        constant: bool = False,
    ) -> None:
        self.field_at, self.dim, self._floor = field_at, dim, HANDOVER_FLOOR * floor
        self.size = dim + dim * (dim + 1) // 2
        self._full = vech_index(dim).full.reshape(dim, dim)
        self._diagonal = dim + self._full.diagonal()
        self._constant = None
        if constant:
            field = field_at(0.0)
            small = dim <= POLYNOMIAL_DIM
            self._constant = field.polynomial() if small else field.covariance_form

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        if self._constant is not None:
            return self._constant(y)
        return self.field_at(t).covariance_form(y)

    def jacobian(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return the exact Jacobian of `rate`."""
        return self.field_at(t).jacobian(y)

    def covariance(self, y: np.ndarray) -> np.ndarray:
        """Return Sigma, (d, d)."""
        return y[self.dim : self.size].take(self._full)

    def trace(self, y: np.ndarray) -> float:
        """Return tr Sigma."""
        return float(y.take(self._diagonal).sum())

    def trace_rate(self, y: np.ndarray, rate: np.ndarray) -> float:
        """Return (tr Sigma)', given y'."""
        return self.trace(rate)

    def is_degenerate(self, y: np.ndarray) -> bool:
        """Tell whether Sigma is too close to singular for this form."""
        S = self.covariance(y)
        # A Cholesky factor of what exceeds a stricter bound is had for a tenth of eigenvalues.
        excess = S.copy()
        excess.reshape(-1)[:: self.dim + 1] -= max(HANDOVER_RATIO * S.trace(), self._floor)
        if dpotrf(excess)[1] == 0:
            return False
        if not np.isfinite(S).all():
            return False
        values = np.linalg.eigvalsh(S)
        return bool(values[0] < max(HANDOVER_RATIO * values[-1], self._floor))


class FactorFlow:
    """Right side of (2) on y = (mu, rows of L), optionally with the transition matrix.

    Parameters
    ----------
    field_at : callable
        t -> MomentField; constant for constant inputs.
    dim, rank : int
        L is d x r.
    gauge : bool, optional
        Use the horizontal gauge (default); False integrates L' = M L itself.
    transition : bool, optional
        Append the rows of Psi, Psi' = M Psi.
    """

    def __init__(
        self,
        field_at: Callable[[float], MomentField],
        dim: int,
        rank: int,
        *,
        gauge: bool = True,
        transition: bool = False,
    ) -> None:
        self.field_at, self.dim, self.rank = field_at, dim, rank
        self.size = dim + dim * rank
        self._gauge = gauge and rank > 1
        self._transition = transition
        # With a gauge the right side has no short derivative; Radau differences it.
        self.jacobian = None if self._gauge or transition else self._plain_jacobian

    def _plain_jacobian(self, t: float, y: np.ndarray) -> np.ndarray:
        return self.field_at(t).factor_jacobian(y)

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        field, dim = self.field_at(t), self.dim
        mean, L = y[:dim], self.factor(y)
        S = L @ L.T
        M = field.drift(S)
        out = np.empty_like(y)
        out[:dim] = field.mean_rate(mean, S, M)
        out[dim : self.size] = self._factor_rate(M, L).reshape(-1)
        if self._transition:
            out[self.size :] = (M @ y[self.size :].reshape(dim, dim)).reshape(-1)
        return out

    def _factor_rate(self, M: np.ndarray, L: np.ndarray) -> np.ndarray:
        rate = M @ L
        if not self._gauge:
            return rate
        gram = L.T @ L
        if not np.isfinite(gram).all():
            return np.full_like(rate, np.nan)
        values, vectors = np.linalg.eigh(gram)
        product = vectors.T @ (L.T @ rate) @ vectors
        # Any skew matrix is a gauge: below the floor N is rounding, which must not be magnified.
        floor = max(GAUGE_FLOOR * values[-1], np.finfo(float).tiny)
        values = np.maximum(values, floor)
        skew = (product.T - product) / (values[:, None] + values)
        return rate + L @ (vectors @ skew @ vectors.T)

    def factor(self, y: np.ndarray) -> np.ndarray:
        """Return L, (d, r)."""
        return y[self.dim : self.size].reshape(self.dim, self.rank)

    def covariance(self, y: np.ndarray) -> np.ndarray:
        """Return Sigma, (d, d)."""
        L = self.factor(y)
        return L @ L.T

    def trace(self, y: np.ndarray) -> float:
        """Return tr Sigma."""
        return float(np.square(y[self.dim : self.size]).sum())

    def trace_rate(self, y: np.ndarray, rate: np.ndarray) -> float:
        """Return (tr Sigma)' = 2 <L, L'>, given y'."""
        return 2 * float(y[self.dim : self.size] @ rate[self.dim : self.size])

    def is_degenerate(self, y: np.ndarray) -> bool:
        """Return False: a factor represents any rank."""
        return False
