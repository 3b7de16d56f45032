"""The Riccati equation, its stabilising solution checked.

    A^T X + X A - X B R^-1 B^T X + Q = 0,   A - B R^-1 B^T X Hurwitz

Assumptions: real data; symmetric Q and R, R nonsingular. Data are scaled by powers of two before a
backend sees them. An equation is refused when its Hamiltonian matrix H has an eigenvalue within
sqrt(eps) ||H||_F of the imaginary axis, as far as rounding moves a double one; when the closed loop
is not Hurwitz; and, by the policy of `verdict`, for its residual and for the separation of the
closed loop's Lyapunov operator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import MatrixEquationError, ParameterError
from gausscontrol.linalg.arrays import real_matrix, symmetric_matrix
from gausscontrol.linalg.equations import BACKENDS, MatrixEquationSolution, known_method
from gausscontrol.linalg.mateqn import sb02md
from gausscontrol.linalg.schur import schur_riccati
from gausscontrol.linalg.verdict import EPS, LyapunovOperator, checked, exponent, scaled, unscaled

__all__ = ["RiccatiSolution", "riccati"]

RICCATI = "Riccati equation A^T X + X A - X B R^-1 B^T X + Q = 0"
STABILISABLE = "make (A, B) stabilisable"
VISIBLE = " and every undamped mode of A visible in Q"


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
    >>> from gausscontrol.linalg.riccati import riccati
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
    return _solve_riccati(A, B, Q, R, known_method(method))


def _solve_riccati(
    A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, method: str
) -> RiccatiSolution:
    (B, b), (R, r) = scaled(B), scaled(R)
    G = B @ np.linalg.solve(R, B.T)
    G = (G + G.T) / 2
    shift = 2 * b - r
    x, t = _riccati_units(A, G, Q, shift)
    A, G, Q = np.ldexp(A, -t), np.ldexp(G, shift + x - t), np.ldexp(Q, -x - t)
    _require_dichotomy(A, G, Q, t)
    X = _riccati_answer(A, B, Q, np.ldexp(R, t - x - shift), G, method)
    closed = A - G @ X
    poles = np.linalg.eigvals(closed)
    if not poles.real.max() < 0.0:
        pole = poles[poles.real.argmax()] * 2.0**t
        raise _no_riccati(f"the closed loop keeps the eigenvalue {pole:.4g}; {STABILISABLE}")
    X, residual = checked(
        RICCATI, X, lambda X: (Q, A.T @ X, X @ A, -X @ G @ X), against_largest_term=True
    )
    operator = LyapunovOperator(RICCATI, "the closed loop A - B K", closed, None, t, t)
    _, separation = operator.solve(BACKENDS[method][0], np.eye(len(A)))
    return RiccatiSolution(
        unscaled(RICCATI, X, x),
        residual,
        float(np.ldexp(separation, t)),
        method,
        RICCATI,
        poles * 2.0**t,
        unscaled(RICCATI, np.linalg.solve(R, B.T @ X), b - r + x),
    )


def _riccati_units(A: np.ndarray, G: np.ndarray, Q: np.ndarray, shift: int) -> tuple[int, int]:
    """Exponents of the units of X and of 1/time that bring G and Q to one size, at most 1."""
    a, g, q = exponent(A), exponent(G) + shift, exponent(Q)
    if not G.any():
        return q - a, a
    if not Q.any():
        return a - g, a
    x = (q - g) // 2
    return x, max(g + x, q - x, a if A.any() else g + x)


def _require_dichotomy(A: np.ndarray, G: np.ndarray, Q: np.ndarray, t: int) -> None:
    """Refuse a Hamiltonian matrix with an eigenvalue on the imaginary axis, or nearly so."""
    H = np.block([[A, -G], [-Q, -A.T]])
    distance, level = np.abs(np.linalg.eigvals(H).real).min(), np.sqrt(EPS) * np.linalg.norm(H)
    if not distance > level:
        raise _no_riccati(
            f"the Hamiltonian matrix has an eigenvalue {np.ldexp(distance, t):.2g} from the "
            f"imaginary axis, where {np.ldexp(level, t):.2g} is rounding; {STABILISABLE}{VISIBLE}"
        )


def _riccati_answer(
    A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, G: np.ndarray, method: str
) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):
            X = sb02md(A, G, Q) if method == "slycot" else schur_riccati(A, B, Q, R)
    except np.linalg.LinAlgError as error:
        reason = " ".join(str(error).split())
        raise _no_riccati(f"{reason}; {STABILISABLE}{VISIBLE}") from error
    if not np.isfinite(X).all():
        raise _no_riccati(f"the backend answers with NaN or infinity; {STABILISABLE}")
    return (X + X.T) / 2


def _no_riccati(reason: str) -> MatrixEquationError:
    return MatrixEquationError(f"{RICCATI} has no stabilising solution: {reason}")
