"""Scalar comparison for y = tr(P Sigma), with rounding bounded (Theory 5.1 to 5.3).

    y' = 2 tr(P A Sigma) + 2 q_P(Sigma),     q_P(S) = sum_h tr(P V_h S B_h S)

If a quadratic form Phi > 0 bounds |q_P| from below, in coordinates x of Sigma with y = <v, x> and
tr(P A Sigma) = <w, x>, then <v, x>^2 <= |v|^2 Phi(x), |v| in the norm of Phi^-1, and

    bounded    q_P <= -Phi:   y' <= 2 (a y - k y^2),          k = 1/|v|^2,  P A + A^T P <= 2 a P
    blow-up    q_P >= +Phi:   y' >= 2 (k y^2 + a y - g),      g = |w - a v|^2 / 4

where a is free in the second line and chosen so that w - a v and v are orthogonal in the norm of
Phi^-1; with P A + A^T P >= 2 a P, g = 0. The forms are evaluated in floating point and lowered by a
bound on what rounding did to them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from gausscontrol.linalg.symmetric import symmetrise

__all__ = [
    "EPS",
    "DenseForm",
    "Growth",
    "ProductForm",
    "eigenvalue_rounding",
    "gain",
    "growth",
    "pencil_bounds",
]

EPS = float(np.finfo(float).eps)
# Share of k given away so that a bordered form stays definite, in closed form.
SHARE = 1e-6
# Relative error of a solution of Phi x = v beyond which nothing is concluded.
ROUGHEST = 1e-2


def eigenvalue_rounding(size: int) -> float:
    """Return a bound on the rounding of an eigenvalue, relative to the Frobenius norm."""
    return 4 * size * EPS


class Growth(NamedTuple):
    """y' >= 2 (gain y^2 + rate y - loss); every number is on the safe side."""

    rate: float
    gain: float
    loss: float

    @property
    def root(self) -> float:
        """sqrt(rate^2 + 4 gain loss), at which rates the larger zero is left."""
        return float(np.hypot(self.rate, 2 * np.sqrt(self.gain * self.loss)))

    @property
    def level(self) -> float:
        """The value of y above which it escapes."""
        if self.rate >= 0:
            total = self.rate + self.root
            return 2 * self.loss / total if total > 0 else 0.0
        return (self.root - self.rate) / (2 * self.gain)

    def escape_depth(self, y: float) -> float:
        """Return the depth by which a solution from y has escaped; infinite up to the level."""
        excess = y - self.level * (1 + 16 * EPS)
        if not excess > 0:
            return np.inf
        ratio = self.root / (self.gain * excess)
        # log(1 + x) / x tends to 1: equal zeros need no case of their own.
        share = np.log1p(ratio) / ratio if ratio > 0 else 1.0
        return float(share / (2 * self.gain * excess)) * (1 + 64 * EPS)

    def scaled(self, depth: float, size: float = 1.0) -> Growth:
        """Return the numbers for rates divided by `depth` and y multiplied by `size`."""
        return Growth(self.rate / depth, self.gain / depth / size, self.loss / depth * size)


class DenseForm:
    """A form Phi >= computed matrix - error I, and the norm of its inverse.

    Parameters
    ----------
    matrix : (n, n) ndarray
        Symmetric.
    error : float
        Spectral-norm bound on what separates it from the exact form.
    """

    def __init__(self, matrix: np.ndarray, error: float) -> None:
        values, self._vectors = np.linalg.eigh(matrix)
        size = max(-values[0], values[-1]) if values.size else 0.0
        error = error + eigenvalue_rounding(len(matrix)) * np.sqrt(len(matrix)) * size
        self._values = values - error
        self.lowest = float(self._values[0])
        self.size = float(size)
        self.roughness = 64 * len(matrix) * EPS * size / self.lowest if self.lowest > 0 else np.inf

    @property
    def usable(self) -> bool:
        """Whether Phi is positive definite beyond rounding, and solving with it is accurate."""
        return self.lowest > 0 and self.roughness <= ROUGHEST

    def inner(self, x: np.ndarray, y: np.ndarray) -> float:
        """Return <x, Phi^-1 y>."""
        x, y = self._vectors.T @ x.reshape(-1), self._vectors.T @ y.reshape(-1)
        return float(np.sum(x * y / self._values))


class ProductForm:
    """A form Phi(X) >= tr(Q X B X^T) on r x d matrices, both factors lowered by an error.

    Parameters
    ----------
    Q, B : (r, r), (d, d) ndarray
        Symmetric.
    error_Q, error_B : float
        Spectral-norm bounds.
    """

    def __init__(self, Q: np.ndarray, B: np.ndarray, error_Q: float, error_B: float) -> None:
        self._left, self._right = DenseForm(Q, error_Q), DenseForm(B, error_B)
        usable = self._left.usable and self._right.usable
        self.usable = usable
        # A product of negative numbers must not pass for positive.
        self.lowest = (
            self._left.lowest * self._right.lowest
            if usable
            else min(self._left.lowest, self._right.lowest, 0.0)
        )
        self.size = self._left.size * self._right.size
        self.roughness = self._left.roughness + self._right.roughness

    def inner(self, x: np.ndarray, y: np.ndarray) -> float:
        """Return <X, Phi^-1 Y>."""
        x = self._left._vectors.T @ x @ self._right._vectors
        y = self._left._vectors.T @ y @ self._right._vectors
        return float(np.sum(x * y / np.outer(self._left._values, self._right._values)))


def gain(form: DenseForm | ProductForm, v: np.ndarray, error: float = 0.0) -> float:
    """Return k with <v, x>^2 <= Phi(x) / k for every v within an error; lower bound."""
    length = np.sqrt(form.inner(v, v) * (1 + form.roughness)) + error / np.sqrt(form.lowest)
    return float((1 - SHARE) / length**2)


def growth(
    form: DenseForm | ProductForm,
    v: np.ndarray,
    w: np.ndarray,
    error_v: float = 0.0,
    error_w: float = 0.0,
) -> Growth:
    """Return the comparison for <w, x> + Phi(x), Frobenius-norm errors of v and w included.

    Notes
    -----
    With k |v|^2 = 1 - s the form Phi(x) - k <v, x>^2 is positive definite, and by Sherman and
    Morrison its inverse adds k <v, z>^2 / s to |z|^2 for z = w - a v.
    """
    square = form.inner(v, v)
    rate = form.inner(w, v) / square
    rest = w - rate * v
    unit = 1 / np.sqrt(form.lowest)
    slack = form.roughness
    error_rest = error_w + abs(rate) * error_v
    error_rest += 4 * EPS * (np.linalg.norm(w) + abs(rate) * np.linalg.norm(v))
    length = np.sqrt(square * (1 + slack)) + error_v * unit
    remainder = np.sqrt(max(form.inner(rest, rest), 0.0) * (1 + slack)) + error_rest * unit
    k = (1 - SHARE) / length**2
    overlap = abs(form.inner(rest, v)) + slack * length * remainder
    overlap += unit * (error_rest * length + error_v * remainder)
    loss = (remainder**2 + k * overlap**2 / SHARE) / 4
    return Growth(float(rate), float(k), float(loss) * (1 + 16 * EPS))


def pencil_bounds(X: np.ndarray, P: np.ndarray, error: float) -> tuple[float, float]:
    """Bound the eigenvalues of X x = l P x: low P <= X <= high P.

    Parameters
    ----------
    X, P : (d, d) ndarray
        Symmetric, X within a spectral-norm error of the exact one; P taken as exact.
    error : float

    Returns
    -------
    low, high : float
        Verified after they were found; infinite if P is not verified to be positive definite.
    """
    unit = eigenvalue_rounding(len(P))
    values = np.linalg.eigvalsh(P)
    lowest = values[0] - unit * np.linalg.norm(P)
    if not lowest > 0:
        return -np.inf, np.inf
    if error == 0 and not X.any():
        return 0.0, 0.0
    found = scipy.linalg.eigh(X, P, eigvals_only=True)
    largest = max(-found[0], found[-1])
    noise = error + 2 * unit * (np.linalg.norm(X) + largest * np.linalg.norm(P))
    low, high = found[0] - 2 * noise / lowest, found[-1] + 2 * noise / lowest
    below = np.linalg.eigvalsh(symmetrise(X - low * P))[0]
    above = np.linalg.eigvalsh(symmetrise(high * P - X))[0]
    return float(low) if below > noise else -np.inf, float(high) if above > noise else np.inf
