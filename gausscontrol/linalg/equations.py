"""Lyapunov, generalised Lyapunov and Bernoulli equations, each answer checked.

The equations::

    Lyapunov               A X + X A^T + Q = 0
    generalised Lyapunov   A X E^T + E X A^T + Q = 0
    Bernoulli              A S + S A^T + S G S = 0,   S = X^-1 > 0,   A^T X + X A = -G  (Theory 3.2)

Assumptions: real data; symmetric Q and G. The two backends, slycot (`mateqn`) and SciPy (`schur`),
share one policy for "no unique solution", that of `verdict`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.display import Report
from gausscontrol.errors import MatrixEquationError, ParameterError
from gausscontrol.linalg.arrays import real_matrix, symmetric_matrix
from gausscontrol.linalg.mateqn import sb03md, sg03ad
from gausscontrol.linalg.schur import schur_generalized_lyapunov, schur_lyapunov
from gausscontrol.linalg.verdict import LyapunovOperator, checked, rounding_level, scaled, unscaled

__all__ = [
    "MatrixEquationSolution",
    "lyapunov",
    "generalized_lyapunov",
    "bernoulli",
    "solve_lyapunov",
    "solve_newton_lyapunov",
]

LYAPUNOV = "Lyapunov equation A X + X A^T + Q = 0"
GENERALIZED = "generalised Lyapunov equation A X E^T + E X A^T + Q = 0"
BERNOULLI = "Bernoulli equation A S + S A^T + S G S = 0"
NEWTON = "Newton equation V E C + C^T E V^T = R"

Backend = Callable[..., tuple[np.ndarray, float]]
BACKENDS: dict[str, tuple[Backend, Backend]] = {
    "slycot": (sb03md, sg03ad),
    "scipy": (schur_lyapunov, schur_generalized_lyapunov),
}


@dataclass(frozen=True, eq=False)
class MatrixEquationSolution(Report):
    """Solution of a matrix equation, with what its checks measured.

    Attributes
    ----------
    solution : (d, d) ndarray
        The symmetric solution.
    residual : float
        Frobenius norm of the residual over that of the right side (Q; S G S for Bernoulli). Where
        the right side is zero: over the largest term of the equation, and 0 if all are zero.
    separation : float
        Estimate of the smallest ratio ||L(E)|| / ||E|| of the linear operator L that was inverted,
        in the unit of A (times that of E); for Riccati, of the operator of the closed loop.
    backend : str
        "slycot" or "scipy".
    equation : str
        The equation in words and symbols.
    """

    solution: np.ndarray
    residual: float
    separation: float
    backend: str
    equation: str

    def __str__(self) -> str:
        d = len(self.solution)
        return (
            f"{self.equation}, solved by {self.backend}\n"
            f"  size        {d} x {d}\n"
            f"  residual    {self.residual:.2g} of the right side\n"
            f"  separation  {self.separation:.4g} (unit of A)"
        )


def lyapunov(A: ArrayLike, Q: ArrayLike, *, method: str = "slycot") -> MatrixEquationSolution:
    """Solve a Lyapunov equation.

    A X + X A^T + Q = 0, which has one solution, a symmetric one, for every symmetric Q if and only
    if no two eigenvalues of A (one taken twice included) add up to zero.

    Parameters
    ----------
    A : (d, d) array_like
        Any real matrix; it need not be stable.
    Q : (d, d) array_like
        Symmetric.
    method : {"slycot", "scipy"}
        Backend, as in `control.lyap`.

    Returns
    -------
    MatrixEquationSolution

    Raises
    ------
    MatrixEquationError
        If there is no unique solution, or none to working precision.
    ParameterError
        If Q is not symmetric, an entry is not a finite real number, or the method is unknown.
    ShapeError
        If A is not square or Q has another size.

    Notes
    -----
    Theory 4.5. slycot's sb03md57 (Bartels-Stewart).

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.equations import lyapunov
    >>> A, Q = np.array([[-1.0, 2.0], [0.0, -3.0]]), np.eye(2)
    >>> X = lyapunov(A, Q).solution
    >>> bool(np.allclose(A @ X + X @ A.T, -Q))
    True
    """
    A = real_matrix(A, "A")
    Q = symmetric_matrix(Q, "Q", len(A))
    return _solve_linear(LYAPUNOV, A, None, Q, known_method(method))


def generalized_lyapunov(
    A: ArrayLike, Q: ArrayLike, E: ArrayLike, *, method: str = "slycot"
) -> MatrixEquationSolution:
    """Solve a generalised Lyapunov equation.

    A X E^T + E X A^T + Q = 0, which has one solution for every symmetric Q if and only if A and E
    are nonsingular and no two eigenvalues of the pencil (A, E) add up to zero.

    Parameters
    ----------
    A : (d, d) array_like
        Any real matrix.
    Q : (d, d) array_like
        Symmetric.
    E : (d, d) array_like
        Any real matrix.
    method : {"slycot", "scipy"}
        Backend; `control.lyap` offers the first only.

    Returns
    -------
    MatrixEquationSolution

    Raises
    ------
    MatrixEquationError
        If there is no unique solution, or none to working precision.
    ParameterError
        If Q is not symmetric, an entry is not a finite real number, or the method is unknown.
    ShapeError
        If A is not square or Q or E has another size.

    Notes
    -----
    Theory 3.3. slycot's sg03ad, or back-substitution in SciPy's complex generalised Schur form;
    neither forms the inverse of E.

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.equations import generalized_lyapunov
    >>> A, E, Q = -np.eye(2), np.array([[2.0, 1.0], [0.0, 1.0]]), np.eye(2)
    >>> X = generalized_lyapunov(A, Q, E).solution
    >>> bool(np.allclose(A @ X @ E.T + E @ X @ A.T, -Q))
    True
    """
    A = real_matrix(A, "A")
    Q = symmetric_matrix(Q, "Q", len(A))
    E = real_matrix(E, "E", A.shape)
    return _solve_linear(GENERALIZED, A, E, Q, known_method(method))


def bernoulli(A: ArrayLike, G: ArrayLike, *, method: str = "slycot") -> MatrixEquationSolution:
    """Solve a Bernoulli equation for its positive definite solution.

    A S + S A^T + S G S = 0 with S > 0. X = S^-1 obeys the Lyapunov equation A^T X + X A = -G, so
    S exists and is unique if and only if no two eigenvalues of A add up to zero and X > 0.

    Parameters
    ----------
    A : (d, d) array_like
        Any real matrix.
    G : (d, d) array_like
        Symmetric; it need not be definite.
    method : {"slycot", "scipy"}
        Backend.

    Returns
    -------
    MatrixEquationSolution
        `separation` is that of the Lyapunov equation for X.

    Raises
    ------
    MatrixEquationError
        If X is not unique, or not positive definite by more than its rounding error.
    ParameterError
        If G is not symmetric, an entry is not a finite real number, or the method is unknown.
    ShapeError
        If A is not square or G has another size.

    Notes
    -----
    Theory 3.2: S is the equilibrium covariance of a scalar-value attention layer.

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.equations import bernoulli
    >>> S = bernoulli(np.diag([1.0, 2.0]), -2.0 * np.eye(2)).solution
    >>> bool(np.allclose(S, np.diag([1.0, 2.0])))
    True
    """
    A = real_matrix(A, "A")
    G = symmetric_matrix(G, "G", len(A))
    inverse = _solve_linear(BERNOULLI, A.T, None, G, known_method(method))
    (X, k), (A, a) = scaled(inverse.solution), scaled(A)
    values, vectors = np.linalg.eigh(X)
    uncertainty = np.ldexp(rounding_level(A), a) / inverse.separation
    if not values[0] > uncertainty * values[-1]:
        raise MatrixEquationError(
            f"{BERNOULLI} has no solution S > 0: the eigenvalues of S^-1 = X, A^T X + X A = -G, "
            f"range from {np.ldexp(values[0], k):.3g} to {np.ldexp(values[-1], k):.3g}; "
            "all must be positive, so change G (or its sign) or A"
        )
    G = np.ldexp(G, -a - k)
    S, residual = checked(
        BERNOULLI,
        (vectors / values) @ vectors.T,
        lambda S: (S @ G @ S, A @ S, S @ A.T),
        against_largest_term=True,
    )
    S = unscaled(BERNOULLI, S, -k)
    return MatrixEquationSolution(S, residual, inverse.separation, method, BERNOULLI)


# -- for inner loops: no validation of the arguments, plain arrays out -----------------------------


def solve_lyapunov(A: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the X of A X + X A^T + Q = 0 by slycot, for finite float arrays, symmetric Q.

    No validation of shapes and symmetry, no residual; the separation is still checked.

    Raises
    ------
    MatrixEquationError
        If there is no unique solution, or the data are not finite.
    """
    (A, a), (Q, q) = scaled(A), scaled(Q)
    X, _ = LyapunovOperator(LYAPUNOV, "A", A, None, a, a).solve(sb03md, Q)
    return unscaled(LYAPUNOV, (X + X.T) / 2, q - a)


def solve_newton_lyapunov(V: np.ndarray, C: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return the symmetric E of V E C + C^T E V^T = R by slycot, R symmetric.

    No validation of shapes and symmetry. The separation is at most ||R|| / ||E||; this bound,
    which costs nothing, is what must stay above rounding level, so a singular equation whose right
    side does not excite the singular direction can pass.

    Raises
    ------
    MatrixEquationError
        If there is no unique solution, or the data are not finite.

    Notes
    -----
    Theory 3.3, the Newton step with C = B Sigma and R = -F(Sigma).
    """
    (V, v), (C, c), (R, r) = scaled(V), scaled(C), scaled(R)
    operator = LyapunovOperator(NEWTON, "the pencil (V, C^T)", V, C.T, v + c, v - c)
    E, _ = operator.solve(partial(sg03ad, estimate=False), -R)
    return unscaled(NEWTON, (E + E.T) / 2, r - v - c)


# -- shared ----------------------------------------------------------------------------------------


def known_method(method: str) -> str:
    """Return the name of a backend if it is one."""
    if method not in ("slycot", "scipy"):
        raise ParameterError(f"method: expected 'slycot' or 'scipy', found {method!r}; pass one")
    return method


def _solve_linear(
    equation: str, A: np.ndarray, E: np.ndarray | None, Q: np.ndarray, method: str
) -> MatrixEquationSolution:
    (A, a), (Q, q), (E, e) = scaled(A), scaled(Q), (None, 0) if E is None else scaled(E)
    name = "A" if E is None else "the pencil (A, E)"
    operator = LyapunovOperator(equation, name, A, E, a + e, a - e)
    X, separation = operator.solve(BACKENDS[method][E is not None], Q)
    X, residual = checked(equation, X, lambda X: (Q, *operator.terms(X)))
    X = unscaled(equation, X, q - a - e)
    return MatrixEquationSolution(X, residual, float(np.ldexp(separation, a + e)), method, equation)
