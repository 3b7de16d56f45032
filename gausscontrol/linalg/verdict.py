"""When a matrix equation counts as solved: scaling, separation, residual.

    L(X) = A X E^T + E X A^T = -Q,    separation = min ||L(X)||_F / ||X||_F

Data are scaled by powers of two before a backend sees them, so no verdict depends on units. One
policy for "no unique solution", whatever the backend does (raise, perturb the data in silence,
return 1e15): an equation is refused when its separation is at most 16 d eps ||A||_F ||E||_F, since
rounding A alone can then make it singular; and when the answer misses the right side by more than
1e-6 of it.

Assumptions: real data of agreeing shapes; symmetric Q. Without E the operator is A X + X A^T, and
||E||_F counts as 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from gausscontrol.errors import MatrixEquationError

__all__ = ["EPS", "LyapunovOperator", "checked", "exponent", "rounding_level", "scaled", "unscaled"]

EPS = float(np.finfo(float).eps)
SEPARATION_FACTOR = 16.0
RESIDUAL_TOLERANCE = 1e-6


def exponent(M: np.ndarray) -> int:
    """Return the k that brings the largest entry of M / 2^k between 1/2 and 1; 0 for M = 0."""
    return int(np.frexp(np.abs(M).max(initial=0.0))[1])


def scaled(M: np.ndarray, step: int = 1) -> tuple[np.ndarray, int]:
    """Return M / 2^k and k, its exponent rounded up to a multiple of step."""
    k = exponent(M)
    k += -k % step
    return np.ldexp(M, -k), k


def unscaled(equation: str, X: np.ndarray, k: int) -> np.ndarray:
    """Return X 2^k, refusing an overflow."""
    with np.errstate(over="ignore"):
        X = np.ldexp(X, k)
    if not np.isfinite(X).all():
        raise MatrixEquationError(
            f"{equation}: the solution exceeds the range of double precision; change the units"
        )
    return X


def rounding_level(A: np.ndarray, E: np.ndarray | None = None) -> float:
    """Return the separation below which rounding A can make the equation singular."""
    size = np.linalg.norm(A) * (1.0 if E is None else np.linalg.norm(E))
    return float(SEPARATION_FACTOR * len(A) * EPS * size)


def checked(
    equation: str,
    X: np.ndarray,
    terms: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    *,
    against_largest_term: bool = False,
) -> tuple[np.ndarray, float]:
    """Return X symmetrised and the sum of its terms, relative to the first, the right side.

    Where that is zero, relative to the largest. A nonlinear equation may miss its right side by
    what is small against its largest term only.
    """
    X = (X + X.T) / 2
    parts = terms(X)
    sizes = [float(np.linalg.norm(part)) for part in parts]
    error = float(np.linalg.norm(sum(parts)))
    reference = sizes[0] or max(sizes) or 1.0
    allowed = RESIDUAL_TOLERANCE * (max(sizes) if against_largest_term else reference)
    if not error <= allowed:
        raise MatrixEquationError(
            f"{equation}: the answer misses the right side by {error / reference:.2g} of it, "
            f"expected at most {allowed / reference:.2g}; the equation is too ill-conditioned for "
            "double precision, so rescale the coordinates or change the data"
        )
    return X, error / reference


@dataclass(frozen=True)
class LyapunovOperator:
    """The scaled operator X -> A X E^T + E X A^T of an equation.

    The true operator is 2^power times larger, eigenvalues of the pencil (A, E) 2^ratio times.
    """

    equation: str
    name: str
    A: np.ndarray
    E: np.ndarray | None
    power: int
    ratio: int

    def terms(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the two terms of L(X), X symmetric."""
        half = self.A @ X if self.E is None else self.A @ X @ self.E.T
        return half, half.T

    def solve(
        self, backend: Callable[..., tuple[np.ndarray, float]], Q: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return the X of L(X) = -Q and the separation, refusing one at rounding level."""
        matrices = (self.A,) if self.E is None else (self.A, self.E)
        if not all(np.isfinite(M).all() for M in (*matrices, Q)):
            raise MatrixEquationError(
                f"{self.equation}: expected finite data, found NaN or infinity; "
                "the iteration that made them has diverged, so restart it elsewhere"
            )
        try:
            with np.errstate(all="ignore"):
                X, separation = backend(*matrices, Q)
        except np.linalg.LinAlgError as error:
            raise self._singular(None) from error
        if not separation > rounding_level(*matrices) or not np.isfinite(X).all():
            raise self._singular(float(separation))
        return X, float(separation)

    def _singular(self, separation: float | None) -> MatrixEquationError:
        """Say which two eigenvalues add up to (nearly) zero, in the user's units."""
        alpha, beta = scipy.linalg.eigvals(self.A, self.E, homogeneous_eigvals=True)
        size = np.hypot(np.abs(alpha), np.abs(beta))
        size[size == 0.0] = 1.0
        alpha, beta = alpha / size, beta / size
        sums = np.abs(np.multiply.outer(alpha, beta) + np.multiply.outer(beta, alpha))
        i, j = np.unravel_index(np.argmin(sums), sums.shape)
        pair = " and ".join(_eigenvalue_text(alpha[n], beta[n], self.ratio) for n in (i, j))
        level = np.ldexp(rounding_level(self.A, self.E), self.power)
        found = (
            "the backend gives up"
            if separation is None
            else f"separation {np.ldexp(separation, self.power):.2g}, rounding {level:.2g}"
        )
        return MatrixEquationError(
            f"{self.equation} has no unique solution: eigenvalues {pair} of {self.name} add up to "
            f"zero or nearly so ({found}); shift the data so that no two eigenvalues cancel"
        )


def _eigenvalue_text(alpha: complex, beta: complex, k: int) -> str:
    if abs(beta) <= SEPARATION_FACTOR * EPS * abs(alpha):
        return "infinity (second matrix singular)"
    value = complex(alpha / beta) * 2.0**k
    return f"{value.real:.4g}" if value.imag == 0.0 else f"{value:.4g}"
