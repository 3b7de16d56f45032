"""Decay of y = tr(P Sigma) at large covariances: witnesses, and what they show (Theory 5.1, 5.2).

    P > 0,   q_P(S) <= -k tr(P S)^2 on S >= 0,   P A + A^T P <= 2 a P   =>   y' <= 2 (a y - k y^2)

Candidates for P come from Lyapunov equations of A, of V and of combinations (Theory 5.4); where
they fail, from semidefinite programmes over the cone relaxation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.base import hurwitz_margin
from gausscontrol.certificates.comparison import (
    EPS,
    DenseForm,
    ProductForm,
    eigenvalue_rounding,
    gain,
    pencil_bounds,
)
from gausscontrol.certificates.cone import LARGEST_CONE, Search, Witness, cone_form, pencil
from gausscontrol.certificates.shared_key import SharedKey, shared_key
from gausscontrol.certificates.spectral import exact_riccati_decay
from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import is_positive_definite, svec, symmetrise

__all__ = ["Decay", "candidates", "decay", "mean_margin", "programmes", "trace_factor"]

# Weights of V beside A in the Lyapunov equations that are tried, in balanced units.
WEIGHTS = (0.0, 0.1, 1.0, 10.0)
# Rates a at which the bound is minimised, between the abscissa of A and the rate at hand.
RATE_SHARES = (0.1, 0.4, 1.0)
# Beyond this dimension forms on all symmetric matrices are not formed.
LARGEST_FORM_DIM = 16
# Beyond this one more P is not worth its cost where no form can be evaluated.
DENSE_DIM = 32


class Decay(NamedTuple):
    """y' <= 2 (rate y - gain y^2) where y >= floor, if it holds.

    The margin is that of q_P < 0, as a share of its size. Where q_P <= 0 holds exactly without
    being definite, gain and margin are zero.
    """

    rate: float
    gain: float
    margin: float
    holds: bool
    floor: float = 0.0

    def bound(self, factor: float) -> float:
        """Return an upper bound of limsup (factor y); infinite if none is shown."""
        if self.holds and self.rate < 0:
            return self.floor * factor
        if not (self.holds and self.gain > 0):
            return np.inf
        return float(self.rate / self.gain * factor) * (1 + 8 * EPS)

    def scaled(self, depth: float) -> Decay:
        """Return the numbers for rates divided by `depth`."""
        return self._replace(rate=self.rate / depth, gain=self.gain / depth)


def decay(found: Balanced, witness: Witness) -> Decay | None:
    """Return what a witness in balanced coordinates shows, or None.

    Parameters
    ----------
    found : Balanced
    witness : Witness

    Returns
    -------
    Decay or None
    """
    P, A = witness.P, found.model.A
    if not np.linalg.eigvalsh(P)[0] > eigenvalue_rounding(len(P)) * np.linalg.norm(P):
        return None
    _, high = pencil_bounds(*pencil(P, A))
    if not np.isfinite(high):
        return None
    form, v = _form(found, witness)
    if form is None or not form.usable:
        margin = -1.0 if form is None else min(form.lowest / (form.size or 1.0), 0.0)
        exact = _vanishes(found) or exact_riccati_decay(found)
        return Decay(high / 2, 0.0, 0.0 if exact else margin, exact)
    noise = 4 * len(P) * EPS * float(np.linalg.norm(P))
    return Decay(high / 2, gain(form, v, noise), form.lowest / form.size, True)


def _vanishes(found: Balanced) -> bool:
    """Tell whether every head is exactly zero."""
    heads = zip(found.model.V, found.model.B, strict=True)
    return not any(V.any() and B.any() for V, B in heads)


def _form(found: Balanced, witness: Witness) -> tuple[DenseForm | ProductForm | None, np.ndarray]:
    """Return Phi with q_P <= -Phi on S >= 0, and v with y = <v, .> in its coordinates."""
    key = shared_key(found.model) if witness.multiplier is None else None
    if key is not None:
        return _product_form(key, witness.P), witness.P
    if found.dim > LARGEST_FORM_DIM:
        return None, witness.P
    return cone_form(found.model, witness, -1.0), svec(witness.P)


def _product_form(key: SharedKey, P: np.ndarray) -> ProductForm:
    """Return tr(Q S B S), Q = -sym(P V), whose definiteness is that of two d x d matrices."""
    size = float(np.linalg.norm(P))
    error = (len(P) + 2) * EPS * size * float(np.linalg.norm(key.V))
    error += size * (key.error + key.rest / key.lowest)
    return ProductForm(-symmetrise(P @ key.V), key.B, error, 0.0)


def candidates(found: Balanced) -> Iterator[Witness]:
    """Yield positive definite P without a multiplier, in balanced coordinates."""
    model = found.model
    key = shared_key(model)
    if key is not None:
        V, weights = key.V, (key.B, np.eye(found.dim))
        yield Witness(key.B)
    else:
        # The head that S = I sees, up to a sign that tr B_h gives.
        V = np.tensordot(np.trace(model.B, axis1=1, axis2=2) / found.dim, model.V, axes=1)
        weights = (np.eye(found.dim),)
        yield Witness(np.eye(found.dim))
        if found.dim > DENSE_DIM and not (_vanishes(found) or exact_riccati_decay(found)):
            return
    matrices = [V, *(model.A + weight * V for weight in WEIGHTS)]
    for X in matrices:
        for weight in weights:
            P = _lyapunov(X, weight)
            if P is not None:
                yield Witness(P)


def _lyapunov(X: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
    """Return P > 0 of norm 1 with X^T P + P X a negative multiple of the weight, if any."""
    try:
        P = solve_lyapunov(X.T, weight)
    except MatrixEquationError:
        return None
    return P / np.linalg.norm(P) if is_positive_definite(P) else None


def programmes(found: Balanced, *, decaying: bool) -> Iterator[Witness]:
    """Yield witnesses from semidefinite programmes, none beyond d = 10.

    Parameters
    ----------
    found : Balanced
    decaying : bool
        Whether P A + A^T P < 0 is required too; otherwise the bound is then minimised.
    """
    if found.dim > LARGEST_CONE:
        return
    search = Search(found.model, -1.0)
    first = search.definite(decaying=decaying)
    if first is None:
        return
    yield first
    shown = decay(found, first)
    if decaying or shown is None or not shown.holds:
        return
    abscissa = float(np.linalg.eigvals(found.model.A).real.max())
    for share in RATE_SHARES:
        rate = max(abscissa + share * (shown.rate - abscissa), 1e-6)
        sharper = search.sharpest(rate)
        if sharper is not None:
            yield sharper


def trace_factor(P: np.ndarray, scale: np.ndarray) -> float:
    """Return an upper bound of tr(D^-1 S D^-1) / tr(P S) over S >= 0.

    Parameters
    ----------
    P : (d, d) ndarray
        Positive definite.
    scale : (d,) ndarray
        Diagonal of D.

    Returns
    -------
    float
        lambda_max(D^-1 P^-1 D^-1).
    """
    values = np.linalg.eigvalsh(P)
    lowest = values[0] - eigenvalue_rounding(len(P)) * np.linalg.norm(P)
    inverse = np.linalg.inv(np.linalg.cholesky(P)) / scale
    rough = 64 * len(P) * EPS * values[-1] / lowest
    return float(np.linalg.norm(inverse, 2)) ** 2 * (1 + rough) if rough < 1 else np.inf


def mean_margin(found: Balanced, reach: float) -> float:
    """Verify that A + Vbar + T(S) is Hurwitz by one P for all S of trace up to `reach`."""
    if not np.isfinite(reach):
        return -np.inf
    model, scale = found.model, found.scale
    V = scale[:, None] * found.original.V / scale * found.depth
    norms = np.linalg.norm(model.V, 2, axis=(1, 2)) * np.linalg.norm(model.B, 2, axis=(1, 2))
    rounding = (model.n_heads + 2) * EPS * float(np.linalg.norm(V, axis=(1, 2)).sum())
    change = float(norms.sum()) * reach * (1 + 1e-9) + rounding
    return hurwitz_margin(model.A + V.sum(axis=0), change)
