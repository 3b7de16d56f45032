"""Matrix equations and system measures on slycot, each answer checked after the call.

The equations::

    Lyapunov               A X + X A^T + Q = 0
    generalised Lyapunov   A X E^T + E X A^T + Q = 0
    Riccati                A^T X + X A - X B R^-1 B^T X + Q = 0,   A - B R^-1 B^T X Hurwitz
    Bernoulli              A S + S A^T + S G S = 0,   S = X^-1 > 0,   A^T X + X A = -G  (Theory 3.2)

Assumptions: real data; symmetric Q, G and R. Data are scaled by powers of two before a backend sees
them, so no verdict depends on the units of A, E, Q, B, R or G.

One policy for "no unique solution", whatever the backend does (raise, warn, perturb the data in
silence, return 1e15): a linear equation is refused when its separation, the smallest
||A E + E A^T||_F / ||E||_F, is at most 16 d eps ||A||_F, since rounding A alone can then make it
singular; and when the answer misses the right side by more than 1e-6 of it. slycot reports its own
estimate of the separation (from the 1-norm of the inverse); for SciPy it is estimated here by
inverse iteration. A Riccati equation is refused when its Hamiltonian matrix H has an eigenvalue
within sqrt(eps) ||H||_F of the imaginary axis, which is how far rounding moves a double one.

This is the only module that imports slycot; nothing that slycot raises or warns leaves it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import slycot
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dtrsyl

from gausscontrol.errors import MatrixEquationError, ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_matrix, symmetric_matrix

__all__ = [
    "MatrixEquationSolution",
    "RiccatiSolution",
    "lyapunov",
    "generalized_lyapunov",
    "riccati",
    "bernoulli",
    "solve_lyapunov",
    "solve_newton_lyapunov",
    "distance_to_instability",
    "hinf_norm",
    "h2_norm",
    "controllability_gramian",
    "observability_gramian",
    "hankel_singular_values",
]

EPS = float(np.finfo(float).eps)
SEPARATION_FACTOR = 16.0
RESIDUAL_TOLERANCE = 1e-6
MEASURE_TOLERANCE = 1e-6

LYAPUNOV = "Lyapunov equation A X + X A^T + Q = 0"
GENERALIZED = "generalised Lyapunov equation A X E^T + E X A^T + Q = 0"
RICCATI = "Riccati equation A^T X + X A - X B R^-1 B^T X + Q = 0"
BERNOULLI = "Bernoulli equation A S + S A^T + S G S = 0"
NEWTON = "Newton equation V E C + C^T E V^T = R"


@dataclass(frozen=True, eq=False)
class MatrixEquationSolution:
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


@dataclass(frozen=True, eq=False)
class RiccatiSolution(MatrixEquationSolution):
    """Stabilising solution of a Riccati equation.

    Attributes
    ----------
    poles : (d,) complex ndarray
        Eigenvalues of the closed loop A - B K, all in the open left half-plane.
    gain : (m, d) ndarray
        K = R^-1 B^T X.
    """

    poles: np.ndarray
    gain: np.ndarray

    def __str__(self) -> str:
        return f"{super().__str__()}\n  abscissa    {self.poles.real.max():.4g} (closed loop)"


# Public equations


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
    >>> from gausscontrol.linalg.mateqn import lyapunov
    >>> A, Q = np.array([[-1.0, 2.0], [0.0, -3.0]]), np.eye(2)
    >>> X = lyapunov(A, Q).solution
    >>> bool(np.allclose(A @ X + X @ A.T, -Q))
    True
    """
    A = real_matrix(A, "A")
    Q = symmetric_matrix(Q, "Q", len(A))
    return _solve_linear(LYAPUNOV, A, None, Q, _known_method(method))


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
    >>> from gausscontrol.linalg.mateqn import generalized_lyapunov
    >>> A, E, Q = -np.eye(2), np.array([[2.0, 1.0], [0.0, 1.0]]), np.eye(2)
    >>> X = generalized_lyapunov(A, Q, E).solution
    >>> bool(np.allclose(A @ X @ E.T + E @ X @ A.T, -Q))
    True
    """
    A = real_matrix(A, "A")
    Q = symmetric_matrix(Q, "Q", len(A))
    E = real_matrix(E, "E", A.shape)
    return _solve_linear(GENERALIZED, A, E, Q, _known_method(method))


def riccati(
    A: ArrayLike,
    B: ArrayLike,
    Q: ArrayLike,
    R: ArrayLike | None = None,
    *,
    method: str = "slycot",
) -> RiccatiSolution:
    """Solve a Riccati equation for its stabilising solution.

    A^T X + X A - X B R^-1 B^T X + Q = 0 with A - B R^-1 B^T X Hurwitz. At most one such X exists;
    for R > 0 one does if (A, B) is stabilisable and the Hamiltonian matrix [[A, -G], [-Q, -A^T]],
    G = B R^-1 B^T, has no eigenvalue on the imaginary axis.

    Parameters
    ----------
    A : (d, d) array_like
        Any real matrix.
    B : (d, m) array_like
        Input matrix.
    Q : (d, d) array_like
        Symmetric; it need not be definite.
    R : (m, m) array_like, optional
        Symmetric and nonsingular; default the identity, as in `control.care`.
    method : {"slycot", "scipy"}
        Backend.

    Returns
    -------
    RiccatiSolution
        With the closed-loop poles and the gain K = R^-1 B^T X.

    Raises
    ------
    MatrixEquationError
        If there is no stabilising solution, or none to working precision.
    ParameterError
        If Q or R is not symmetric, R is singular, an entry is not a finite real number, or the
        method is unknown.
    ShapeError
        If the shapes do not agree.

    Notes
    -----
    Theory 6.1. slycot's sb02md (ordered real Schur form of the Hamiltonian matrix).

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.mateqn import riccati
    >>> result = riccati([[0.0, 1.0], [0.0, 0.0]], [[0.0], [1.0]], np.eye(2))
    >>> bool(np.allclose(result.gain, [[1.0, np.sqrt(3.0)]]))
    True
    """
    A = real_matrix(A, "A")
    B = real_matrix(B, "B", (len(A), None))
    Q = symmetric_matrix(Q, "Q", len(A))
    m = B.shape[1]
    R = np.eye(m) if R is None else symmetric_matrix(R, "R", m)
    if np.linalg.cond(R) > 1.0 / (m * EPS):
        raise ParameterError(
            f"R: expected a nonsingular matrix, found condition number {np.linalg.cond(R):.2g}; "
            "give every input a weight"
        )
    return _solve_riccati(A, B, Q, R, _known_method(method))


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
    >>> from gausscontrol.linalg.mateqn import bernoulli
    >>> S = bernoulli(np.diag([1.0, 2.0]), -2.0 * np.eye(2)).solution
    >>> bool(np.allclose(S, np.diag([1.0, 2.0])))
    True
    """
    A = real_matrix(A, "A")
    G = symmetric_matrix(G, "G", len(A))
    inverse = _solve_linear(BERNOULLI, A.T, None, G, _known_method(method))
    k, a = _exponent(inverse.solution), _exponent(A)
    values, vectors = np.linalg.eigh(np.ldexp(inverse.solution, -k))
    uncertainty = SEPARATION_FACTOR * len(A) * EPS * np.linalg.norm(A) / inverse.separation
    if not values[0] > uncertainty * values[-1]:
        raise MatrixEquationError(
            f"{BERNOULLI} has no solution S > 0: the eigenvalues of S^-1 = X, A^T X + X A = -G, "
            f"range from {np.ldexp(values[0], k):.3g} to {np.ldexp(values[-1], k):.3g}; "
            "all must be positive, so change G (or its sign) or A"
        )
    S = (vectors / values) @ vectors.T
    A, G = np.ldexp(A, -a), np.ldexp(G, -a - k)
    S, residual = _checked(BERNOULLI, S, lambda S: (S @ G @ S, A @ S, S @ A.T), accept="terms")
    return MatrixEquationSolution(
        _unscaled(BERNOULLI, S, -k), residual, inverse.separation, method, BERNOULLI
    )


# For inner loops: no validation of the arguments, plain arrays out


def solve_lyapunov(A: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the X of A X + X A^T + Q = 0 by slycot, for finite float arrays, symmetric Q.

    No validation and no residual; the separation is still checked.

    Raises
    ------
    MatrixEquationError
        If there is no unique solution.
    """
    a, q = _exponent(A), _exponent(Q)
    scaled = np.ldexp(A, -a)
    X, separation = _linear_call(_lyapunov_slycot, LYAPUNOV, scaled, None, np.ldexp(Q, -q))
    _require_separation(LYAPUNOV, scaled, None, X, separation)
    return _unscaled(LYAPUNOV, (X + X.T) / 2, q - a)


def solve_newton_lyapunov(V: np.ndarray, C: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return the symmetric E of V E C + C^T E V^T = R by slycot, R symmetric.

    No validation. The separation is at most ||R|| / ||E||; this bound, which costs nothing, is
    what must stay above rounding level, so a singular equation whose right side does not excite
    the singular direction can pass.

    Raises
    ------
    MatrixEquationError
        If there is no unique solution.

    Notes
    -----
    Theory 3.3, the Newton step with C = B Sigma and R = -F(Sigma).
    """
    v, c, r = _exponent(V), _exponent(C), _exponent(R)
    V, C, R = np.ldexp(V, -v), np.ldexp(C, -c), np.ldexp(R, -r)

    def call(A: np.ndarray, E: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, float]:
        X, _ = _sg03ad(A, E, Q, job="X")
        size = np.linalg.norm(X)
        return X, np.linalg.norm(Q) / size if size > 0.0 else np.inf

    E, bound = _linear_call(call, NEWTON, V, C.T, -R)
    _require_separation(NEWTON, V, C.T, E, bound)
    return _unscaled(NEWTON, (E + E.T) / 2, r - v - c)


# Measures of a stable system x' = A x + B u, y = C x + D u


def distance_to_instability(A: ArrayLike) -> float:
    """Distance from a Hurwitz matrix to the nearest unstable one.

    min over w of the smallest singular value of A - i w I, in the 2-norm over complex matrices.

    Parameters
    ----------
    A : (d, d) array_like
        Hurwitz.

    Returns
    -------
    float
        In the unit of A; infinite for d = 0.

    Raises
    ------
    MatrixEquationError
        If A is not Hurwitz, or the lower bound that is computed beside it contradicts the answer.
    ParameterError, ShapeError
        If A is not a finite real square matrix.

    Notes
    -----
    slycot's ab13fd gives an upper bound that is off by up to 1e-8 ||A||, so the smallest of it, of
    1 / ||(s I - A)^-1|| by ab13dd and of minus the spectral abscissa is taken, all of them upper
    bounds; ab13ed gives the lower bound.

    Examples
    --------
    >>> from gausscontrol.linalg.mateqn import distance_to_instability
    >>> round(distance_to_instability([[-1.0, 4.0], [0.0, -1.0]]), 6)
    0.236068
    """
    A = _system_matrix(A, "A", None)
    d = len(A)
    if d == 0:
        return float("inf")
    abscissa = _require_hurwitz("distance to instability", A)
    a = _exponent(A)
    A = np.asfortranarray(np.ldexp(A, -a))
    I, Z = np.eye(d, order="F"), np.zeros((d, d), order="F")
    with _slycot_failures("distance to instability", "ignore"):
        upper, _ = slycot.ab13fd(d, A.copy(order="F"))
        low, _ = slycot.ab13ed(d, A.copy(order="F"), 0.01)
        peak, _ = slycot.ab13dd(
            "C", "I", "N", "Z", d, d, d, A.copy(order="F"), I, I.copy(order="F"), I, Z
        )
    distance = min(float(upper), 1.0 / float(peak) if np.isfinite(peak) else np.inf)
    distance = min(distance, -float(np.ldexp(abscissa, -a)))
    if not low <= distance * (1.0 + MEASURE_TOLERANCE):
        raise MatrixEquationError(
            f"distance to instability: no reliable answer, lower bound {np.ldexp(low, a):.6g} "
            f"above upper bound {np.ldexp(distance, a):.6g}; rescale the states"
        )
    return float(np.ldexp(distance, a))


def hinf_norm(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike | None = None
) -> tuple[float, float]:
    """H-infinity norm of a stable system, and where it peaks.

    The largest singular value of C (i w I - A)^-1 B + D over all frequencies w.

    Parameters
    ----------
    A : (d, d) array_like
        Hurwitz.
    B : (d, m) array_like
        Input matrix; no columns, or all zero, leaves the norm of D.
    C : (p, d) array_like
        Output matrix.
    D : (p, m) array_like, optional
        Feedthrough; default zero.

    Returns
    -------
    peak : float
        The norm.
    frequency : float
        In the unit of A; infinite if the peak is approached there only.

    Raises
    ------
    MatrixEquationError
        If A is not Hurwitz, or the gains at known frequencies contradict the answer.
    ParameterError, ShapeError
        If an entry is not a finite real number or the shapes do not agree.

    Notes
    -----
    slycot's ab13dd, which does not notice an unstable A.

    Examples
    --------
    >>> from gausscontrol.linalg.mateqn import hinf_norm
    >>> peak, frequency = hinf_norm([[-2.0]], [[1.0]], [[1.0]])
    >>> round(peak, 9), frequency
    (0.5, 0.0)
    """
    A, B, C = _system(A, B, C)
    m, p = B.shape[1], len(C)
    D = np.zeros((p, m)) if D is None else _system_matrix(D, "D", (p, m))
    poles = _require_hurwitz("H-infinity norm", A, all_poles=True)
    if not (B.any() and C.any()):
        return (float(np.linalg.norm(D, 2)) if D.size else 0.0), 0.0
    a, b, c = _exponent(A), _exponent(B), _exponent(C)
    A, B, C, D = (
        np.asfortranarray(np.ldexp(M, k)) for M, k in zip((A, B, C, D), (-a, -b, -c, a - b - c))
    )
    d = len(A)
    with _slycot_failures("H-infinity norm"):
        peak, frequency = slycot.ab13dd(
            *("C", "I", "N", "D" if D.any() else "Z", d, m, p),
            *(M.copy(order="F") for M in (A, np.eye(d), B, C, D)),
        )
    peak, frequency = float(peak), float(frequency)
    gains = _gains(A, B, C, D, [frequency, 0.0, np.inf, *np.abs(np.ldexp(poles.imag, -a))])
    if not (abs(gains[0] - peak) <= MEASURE_TOLERANCE * peak and gains.max() <= peak * (1 + 1e-6)):
        raise MatrixEquationError(
            f"H-infinity norm: no reliable answer, slycot says {np.ldexp(peak, b + c - a):.6g}, "
            f"known gains reach {np.ldexp(gains.max(), b + c - a):.6g}; rescale the states"
        )
    return float(np.ldexp(peak, b + c - a)), float(np.ldexp(frequency, a))


def h2_norm(A: ArrayLike, B: ArrayLike, C: ArrayLike) -> float:
    """H2 norm of a stable system without feedthrough.

    The square root of tr(C P C^T), P the controllability Gramian.

    Parameters
    ----------
    A, B, C : (d, d), (d, m), (p, d) array_like
        As in `hinf_norm`.

    Returns
    -------
    float
        0 if B or C is zero or has no columns or rows.

    Raises
    ------
    MatrixEquationError
        If A is not Hurwitz, or the Gramian contradicts slycot's answer.
    ParameterError, ShapeError
        If an entry is not a finite real number or the shapes do not agree.

    Notes
    -----
    slycot's ab13bd, checked against sb03od.

    Examples
    --------
    >>> from gausscontrol.linalg.mateqn import h2_norm
    >>> round(h2_norm([[-2.0]], [[4.0]], [[1.0]]), 9)
    2.0
    """
    A, B, C = _system(A, B, C)
    _require_hurwitz("H2 norm", A)
    if not (B.any() and C.any()):
        return 0.0
    factor, k = _gramian_factor("H2 norm", A, B)
    a, b, c = _even_exponent(A), _exponent(B), _exponent(C)
    A, B, C = (np.asfortranarray(np.ldexp(M, -k)) for M, k in zip((A, B, C), (a, b, c)))
    expected = float(np.linalg.norm(C @ factor))
    d, m, p = len(A), B.shape[1], len(C)
    with _slycot_failures("H2 norm"):
        norm = float(slycot.ab13bd("C", "H", d, m, p, A, B, C.copy(order="F"), np.zeros((p, m))))
    if not abs(norm - expected) <= MEASURE_TOLERANCE * np.linalg.norm(factor) * np.linalg.norm(C):
        raise MatrixEquationError(
            f"H2 norm: no reliable answer, slycot says {np.ldexp(norm, k + c):.6g}, the Gramian "
            f"{np.ldexp(expected, k + c):.6g}; rescale the states"
        )
    return float(np.ldexp(norm, k + c))


def controllability_gramian(A: ArrayLike, B: ArrayLike) -> np.ndarray:
    """Controllability Gramian of a stable pair.

    The P >= 0 with A P + P A^T + B B^T = 0.

    Parameters
    ----------
    A, B : (d, d), (d, m) array_like
        As in `hinf_norm`.

    Returns
    -------
    (d, d) ndarray
        Symmetric positive semidefinite by construction, P = F F^T.

    Raises
    ------
    MatrixEquationError
        If A is not Hurwitz, or Hurwitz only within rounding.
    ParameterError, ShapeError
        If an entry is not a finite real number or the shapes do not agree.

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.mateqn import controllability_gramian
    >>> P = controllability_gramian(np.diag([-1.0, -2.0]), np.eye(2))
    >>> bool(np.allclose(P, np.diag([0.5, 0.25])))
    True
    """
    A = _system_matrix(A, "A", None)
    B = _system_matrix(B, "B", (len(A), None))
    return _gramian("controllability Gramian", A, B)


def observability_gramian(A: ArrayLike, C: ArrayLike) -> np.ndarray:
    """Observability Gramian of a stable pair.

    The P >= 0 with A^T P + P A + C^T C = 0.

    Parameters
    ----------
    A, C : (d, d), (p, d) array_like
        As in `hinf_norm`.

    Returns
    -------
    (d, d) ndarray
        Symmetric positive semidefinite by construction.

    Raises
    ------
    MatrixEquationError
        If A is not Hurwitz, or Hurwitz only within rounding.
    ParameterError, ShapeError
        If an entry is not a finite real number or the shapes do not agree.

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.mateqn import observability_gramian
    >>> P = observability_gramian(np.diag([-1.0, -2.0]), np.eye(2))
    >>> bool(np.allclose(P, np.diag([0.5, 0.25])))
    True
    """
    A = _system_matrix(A, "A", None)
    C = _system_matrix(C, "C", (None, len(A)))
    return _gramian("observability Gramian", A.T, C.T)


def hankel_singular_values(A: ArrayLike, B: ArrayLike, C: ArrayLike) -> np.ndarray:
    """Hankel singular values of a stable system, largest first.

    Singular values of F_o^T F_c, where F_c F_c^T and F_o F_o^T are the two Gramians, which keeps
    those of an uncontrollable part at rounding level where eigenvalues of the product would not.

    Parameters
    ----------
    A, B, C : (d, d), (d, m), (p, d) array_like
        As in `hinf_norm`.

    Returns
    -------
    (d,) ndarray

    Raises
    ------
    MatrixEquationError
        If A is not Hurwitz, or Hurwitz only within rounding.
    ParameterError, ShapeError
        If an entry is not a finite real number or the shapes do not agree.

    Examples
    --------
    >>> from gausscontrol.linalg.mateqn import hankel_singular_values
    >>> bool(abs(hankel_singular_values([[-1.0]], [[2.0]], [[1.0]])[0] - 1.0) < 1e-12)
    True
    """
    A, B, C = _system(A, B, C)
    _require_hurwitz("Hankel singular values", A)
    if not (B.any() and C.any()):
        return np.zeros(len(A))
    reachable, k = _gramian_factor("Hankel singular values", A, B)
    observable, l = _gramian_factor("Hankel singular values", A.T, C.T)
    return np.ldexp(np.linalg.svd(observable.T @ reachable, compute_uv=False), k + l)


# Scaling, checks and messages


def _exponent(M: np.ndarray) -> int:
    return int(np.frexp(np.abs(M).max(initial=0.0))[1])


def _even_exponent(M: np.ndarray) -> int:
    k = _exponent(M)
    return k + k % 2


def _unscaled(equation: str, X: np.ndarray, k: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        X = np.ldexp(X, k)
    if not np.isfinite(X).all():
        raise MatrixEquationError(
            f"{equation}: the solution exceeds the range of double precision; change the units"
        )
    return X


def _known_method(method: str) -> str:
    if method not in ("slycot", "scipy"):
        raise ParameterError(f"method: expected 'slycot' or 'scipy', found {method!r}; pass one")
    return method


@contextmanager
def _slycot_failures(what: str, warned: str = "error") -> Iterator[None]:
    """Turn whatever slycot raises, and by default what it warns, into MatrixEquationError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(warned, slycot.exceptions.SlycotWarning)
            yield
    except (slycot.exceptions.SlycotError, slycot.exceptions.SlycotWarning) as error:
        reason = " ".join(str(error).split())
        raise MatrixEquationError(f"{what}: {reason}; rescale the states") from error


def _solve_linear(
    equation: str, A: np.ndarray, E: np.ndarray | None, Q: np.ndarray, method: str
) -> MatrixEquationSolution:
    a, q, e = _exponent(A), _exponent(Q), 0 if E is None else _exponent(E)
    A, Q = np.ldexp(A, -a), np.ldexp(Q, -q)
    E = None if E is None else np.ldexp(E, -e)
    X, separation = _linear_call(_BACKENDS[method, E is None], equation, A, E, Q)
    _require_separation(equation, A, E, X, separation, a)
    terms = (
        (lambda X: (Q, A @ X, X @ A.T))
        if E is None
        else (lambda X: (Q, A @ X @ E.T, E @ X @ A.T))
    )
    X, residual = _checked(equation, X, terms)
    return MatrixEquationSolution(
        _unscaled(equation, X, q - a - e),
        residual,
        float(np.ldexp(separation, a + e)),
        method,
        equation,
    )


def _linear_call(
    backend: Callable[..., tuple[np.ndarray, float]],
    equation: str,
    A: np.ndarray,
    E: np.ndarray | None,
    Q: np.ndarray,
) -> tuple[np.ndarray, float]:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", slycot.exceptions.SlycotWarning)
            return backend(A, Q) if E is None else backend(A, E, Q)
    except (slycot.exceptions.SlycotError, slycot.exceptions.SlycotWarning) as error:
        raise MatrixEquationError(_singular_message(equation, A, E, 0.0, 0)) from error
    except np.linalg.LinAlgError as error:
        raise MatrixEquationError(_singular_message(equation, A, E, 0.0, 0)) from error
