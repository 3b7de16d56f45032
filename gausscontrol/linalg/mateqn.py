"""The slycot room: SLICOT's routines for plain arrays, each named as in SLICOT.

The equations::

    sb03md   A X + X A^T + Q = 0             sb02md   A^T X + X A - X G X + Q = 0
    sg03ad   A X E^T + E X A^T + Q = 0       sb03od   A P + P A^T + B B^T = 0,  P = F F^T
    ab13ed, ab13fd   min over w of the smallest singular value of A - i w I
    ab13dd   max over w of ||C (i w I - A)^-1 B + D||_2       ab13bd   the H2 norm of (A, B, C)

Assumptions: finite float arrays whose shapes agree, scaled by the caller so that nothing overflows;
symmetric Q and G. Answers are as slycot gives them: whether to believe them is settled elsewhere.

This is the only module that imports slycot. SLICOT works in place on Fortran-ordered arrays, so
each call gets copies; the scale it returns is divided out; and whatever it raises or warns leaves
as LinAlgError.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import slycot

__all__ = ["sb03md", "sg03ad", "sb02md", "sb03od", "ab13ed", "ab13fd", "ab13dd", "ab13bd"]

ABSCISSA_ACCURACY = 0.01


def sb03md(A: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, float]:
    """Return X of the Lyapunov equation, and the separation (Bartels-Stewart)."""
    with _failures():
        _, _, X, scale, separation, _, _ = slycot.sb03md57(
            _fortran(A), C=_fortran(-Q), dico="C", job="B", trana="T"
        )
    return X / scale, separation


def sg03ad(
    A: np.ndarray, E: np.ndarray, Q: np.ndarray, *, estimate: bool = True
) -> tuple[np.ndarray, float]:
    """Return X of the generalised Lyapunov equation, and the separation.

    Without the estimate, which costs several solutions, ||Q|| / ||X|| stands in for the separation,
    an upper bound of it.
    """
    d = len(A)
    with _failures():
        _, _, _, _, X, scale, separation, *_ = slycot.sg03ad(
            *("C", "B" if estimate else "X", "N", "T", "U", d, _fortran(A), _fortran(E)),
            *(_zeros(d), _zeros(d), _fortran(-Q)),
            ldwork=max(2 * d * d, 8 * d + 16),
        )
    X = X / scale
    if not estimate:
        size = np.linalg.norm(X)
        separation = np.linalg.norm(Q) / size if size > 0.0 else np.inf
    return X, separation


def sb02md(A: np.ndarray, G: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the stabilising X of the Riccati equation (ordered real Schur form)."""
    with _failures():
        return slycot.sb02md(len(A), _fortran(A), _fortran(G), _fortran(Q), "C")[0]


def sb03od(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the upper triangular F of the Gramian P = F F^T of a stable pair."""
    d = len(A)
    # The answer takes the place of B, so B becomes square: B B^T = T^T T with B^T = (orthogonal) T.
    T = np.linalg.qr(B.T, mode="r")
    square = _zeros(d)
    square[:, : len(T)] = T.T
    with _failures():
        F, scale, _ = slycot.sb03od(d, len(T), _fortran(A), _zeros(d), square, "C", trans="T")
    return np.triu(F) / scale


def ab13ed(A: np.ndarray) -> float:
    """Return a lower bound of the distance to instability, within 1 % where rounding allows."""
    with _failures():
        low, _ = slycot.ab13ed(len(A), _fortran(A), ABSCISSA_ACCURACY)
    return float(low)


def ab13fd(A: np.ndarray) -> float:
    """Return an upper bound of the distance to instability, off by up to 1e-8 ||A||.

    Its warning of lost accuracy is not passed on, since many healthy matrices cause it.
    """
    with _failures("ignore"):
        upper, _ = slycot.ab13fd(len(A), _fortran(A))
    return float(upper)


def ab13dd(A: np.ndarray, B: np.ndarray, C: np.ndarray, D: np.ndarray) -> tuple[float, float]:
    """Return the L-infinity norm and where it peaks; an unstable A is not noticed."""
    d, m, p = len(A), B.shape[1], len(C)
    with _failures():
        peak, frequency = slycot.ab13dd(
            *("C", "I", "N", "D" if D.any() else "Z", d, m, p),
            *map(_fortran, (A, np.eye(d), B, C, D)),
        )
    return float(peak), float(frequency)


def ab13bd(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> float:
    """Return the H2 norm of a stable system without feedthrough."""
    d, m, p = len(A), B.shape[1], len(C)
    with _failures():
        norm = slycot.ab13bd("C", "H", d, m, p, *map(_fortran, (A, B, C, np.zeros((p, m)))))
    return float(norm)


@contextmanager
def _failures(warned: str = "error") -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(warned, slycot.exceptions.SlycotWarning)
            yield
    except (slycot.exceptions.SlycotError, slycot.exceptions.SlycotWarning) as error:
        raise np.linalg.LinAlgError(" ".join(str(error).split())) from error


def _fortran(M: np.ndarray) -> np.ndarray:
    return np.array(M, dtype=float, order="F")


def _zeros(d: int) -> np.ndarray:
    return np.zeros((d, d), order="F")
