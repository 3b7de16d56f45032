"""Where an exact equilibrium lies near a computed one, rounding included (Theory 3.4, 4.1).

    beta c eta <= 1/2,   beta = |L^-1|,  eta = |L^-1 F(I)|,  c = 4 sum_h |V_h| |B_h|
    =>  F has a zero, and only one, within (1 - sqrt(1 - 2 beta c eta)) / (beta c) of I

Coordinates are y = R x, where R is the floating-point Sigma^(-1/2), taken as exact. What rounding
makes of R A R^-1, R V_h R^-1 and R^-T B_h R^-1 is bounded entry by entry, so that a statement
about the computed matrices with these bounds to spare is one about the exact model. Continuous
depth only: the map of a layer is cubic.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from gausscontrol.analysis.form import form_is_degenerate, form_maximum, form_tolerance
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.symmetric import whitening
from gausscontrol.model.heads import Heads
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["FormEvidence", "WhitenedPoint", "form_evidence", "inverse_norm"]

EPS = float(np.finfo(float).eps)
# Whitened radius up to which an enclosure is of use: I + Delta stays well inside the cone.
LARGEST_RADIUS = 0.5


class FormEvidence(NamedTuple):
    """The attention form at a computed equilibrium and over the enclosure of the exact one.

    `alpha` is computed, `rounding` bounds its error, `radius` encloses the exact equilibrium
    (infinite if that fails), and `margin` is what is left of alpha there.
    """

    alpha: float
    rounding: float
    radius: float
    margin: float


class WhitenedPoint:
    """A model in coordinates whitened at a covariance, with bounds on the rounding.

    Parameters
    ----------
    model : GaussianTransformer
    covariance : (d, d) ndarray
        Positive definite.

    Attributes
    ----------
    white : GaussianTransformer
        The model as computed in the coordinates R x.
    root : (d, d) ndarray
        Sigma^(1/2), which carries whitened vectors back. [x]
    drift : (d, d) ndarray
        M(I).
    bound : float
        sum_h |V_h| |B_h|.
    attention_error : float
        Bounds |T(E) - exact|_F / |E|_F, also with T assembled as a matrix.
    drift_error, total_error : float
        Bound |M(I) - exact|_F and |Vbar - exact|_F.
    """

    def __init__(self, model: GaussianTransformer, covariance: np.ndarray) -> None:
        R, root = whitening(covariance)
        self._covariance, self._R, self.root = covariance, R, root
        self.white = white = model.in_coordinates(R, root, "Sigma")
        dim, heads = white.dim, white.heads
        # Covers every chain of products here; T(I) sums h d terms.
        self.unit = (white.n_heads + 3) * dim * EPS
        attention = heads.attention(np.eye(dim))
        self.drift = white.A + attention
        self.bound = heads.norm_bound()
        self._defect = self._inverse_defect()
        # Entrywise bounds of every term in R A R^-1, and heads made of those of the others.
        size_R, size_root = np.abs(R), np.abs(root)
        size_A = np.linalg.norm(size_R @ np.abs(model.A) @ size_root)
        sizes = type(model.heads)(*(np.abs(array) for array in model.heads.arrays))
        self._bound_attention_errors(sizes.transform(size_R, size_root))
        norm_A = np.linalg.norm(white.A)
        self.drift_error = float(
            self.unit * size_A
            + self._defect * norm_A
            + np.sqrt(dim) * self.attention_error
            + EPS * (norm_A + np.linalg.norm(attention))
        )

    def _bound_attention_errors(self, sizes: Heads) -> None:
        # `sizes` bounds |R| |V_h| |R^-1| and |R^-T| |B_h| |R^-1| entry by entry.
        unit, defect, heads = self.unit, self._defect, self.white.heads
        norm_V, norm_B = _norms(heads.V), _norms(heads.B)
        error_V = unit * _norms(sizes.V) + defect * norm_V
        error_B = unit * _norms(sizes.B) + 3 * defect * norm_B
        self.total_error = float(error_V.sum())
        self.attention_error = float(
            (error_V * norm_B + norm_V * error_B + error_V * error_B).sum()
            + unit * (norm_V * norm_B).sum()
        )

    @property
    def asymmetry(self) -> np.ndarray:
        """F(I) = M + M^T as computed."""
        return self.drift + self.drift.T

    @property
    def offset(self) -> float:
        """Bound |R Sigma R - I|_F: how far the covariance itself is from the identity."""
        R, S = self._R, self._covariance
        rounding = self.unit * np.linalg.norm(np.abs(R) @ np.abs(S) @ np.abs(R))
        return float(np.linalg.norm(R @ S @ R - np.eye(len(S))) + rounding)

    @cached_property
    def radius(self) -> float:
        """Newton-Kantorovich radius around the identity, from |L^-1|; infinite if that fails."""
        if self.white.dim > DENSE_DIM:  # no explicit inverse
            if form_is_degenerate(self.white.heads):
                return np.inf
            try:
                return form_evidence(self).radius
            except GausscontrolError:  # the form is not known, so nothing is proven
                return np.inf
        return self.radius_from(inverse_norm(self, dense_operator(self.white)))

    def radius_from(self, beta: float) -> float:
        """Return that radius for an upper bound on |L^-1|."""
        if self.white.dt or not np.isfinite(beta):
            return np.inf
        eta = beta * (np.linalg.norm(self.asymmetry) + 2 * self.drift_error)
        product = 4 * (self.bound + self.attention_error) * beta * eta
        if not product <= 0.5:
            return np.inf
        # eta is the limit of the radius as the product vanishes; this is the textbook formula
        # without its cancellation.
        radius = float(2 * eta / (1 + np.sqrt(1 - 2 * product)))
        return radius if radius < LARGEST_RADIUS else np.inf

    def distance(self, radius: float) -> float:
        """Bound the distance of Sigma from what is within a radius of the identity. [x]^2."""
        S, X = self._covariance, self.root
        rounding = self.unit * np.linalg.norm(np.abs(X) @ np.abs(X))
        scale = np.linalg.norm(X, 2) ** 2 * (1 + 3 * self._defect)
        slip = np.linalg.norm(S - X @ X) + rounding + 3 * self._defect * scale * np.sqrt(len(S))
        return float(slip + scale * radius)

    def _inverse_defect(self) -> float:
        # |R X - I|, X the computed inverse: R^-1 = X (I + defect)^-1.
        R, X = self._R, self.root
        defect = np.linalg.norm(R @ X - np.eye(len(R)))
        defect += self.unit * np.linalg.norm(np.abs(R) @ np.abs(X))
        return float(defect / (1 - defect)) if defect < 0.5 else np.inf


def form_evidence(point: WhitenedPoint) -> FormEvidence:
    """Evaluate the attention form where the exact equilibrium must be.

    Parameters
    ----------
    point : WhitenedPoint

    Returns
    -------
    FormEvidence
        A positive margin proves that q <= -margin |E|^2 for the form q(E) = tr(X T(E) E) at the
        exact equilibrium, X its inverse, hence that it attracts globally and is the only one.

    Notes
    -----
    Theory 4.1. For the identity <E, L(E)> = 2 q(E) + 2 <E, sym(M) E>, so the numerical range of L
    bounds |L^-1|, and q changes by at most bound * r / (1 - r) within a distance r.
    """
    white, dim = point.white, point.white.dim
    alpha = -form_maximum(white)
    solver = dim * (dim + 1) / 2 * EPS if dim <= DENSE_DIM else form_tolerance(dim)
    rounding = point.attention_error + solver * point.bound
    defect = float(np.linalg.norm(point.asymmetry, 2)) + 2 * point.drift_error
    strength = 2 * (alpha - rounding) - defect
    if not strength > 0:
        # A definite form at what is no equilibrium says nothing.
        return FormEvidence(alpha, rounding, np.inf, -np.inf if alpha > rounding else strength / 2)
    radius = point.radius_from(1 / strength)
    if not np.isfinite(radius):
        return FormEvidence(alpha, rounding, np.inf, -np.inf)
    change = (point.bound + point.attention_error) * radius / (1 - radius)
    return FormEvidence(alpha, rounding, radius, alpha - rounding - change)


def inverse_norm(point: WhitenedPoint, J: np.ndarray) -> float:
    """Bound |L^-1| for the exact covariance linearisation.

    Parameters
    ----------
    point : WhitenedPoint
    J : (n, n) ndarray
        The computed linearisation on svec.

    Returns
    -------
    float
        Infinite if L is singular to working precision.
    """
    try:
        inverse = np.linalg.inv(J)
    except np.linalg.LinAlgError:
        return np.inf
    # The exact operator is J + D, |D| <= error, and inverse J = I - defect.
    error = 2 * (point.drift_error + point.attention_error) + point.unit * np.linalg.norm(J)
    size = _spectral_bound(inverse)
    with np.errstate(over="ignore", invalid="ignore"):
        defect = _spectral_bound(np.eye(len(J)) - inverse @ J)
        defect += size * error + len(J) * EPS * np.linalg.norm(inverse) * np.linalg.norm(J)
    return float(size / (1 - defect)) if defect < 0.5 else np.inf


def _norms(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.norm(matrices, axis=(1, 2))


def _spectral_bound(matrix: np.ndarray) -> float:
    return float(np.sqrt(np.linalg.norm(matrix, 1) * np.linalg.norm(matrix, np.inf)))
