"""Spectral comparison: heads sharing B = B^T > 0, and the extreme eigenvalues (Theory 3.7, 5.6).

    a_- B <= B A + A^T B <= a_+ B,       v_- B <= B V + V^T B <= v_+ B
    l (a_- + v_- l) <= l' <= l (a_+ + v_+ l),       l = lambda_max(B^(1/2) Sigma B^(1/2))

Written without square roots of B, so that the bounds are verified on the model's own numbers, in
balanced coordinates. The case v_+ = 0 is decided with integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.comparison import EPS, Growth, pencil_bounds
from gausscontrol.certificates.shared_key import shared_key
from gausscontrol.linalg.exact import exactly_nonpositive, integers
from gausscontrol.model.structure import exact_riccati_gain

__all__ = [
    "Spectra",
    "exact_riccati_decay",
    "original_key",
    "spectra",
    "spectral_growth",
    "spectral_level",
    "trace_of_inverse",
]


class Spectra(NamedTuple):
    """Bounds of the eigenvalues, each on the safe side, and B, all in balanced coordinates."""

    a_low: float
    a_high: float
    v_low: float
    v_high: float
    B: np.ndarray

    @property
    def size(self) -> float:
        """Largest eigenvalue of V + V^T in absolute value."""
        return max(abs(self.v_low), abs(self.v_high)) or 1.0


def spectra(found: Balanced) -> Spectra | None:
    """Return the eigenvalue bounds of a model, or None if its heads do not share B > 0."""
    head = shared_key(found.model)
    if head is None:
        return None
    B, V, A = head.B, head.V, found.model.A
    dim = len(B)
    XA, XV = B @ A, B @ V
    unit = 2 * (dim + 2) * EPS * np.linalg.norm(B)
    a_low, a_high = pencil_bounds(XA + XA.T, B, unit * np.linalg.norm(A))
    error = unit * np.linalg.norm(V) + 2 * head.highest * head.error
    v_low, v_high = pencil_bounds(XV + XV.T, B, float(error))
    # In the coordinates B^(1/2) what separates T from one head grows by at most this factor.
    spread = 2 * head.rest * np.sqrt(head.condition) / head.lowest
    v_low, v_high = v_low - spread, v_high + spread
    if 0 < v_high < 1e-9 * np.linalg.norm(V) or not V.any():
        exact = head.rest == 0 and head.error == 0
        if exact and exactly_nonpositive(integers(B)[0] @ integers(V)[0]):
            v_high = 0.0
    return Spectra(a_low, a_high, v_low, v_high, B)


def original_key(found: Balanced, numbers: Spectra) -> np.ndarray:
    """Return the B that spectral certificates speak of, in original coordinates."""
    return found.key_gauge * found.to_original(numbers.B)


def spectral_growth(numbers: Spectra) -> Growth | None:
    """Return l' >= 2 (gain l^2 + rate l), or None unless v_- > 0."""
    if not (numbers.v_low > 0 and np.isfinite(numbers.a_low)):
        return None
    return Growth(numbers.a_low / 2, numbers.v_low / 2, 0.0)


def spectral_level(found: Balanced, B: np.ndarray, Sigma: np.ndarray) -> float:
    """Return a lower bound of lambda_max(B^(1/2) Sigma B^(1/2)), everything but B original."""
    L = np.linalg.cholesky(B)
    value = np.linalg.eigvalsh(L.T @ found.covariance(Sigma) @ L)[-1]
    condition = np.linalg.norm(B, 2) * np.linalg.norm(np.linalg.inv(B), 2)
    return float(value) * found.key_gauge * (1 - 32 * len(B) * EPS * condition)


def trace_of_inverse(B: np.ndarray, scale: np.ndarray) -> float:
    """Return an upper bound of tr(D^-1 B^-1 D^-1), D the diagonal matrix of a scale."""
    inverse = np.linalg.inv(np.linalg.cholesky(B)) / scale
    condition = np.linalg.norm(B, 2) * np.linalg.norm(np.linalg.inv(B), 2)
    return float(np.sum(inverse**2)) * (1 + 64 * len(B) * EPS * condition)


def exact_riccati_decay(found: Balanced) -> bool:
    """Tell whether V_h = v_h I and G = sum_h v_h (B_h + B_h^T) <= 0, decided with integers.

    Then T(S) S + S T(S)^T = S G S <= 0 for every S.
    """
    # Balancing is a congruence of G, so that the model's own numbers decide.
    gain = exact_riccati_gain(found.original)
    return gain is not None and exactly_nonpositive(gain[0])
