"""Measures of a stable system: distance to instability, norms, Gramians, Hankel values.

    x' = A x + B u,  y = C x + D u:     A (d, d),  B (d, m),  C (p, d),  D (p, m)

Assumptions: A is Hurwitz beyond rounding, else MatrixEquationError with its abscissa, which also
comes where two computations of a measure disagree. Arrays are validated (ParameterError,
ShapeError), but there may be no states, inputs or outputs. Data are scaled by powers of two, so no
verdict depends on units.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.arrays import real_matrix
from gausscontrol.linalg.mateqn import ab13bd, ab13dd, ab13ed, ab13fd, sb03od
from gausscontrol.linalg.verdict import EPS, checked, scaled, unscaled

__all__ = [
    "distance_to_instability",
    "hinf_norm",
    "h2_norm",
    "controllability_gramian",
    "observability_gramian",
    "hankel_singular_values",
]

MEASURE_TOLERANCE = 1e-6


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
    >>> from gausscontrol.linalg.measures import distance_to_instability
    >>> round(distance_to_instability([[-1.0, 4.0], [0.0, -1.0]]), 6)
    0.236068
    """
    A = _system_matrix(A, "A", None)
    d = len(A)
    if d == 0:
        return float("inf")
    poles = _require_hurwitz("distance to instability", A)
    A, a = scaled(A)
    I = np.eye(d)
    with _reliably("distance to instability"):
        low, upper = ab13ed(A), ab13fd(A)
        peak, _ = ab13dd(A, I, I, np.zeros((d, d)))
    distance = min(upper, 1.0 / peak if np.isfinite(peak) else np.inf)
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
    >>> from gausscontrol.linalg.measures import hinf_norm
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
    (A, a), (B, b), (C, c) = scaled(A), scaled(B), scaled(C)
    D = np.ldexp(D, a - b - c)
    with _reliably("H-infinity norm"):
        peak, frequency = ab13dd(A, B, C, D)
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
    >>> from gausscontrol.linalg.measures import h2_norm
    >>> round(h2_norm([[-2.0]], [[4.0]], [[1.0]]), 9)
    2.0
    """
    A, B, C = _system(A, B, C)
    _require_hurwitz("H2 norm", A)
    if not (B.any() and C.any()):
        return 0.0
    factor, k = _gramian_factor("H2 norm", A, B)
    (A, _), (B, _), (C, c) = scaled(A, 2), scaled(B), scaled(C)
    expected = float(np.linalg.norm(C @ factor))
    with _reliably("H2 norm"):
        norm = ab13bd(A, B, C)
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
    >>> from gausscontrol.linalg.measures import controllability_gramian
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
    >>> from gausscontrol.linalg.measures import observability_gramian
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
    >>> from gausscontrol.linalg.measures import hankel_singular_values
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
    A, a = scaled(A)
    poles = np.linalg.eigvals(A)
    level = len(A) * EPS * np.linalg.norm(A)
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
    return unscaled(what, F @ F.T, 2 * k)


def _gramian_factor(what: str, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, int]:
    """Return F and k: the Gramian is P = 4^k F F^T, F upper triangular."""
    (A, a), (B, b) = scaled(A, 2), scaled(B)
    with _reliably(what):
        F = sb03od(A, B)
    P = F @ F.T
    checked(what, P, lambda P: (B @ B.T, A @ P, P @ A.T))
    return F, b - a // 2


@contextmanager
def _reliably(what: str) -> Iterator[None]:
    """Say which measure it is that slycot cannot give."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise MatrixEquationError(f"{what}: {error}; rescale the states") from error
