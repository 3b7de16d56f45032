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
estimate of the separation (from the 1-norm of the inverse); for SciPy it is estimated here,
from above, by inverse iteration. A Riccati equation is refused when its Hamiltonian matrix H has an
eigenvalue within sqrt(eps) ||H||_F of the imaginary axis, as far as rounding moves a double one.

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

from gausscontrol.errors import MatrixEquationError, ParameterError
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

_REFUSALS = (
    slycot.exceptions.SlycotError,
    slycot.exceptions.SlycotWarning,
    np.linalg.LinAlgError,
)

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

    S, residual = _checked(
        BERNOULLI,
        S,
        lambda S: (S @ G @ S, A @ S, S @ A.T),
        against_largest_term=True,
    )
    return MatrixEquationSolution(
        _unscaled(BERNOULLI, S, -k), residual, inverse.separation, method, BERNOULLI
    )


# For inner loops: no validation of the arguments, plain arrays out


def solve_lyapunov(A: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the X of A X + X A^T + Q = 0 by slycot, for finite float arrays, symmetric Q.

    No validation of shapes and symmetry, no residual; the separation is still checked.

    Raises
    ------
    MatrixEquationError
        If there is no unique solution, or the data are not finite.
    """
    a, q = _exponent(A), _exponent(Q)
    operand = _Operand(LYAPUNOV, "A", np.ldexp(A, -a), None, a, a)
    X, _ = _inverted(operand, _lyapunov_slycot, np.ldexp(Q, -q))
    return _unscaled(LYAPUNOV, (X + X.T) / 2, q - a)


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
    v, c, r = _exponent(V), _exponent(C), _exponent(R)
    V, C, R = np.ldexp(V, -v), np.ldexp(C, -c), np.ldexp(R, -r)

    operand = _Operand(NEWTON, "the pencil (V, C^T)", V, C.T, v + c, v - c)
    E, _ = _inverted(operand, _generalized_slycot_fast, -R)
    return _unscaled(NEWTON, (E + E.T) / 2, r - v - c)


# Measures of a stable system x' = A x + B u, y = C x + D u: A (d, d), B (d, m), C (p, d), D (p, m).
# A must be Hurwitz beyond rounding, else MatrixEquationError with its abscissa, which also comes
# where two computations of the measure disagree. Arrays are validated (ParameterError, ShapeError),
# but there may be no states, inputs or outputs.


def distance_to_instability(A: ArrayLike) -> float:
    """Distance from a Hurwitz matrix to the nearest unstable one.

    min over w of the smallest singular value of A - i w I, that is in the 2-norm over complex
    matrices; in the unit of A, infinite for d = 0.

    Notes
    -----
    slycot's ab13fd gives an upper bound that is off by up to 1e-8 ||A|| and warns on many healthy
    matrices, so the smallest of it, of 1 / ||(s I - A)^-1|| by ab13dd and of minus the spectral
    abscissa is taken, all of them upper bounds; ab13ed gives a lower bound to check them against.

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
    poles = _require_hurwitz("distance to instability", A)
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
    distance = min(distance, -float(np.ldexp(poles.real.max(), -a)))
    if not low <= distance * (1.0 + MEASURE_TOLERANCE):
        raise MatrixEquationError(
            f"distance to instability: no reliable answer, lower bound {np.ldexp(low, a):.6g} "
            f"above upper bound {np.ldexp(distance, a):.6g}; rescale the states"
        )
    return float(np.ldexp(distance, a))


def hinf_norm(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike | None = None
) -> tuple[float, float]:
    """H-infinity norm of a stable system, and the frequency where it peaks.

    The largest singular value of C (i w I - A)^-1 B + D over all w >= 0; D defaults to zero. The
    frequency is in the unit of A, and infinite where the peak is approached there only.

    Notes
    -----
    slycot's ab13dd, which does not notice an unstable A. The gains at its frequency, at zero, at
    infinity and at the imaginary parts of the poles are compared with its answer.

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
    poles = _require_hurwitz("H-infinity norm", A)
    if not (B.any() and C.any()):
        return (float(np.linalg.norm(D, 2)) if D.size else 0.0), 0.0
    a, b, c = _exponent(A), _exponent(B), _exponent(C)
    A, B, C, D = (
        np.asfortranarray(np.ldexp(M, k))
        for M, k in zip((A, B, C, D), (-a, -b, -c, a - b - c), strict=True)
    )
    d = len(A)
    with _slycot_failures("H-infinity norm"):
        peak, frequency = slycot.ab13dd(
            *("C", "I", "N", "D" if D.any() else "Z", d, m, p),
            *(M.copy(order="F") for M in (A, np.eye(d), B, C, D)),
        )
    peak, frequency = float(peak), float(frequency)
    if not np.isfinite(peak):
        raise MatrixEquationError(
            "H-infinity norm: slycot finds an eigenvalue of A on the imaginary axis to rounding, "
            f"spectral abscissa {poles.real.max():.6g}; add damping"
        )
    gains = _gains(A, B, C, D, [frequency, 0.0, np.inf, *np.abs(np.ldexp(poles.imag, -a))])
    if not (
        abs(gains[0] - peak) <= MEASURE_TOLERANCE * peak
        and gains.max() <= peak * (1 + MEASURE_TOLERANCE)
    ):
        raise MatrixEquationError(
            f"H-infinity norm: no reliable answer, slycot says {np.ldexp(peak, b + c - a):.6g}, "
            f"known gains reach {np.ldexp(gains.max(), b + c - a):.6g}; rescale the states"
        )
    return float(np.ldexp(peak, b + c - a)), float(np.ldexp(frequency, a))


def h2_norm(A: ArrayLike, B: ArrayLike, C: ArrayLike) -> float:
    """H2 norm of a stable system without feedthrough.

    The square root of tr(C P C^T), P the controllability Gramian: slycot's ab13bd, checked against
    the Gramian's factor from sb03od.

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
    A, B, C = (
        np.asfortranarray(np.ldexp(M, -k)) for M, k in zip((A, B, C), (a, b, c), strict=True)
    )
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

    The P with A P + P A^T + B B^T = 0; symmetric and P >= 0 by construction, P = F F^T.

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

    The P with A^T P + P A + C^T C = 0; symmetric and P >= 0 by construction, P = F F^T.

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
    """Hankel singular values of a stable system, d of them, largest first.

    Singular values of F_o^T F_c, where F_c F_c^T and F_o F_o^T are the two Gramians, which keeps
    those of an uncontrollable part at rounding level where eigenvalues of the product would not.

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
    except _REFUSALS as error:
        reason = " ".join(str(error).split())
        raise MatrixEquationError(f"{what}: {reason}; rescale the states") from error


def _checked(
    equation: str,
    X: np.ndarray,
    terms: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    *,
    against_largest_term: bool = False,
) -> tuple[np.ndarray, float]:
    """Symmetrise X and measure the sum of the terms, of which the first is the right side."""
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
class _Operand:
    """The scaled operator X -> A X E^T + E X A^T of an equation.

    The true operator is 2^exponent times larger, eigenvalues of the pencil (A, E) 2^ratio times.
    """

    equation: str
    name: str
    A: np.ndarray
    E: np.ndarray | None
    exponent: int
    ratio: int

    def rounding_level(self) -> float:
        size = np.linalg.norm(self.A) * (1.0 if self.E is None else np.linalg.norm(self.E))
        return float(SEPARATION_FACTOR * len(self.A) * EPS * size)

    def terms(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = self.A @ X if self.E is None else self.A @ X @ self.E.T
        return half, half.T

    def singular(self, separation: float | None) -> MatrixEquationError:
        """Say which two eigenvalues add up to (nearly) zero, in the user's units."""
        alpha, beta = scipy.linalg.eigvals(self.A, self.E, homogeneous_eigvals=True)
        size = np.hypot(np.abs(alpha), np.abs(beta))
        size[size == 0.0] = 1.0
        alpha, beta = alpha / size, beta / size
        sums = np.abs(np.multiply.outer(alpha, beta) + np.multiply.outer(beta, alpha))
        i, j = np.unravel_index(np.argmin(sums), sums.shape)
        pair = " and ".join(_eigenvalue_text(alpha[n], beta[n], self.ratio) for n in (i, j))
        level = np.ldexp(self.rounding_level(), self.exponent)
        found = (
            "the backend gives up"
            if separation is None
            else f"separation {np.ldexp(separation, self.exponent):.2g}, rounding {level:.2g}"
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


def _inverted(
    operand: _Operand,
    backend: Callable[..., tuple[np.ndarray, float]],
    Q: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Solve operand(X) = -Q and refuse a separation at rounding level."""
    matrices = (operand.A,) if operand.E is None else (operand.A, operand.E)
    if not all(np.isfinite(M).all() for M in (*matrices, Q)):
        raise MatrixEquationError(
            f"{operand.equation}: expected finite data, found NaN or infinity; "
            "the iteration that made them has diverged, so restart it elsewhere"
        )
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", slycot.exceptions.SlycotWarning)
            X, separation = backend(*matrices, Q)
    except _REFUSALS as error:
        raise operand.singular(None) from error
    if not separation > operand.rounding_level() or not np.isfinite(X).all():
        raise operand.singular(float(separation))
    return X, float(separation)


def _solve_linear(
    equation: str, A: np.ndarray, E: np.ndarray | None, Q: np.ndarray, method: str
) -> MatrixEquationSolution:
    a, q, e = _exponent(A), _exponent(Q), 0 if E is None else _exponent(E)
    A, Q, E = np.ldexp(A, -a), np.ldexp(Q, -q), None if E is None else np.ldexp(E, -e)
    operand = _Operand(equation, "A" if E is None else "the pencil (A, E)", A, E, a + e, a - e)
    X, separation = _inverted(operand, _BACKENDS[method, E is not None], Q)
    X, residual = _checked(equation, X, lambda X: (Q, *operand.terms(X)))
    X = _unscaled(equation, X, q - a - e)
    return MatrixEquationSolution(X, residual, float(np.ldexp(separation, a + e)), method, equation)


def _solve_riccati(
    A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, method: str
) -> RiccatiSolution:
    b, r = _exponent(B), _exponent(R)
    B, R = np.ldexp(B, -b), np.ldexp(R, -r)
    G = B @ np.linalg.solve(R, B.T)
    G = (G + G.T) / 2
    shift = 2 * b - r
    x, t = _riccati_units(A, G, Q, shift)
    A, G, Q = np.ldexp(A, -t), np.ldexp(G, shift + x - t), np.ldexp(Q, -x - t)
    H = np.block([[A, -G], [-Q, -A.T]])
    distance, level = np.abs(np.linalg.eigvals(H).real).min(), np.sqrt(EPS) * np.linalg.norm(H)
    if not distance > level:
        raise MatrixEquationError(
            f"{RICCATI} has no stabilising solution: the Hamiltonian matrix has an eigenvalue "
            f"{np.ldexp(distance, t):.2g} from the imaginary axis, where {np.ldexp(level, t):.2g} "
            "is rounding; make (A, B) stabilisable and every undamped mode of A visible in Q"
        )
    X = _riccati_answer(A, B, Q, np.ldexp(R, t - x - shift), G, method)
    closed = A - G @ X
    poles = np.linalg.eigvals(closed)
    if not poles.real.max() < 0.0:
        raise MatrixEquationError(
            f"{RICCATI} has no stabilising solution: the closed loop keeps the eigenvalue "
            f"{poles[poles.real.argmax()] * 2.0**t:.4g}; make (A, B) stabilisable"
        )
    X, residual = _checked(
        RICCATI,
        X,
        lambda X: (Q, A.T @ X, X @ A, -X @ G @ X),
        against_largest_term=True,
    )
    operand = _Operand(RICCATI, "the closed loop A - B K", closed, None, t, t)
    _, separation = _inverted(operand, _BACKENDS[method, False], np.eye(len(A)))
    return RiccatiSolution(
        _unscaled(RICCATI, X, x),
        residual,
        float(np.ldexp(separation, t)),
        method,
        RICCATI,
        poles * 2.0**t,
        _unscaled(RICCATI, np.linalg.solve(R, B.T @ X), b - r + x),
    )


def _riccati_units(A: np.ndarray, G: np.ndarray, Q: np.ndarray, shift: int) -> tuple[int, int]:
    """Exponents of the units of X and of 1/time that bring G and Q to one size, at most 1."""
    a, g, q = _exponent(A), _exponent(G) + shift, _exponent(Q)
    if not G.any():
        return q - a, a
    if not Q.any():
        return a - g, a
    x = (q - g) // 2
    return x, max(g + x, q - x, a if A.any() else g + x)


def _riccati_answer(
    A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, G: np.ndarray, method: str
) -> np.ndarray:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", slycot.exceptions.SlycotWarning)
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
            if method == "scipy":
                X = scipy.linalg.solve_continuous_are(A, B, Q, R)
            else:
                X = slycot.sb02md(len(A), *map(_fortran, (A, G, Q)), "C")[0]
    except _REFUSALS as error:
        raise MatrixEquationError(
            f"{RICCATI} has no stabilising solution: {' '.join(str(error).split())}; "
            "make (A, B) stabilisable and every undamped mode of A visible in Q"
        ) from error
    if not np.isfinite(X).all():
        raise MatrixEquationError(
            f"{RICCATI} has no stabilising solution: the backend answers with NaN or infinity; "
            "make (A, B) stabilisable"
        )
    return (X + X.T) / 2


def _system_matrix(
    value: ArrayLike, name: str, shape: tuple[int | None, int | None] | None
) -> np.ndarray:
    """Validate like real_matrix, but let a system have no states, inputs or outputs."""
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.size == 0:
        wanted = value.shape[::-1] if shape is None else shape
        if all(want in (None, have) for want, have in zip(wanted, value.shape, strict=True)):
            return np.zeros(value.shape)
    return real_matrix(value, name, shape)


def _system(A: ArrayLike, B: ArrayLike, C: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    A = _system_matrix(A, "A", None)
    return (
        A,
        _system_matrix(B, "B", (len(A), None)),
        _system_matrix(C, "C", (None, len(A))),
    )


def _require_hurwitz(what: str, A: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of A; refuse an abscissa that is not negative beyond rounding."""
    a = _exponent(A)
    scaled = np.ldexp(A, -a)
    poles = np.linalg.eigvals(scaled)
    level = len(A) * EPS * np.linalg.norm(scaled)
    if len(A) and not poles.real.max() < -level:
        raise MatrixEquationError(
            f"{what}: expected A Hurwitz, found spectral abscissa "
            f"{np.ldexp(poles.real.max(), a):.6g}; it exists for stable systems only"
        )
    return poles * 2.0**a


def _gains(
    A: np.ndarray, B: np.ndarray, C: np.ndarray, D: np.ndarray, frequencies: list[float]
) -> np.ndarray:
    def response(w: float) -> np.ndarray:
        return D + C @ np.linalg.solve(1j * w * np.eye(len(A)) - A, B) if np.isfinite(w) else D

    return np.array([np.linalg.norm(response(w), 2) for w in frequencies])


def _gramian(what: str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    _require_hurwitz(what, A)
    if not B.any():
        return np.zeros(A.shape)
    F, k = _gramian_factor(what, A, B)
    return _unscaled(what, F @ F.T, 2 * k)


def _gramian_factor(what: str, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, int]:
    """Return F and k: the Gramian is P = 4^k F F^T, F upper triangular."""
    a, b, d = _even_exponent(A), _exponent(B), len(A)
    A, B = np.ldexp(A, -a), np.ldexp(B, -b)
    # sb03od keeps its answer in the place of B, so B becomes square: B B^T = T^T T, B^T = Q T
    T = np.linalg.qr(B.T, mode="r")
    square = np.zeros((d, d), order="F")
    square[:, : len(T)] = T.T
    with _slycot_failures(what):
        F, scale, _ = slycot.sb03od(
            d, len(T), _fortran(A), np.zeros((d, d), order="F"), square, "C", trans="T"
        )
    F = np.triu(F) / scale
    P = F @ F.T
    _checked(what, P, lambda P: (B @ B.T, A @ P, P @ A.T))
    return F, b - a // 2


# Backends: each solves its equation for scaled data and returns (X, separation)


def _fortran(M: np.ndarray) -> np.ndarray:
    """Copy to Fortran order: SLICOT overwrites Fortran-ordered arguments in place."""
    return np.array(M, dtype=float, order="F")


def _lyapunov_slycot(A: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, float]:
    _, _, X, scale, separation, _, _ = slycot.sb03md57(
        _fortran(A), C=_fortran(-Q), dico="C", job="B", trana="T"
    )
    return X / scale, separation


def _generalized_slycot(
    A: np.ndarray, E: np.ndarray, Q: np.ndarray, *, job: str = "B"
) -> tuple[np.ndarray, float]:
    d = len(A)
    out = slycot.sg03ad(
        *("C", job, "N", "T", "U", d, _fortran(A), _fortran(E)),
        *(np.zeros((d, d), order="F"), np.zeros((d, d), order="F"), _fortran(-Q)),
        ldwork=max(2 * d * d, 8 * d + 16),
    )
    return out[4] / out[5], out[6]


def _generalized_slycot_fast(
    A: np.ndarray, E: np.ndarray, Q: np.ndarray
) -> tuple[np.ndarray, float]:
    """Solve without slycot's estimate of the separation, for which ||Q|| / ||X|| stands in."""
    X, _ = _generalized_slycot(A, E, Q, job="X")
    size = np.linalg.norm(X)
    return X, float(np.linalg.norm(Q) / size) if size > 0.0 else np.inf


def _lyapunov_scipy(A: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, float]:
    solve, adjoint = _schur_solver(A), _schur_solver(A.T)
    return solve(-Q), _separation(solve, adjoint, len(A))


def _generalized_scipy(A: np.ndarray, E: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, float]:
    solve, adjoint = _pencil_solver(A, E), _pencil_solver(A.T, E.T)
    return solve(-Q), _separation(solve, adjoint, len(A))


def _schur_solver(A: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return C -> X with A X + X A^T = C, from the real Schur form of A."""
    T, U = scipy.linalg.schur(A, output="real")

    def solve(C: np.ndarray) -> np.ndarray:
        Y, scale, info = dtrsyl(T, T, U.T @ C @ U, tranb="T")
        if info != 0:
            raise np.linalg.LinAlgError("dtrsyl perturbed the matrix to solve the equation")
        return U @ Y @ U.T / scale

    return solve


def _pencil_solver(A: np.ndarray, E: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return C -> X with A X E^T + E X A^T = C, from the complex generalised Schur form."""
    S, T, U, Z = scipy.linalg.qz(A, E, output="complex")

    def solve(C: np.ndarray) -> np.ndarray:
        # S Y T^H + T Y S^H = U^H C U with S, T upper triangular: the last column of Y comes first
        right, Y = U.conj().T @ C @ U, np.zeros(C.shape, dtype=complex)
        for k in range(len(C) - 1, -1, -1):
            known = S @ (Y @ T[k].conj()) + T @ (Y @ S[k].conj())
            M = S * T[k, k].conj() + T * S[k, k].conj()
            Y[:, k] = scipy.linalg.solve_triangular(M, right[:, k] - known)
        return (Z @ Y @ Z.conj().T).real

    return solve


def _separation(
    solve: Callable[[np.ndarray], np.ndarray],
    adjoint: Callable[[np.ndarray], np.ndarray],
    d: int,
) -> float:
    """Estimate the smallest singular value of a Lyapunov operator, from above, from its inverse.

    Four steps of inverse iteration on symmetric matrices from a fixed generic start.
    """
    E = np.random.default_rng(0).standard_normal((d, d))
    E, size = E + E.T, 0.0
    for _ in range(4):
        E = adjoint(E / np.linalg.norm(E))
        E = solve(E)
        size = float(np.linalg.norm(E))
        if not np.isfinite(size) or size == 0.0:
            return 0.0
    return size**-0.5


_BACKENDS: dict[tuple[str, bool], Callable[..., tuple[np.ndarray, float]]] = {
    ("slycot", False): _lyapunov_slycot,
    ("slycot", True): _generalized_slycot,
    ("scipy", False): _lyapunov_scipy,
    ("scipy", True): _generalized_scipy,
}
