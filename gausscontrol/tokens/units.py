"""Hidden units of a feed-forward part under Gaussian tokens (Theory 8.1).

    h = act(g) u,    g = W_g x + c_g,    u = W_u x + c_u,    x ~ N(mu, Sigma)

A part without a gate is the case u = 1. With a_k = E act^(k)(g), v = Var g, kappa = Cov(u, g) and
b_k = E[act^(k)(g) u] = E u a_k + kappa a_(k+1),

    E h = b_0      dE h = b_1 W_g dmu + a_0 W_u dmu + b_2 dv / 2 + a_1 dkappa
    da_k = a_(k+1) W_g dmu + a_(k+2) dv / 2
    db_k = b_(k+1) W_g dmu + a_k W_u dmu + b_(k+2) dv / 2 + a_(k+1) dkappa

for dv = W_g dSigma W_g^T and dkappa = W_g dSigma W_u^T on the diagonal, since derivatives of a
Gaussian mean in mu and Sigma are means of derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gausscontrol.tokens.activations import Activation

__all__ = ["UnitMoments", "Units"]

ROUNDING = 4 * np.finfo(float).eps


class UnitMoments(NamedTuple):
    """Means under a Gaussian, one entry per unit on the last axis.

    `a` and `b` stack a_k and b_k; b has one order less than a unless there is no gate.
    """

    m: np.ndarray
    v: np.ndarray
    u: np.ndarray
    kappa: np.ndarray
    a: np.ndarray
    b: np.ndarray


@dataclass(frozen=True, eq=False)
class Units:
    """The hidden layer; `W_u` is None, and u = 1, where there is no gate."""

    activation: Activation
    W_g: np.ndarray
    c_g: np.ndarray
    W_u: np.ndarray | None
    c_u: np.ndarray | None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return h for tokens (N, d)."""
        h = self.activation(x @ self.W_g.T + self.c_g)
        if self.W_u is not None:
            h *= x @ self.W_u.T + self.c_u
        return h

    def slopes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the factors of W_g and W_u in Dh at one token (d,)."""
        value, slope = self.activation.derivatives(self.W_g @ x + self.c_g, 1)
        if self.W_u is None:
            return slope, None
        return slope * (self.W_u @ x + self.c_u), value

    def moments(self, mean: np.ndarray, S: np.ndarray, order: int) -> UnitMoments:
        """Return the means with b_0, ..., b_order.

        Parameters
        ----------
        mean : (d,) ndarray
        S : (d, d) ndarray
            Symmetric; a variance that is rounding of its terms, or negative, counts as zero.
        order : int
            At most 4 without a gate, at most 3 with one.

        Returns
        -------
        UnitMoments
        """
        m = self.W_g @ mean + self.c_g
        spread = self.W_g @ S
        v = np.einsum("ij,ij->i", spread, self.W_g)
        v[v <= ROUNDING * self._largest(S)] = 0.0
        s = np.sqrt(v)
        if self.W_u is None:
            a = self.activation.expectations(m, s, order)
            return UnitMoments(m, v, np.ones_like(m), np.zeros_like(m), a, a)
        u = self.W_u @ mean + self.c_u
        kappa = np.where(v > 0, np.einsum("ij,ij->i", spread, self.W_u), 0.0)
        a = self.activation.expectations(m, s, order + 1)
        return UnitMoments(m, v, u, kappa, a, u * a[:-1] + kappa * a[1:])

    def _largest(self, S: np.ndarray) -> np.ndarray:
        # What the terms of w^T S w add up to at most.
        return (np.abs(self.W_g) @ np.sqrt(np.maximum(np.diagonal(S), 0.0))) ** 2

    def mean_slopes(self, W2: np.ndarray, moments: UnitMoments) -> np.ndarray:
        """Return A_eq = W2 (diag(b_1) W_g + diag(a_0) W_u), given moments of order 1."""
        slope = (W2 * moments.b[1]) @ self.W_g
        return slope if self.W_u is None else slope + (W2 * moments.a[0]) @ self.W_u
