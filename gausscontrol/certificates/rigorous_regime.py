"""Proofs of boundedness and collapse, in ball arithmetic (Theory 3.7, 5.1, 5.2, 5.6, 9.3).

    y = tr(P Sigma):   P A + A^T P <= 2 a P,   -q_P(S) - <G, S (x) S> - k tr(P S)^2 >= 0,   G >= 0
    y = lambda_max(B^(1/2) Sigma B^(1/2)):   B A + A^T B <= 2 a B,   B V + V^T B <= -2 (k + e) B
    =>  y' <= 2 (a y - k y^2)

q_P(S) = sum_h tr(P V_h S B_h S), and <G, S (x) S> >= 0 for S >= 0. In the second line heads share
a key, B_h = c_h B + E_h with V = sum_h c_h V_h and e = sum_h |V_h| |E_h| in the coordinates
B^(1/2) x: a unit eigenvector u of the largest eigenvalue l = |S| has
|u^T V_h S E_h u| <= l |V_h| |E_h|.

No equilibrium is involved: all is a statement about the floats of the model and of the witness,
with k, a and the bound as stored. Inequalities without any slack (k = 0, a = 0) are decided in
rational arithmetic. Every function here returns True only if its claim is proved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gausscontrol.certificates.balance import balanced
from gausscontrol.certificates.comparison import EPS
from gausscontrol.certificates.exact_model import ExactModel, exact_gain, matrix_sum, working
from gausscontrol.certificates.spectral import original_key, spectra
from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.ball_forms import form_matrix, pair_form, symmetric_map, vech
from gausscontrol.linalg.balls import (
    alternates,
    exact,
    exact_matrix,
    identity,
    inverse,
    is_hurwitz,
    is_positive_definite,
    is_zero,
    rational_matrix,
    spectral_bound,
)
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import symmetrise, vech_index
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.certificates.regime import Boundedness, Collapse
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = [
    "CommonKey",
    "common_key_of",
    "cone_remainder",
    "prove_boundedness",
    "prove_collapse",
    "trace_vector",
]

# Relative room in which a float that is only a candidate is rounded to the safe side.
ROOM = 1e-9


def prove_boundedness(certificate: Boundedness) -> bool:
    """Prove that every covariance stays bounded, with the bound of a certificate.

    Parameters
    ----------
    certificate : Boundedness

    Returns
    -------
    bool
        With the mean, if that is in its scope: then one quadratic function of the mean decreases
        for all covariances up to the bound.

    Notes
    -----
    Theory 3.7, 5.1. y' <= 2 (a y - k y^2) keeps y bounded, limsup y <= max(0, a) / k, and tr Sigma
    is at most y tr B^-1, or y / lambda_min(P). With a = k = 0 y never grows.
    """
    model, rate, gain = certificate.model, certificate.rate, certificate.gain
    keeps = certificate.relative
    if model.dt or not (rate == gain == 0 if keeps else gain >= 0 and (rate < 0 or gain > 0)):
        return False
    with working(model.dim):
        exact_model = ExactModel.of(model)
        shown = _comparison(certificate, exact_model, rate, gain)
        if shown is None:
            return False
        if keeps:
            return not certificate.mean_stable and _stays(shown, certificate.bound)
        # tr Sigma <= bound follows from D = I, and the balanced trace from its own D.
        ones = np.ones(model.dim)
        if not _limits(shown, ones, rate, gain, certificate.bound):
            return False
        if not certificate.mean_stable:
            return True
        scale = balanced(model).scale
        reach = 0.0 if rate <= 0 else _reach(shown, scale) * rate / gain * (1 + ROOM)
        return _limits(shown, scale, rate, gain, reach) and _mean_stays(exact_model, scale, reach)


def prove_collapse(certificate: Collapse) -> bool:
    """Prove that every covariance tends to zero, at the rate of a certificate.

    Parameters
    ----------
    certificate : Collapse

    Returns
    -------
    bool
        With the mean, if that is in its scope: A + Vbar is Hurwitz.

    Notes
    -----
    Theory 5.2, 5.6: y' <= -rate y or, with rate 0, y' <= -2 gain y^2, so that y <= 1/(2 gain t).
    """
    model, rate, gain = certificate.model, certificate.rate, certificate.gain
    if model.dt or not (rate > 0 == gain if rate else gain > 0):
        return False
    with working(model.dim):
        exact_model = ExactModel.of(model)
        shown = _comparison(certificate, exact_model, -rate / 2, gain)
        if shown is None or not (
            rate or _traces(shown, np.ones(model.dim), certificate.tail, gain)
        ):
            return False
        if not certificate.mean_stable:
            return True
        return is_hurwitz(exact_model.A + exact_model.values())


# -- y' <= 2 (a y - k y^2) ------------------------------------------------------------------------


class _Shown(NamedTuple):
    # y is lambda_max in the coordinates `weight`^(1/2) if spectral, tr(weight Sigma) if not.
    weight: np.ndarray
    is_spectral: bool


def _comparison(
    certificate: Boundedness | Collapse, exact_model: ExactModel, rate: float, gain: float
) -> _Shown | None:
    """Prove the comparison and return what y is, or None."""
    model = certificate.model
    if certificate.method == "spectral":
        found = balanced(model)
        numbers = spectra(found)
        if numbers is None:
            return None
        shown = _Shown(original_key(found, numbers), True)
        proved = _spectral_decay(exact_model, model, shown.weight, gain)
    else:
        shown = _Shown(symmetrise(certificate.P), False)
        proved = _cone_decay(exact_model, model, shown.weight, certificate.multiplier, gain)
    definite = is_positive_definite(exact_matrix(shown.weight))
    return (
        shown if proved and definite and _slower(exact_model, model, shown.weight, rate) else None
    )


def _slower(
    exact_model: ExactModel, model: GaussianTransformer, weight: np.ndarray, rate: float
) -> bool:
    """Prove P A + A^T P <= 2 a P, in rationals where a = 0 leaves no slack."""
    X = exact_matrix(weight)
    pencil = X * exact_model.A
    if is_positive_definite(X * exact(2 * rate) - pencil - pencil.transpose()):
        return True
    if rate != 0:
        return False
    pencil = rational_matrix(weight) * rational_matrix(model.A)
    return alternates(-(pencil + pencil.transpose()))


def _cone_decay(
    exact_model: ExactModel,
    model: GaussianTransformer,
    P: np.ndarray,
    multiplier: np.ndarray | None,
    gain: float,
) -> bool:
    form = cone_remainder(exact_model, exact_matrix(P), multiplier, gain, -1.0)
    if form is not None and is_positive_definite(form):
        return True
    # T(S) S + S T(S)^T = S G S <= 0, G = 0 without attention, whatever P >= 0 is.
    return gain == 0 and (_vanishes(exact_model) or _riccati_decay(model))


def cone_remainder(
    model: ExactModel, P: BallMatrix, multiplier: np.ndarray | None, gain: float, sign: float
) -> BallMatrix | None:
    """Return the form sign q_P(S) - <G, S (x) S> - gain tr(P S)^2 in plain entries of vech.

    Parameters
    ----------
    model : ExactModel
    P : (d, d) ball matrix
        Symmetric.
    multiplier : (d^2, d^2) ndarray or None
        G; None for zero.
    gain, sign : float

    Returns
    -------
    (n, n) ball matrix or None
        None if G is not proved positive definite.
    """
    # tr(P V S B S) is half of <S, symmetric_map(S)>.
    left = [P * V * exact(sign / 2) for V in model.V]
    form = form_matrix(symmetric_map(left, model.B))
    if multiplier is not None:
        G = exact_matrix(symmetrise(multiplier))
        if not is_positive_definite(G):
            return None
        form = form - pair_form(G, model.dim)
    v = trace_vector(P)
    return form - v * v.transpose() * exact(gain)


def trace_vector(X: BallMatrix) -> BallMatrix:
    """Return v with tr(X S) = v^T vech(S) for symmetric X."""
    weight = np.rint(vech_index(X.nrows()).weight ** 2)
    return exact_matrix(np.diag(weight)) * vech(X)


def _vanishes(model: ExactModel) -> bool:
    return all(is_zero(V) or is_zero(B) for V, B in zip(model.V, model.B, strict=True))


def _riccati_decay(model: GaussianTransformer) -> bool:
    gain = exact_gain(model)
    return gain is not None and alternates(-gain)


# -- heads that share a key -----------------------------------------------------------------------


class CommonKey(NamedTuple):
    """One effective head V S B, and a bound e on the rest in the coordinates B^(1/2) x."""

    B: BallMatrix
    V: BallMatrix
    rest: Ball

    @property
    def is_exact(self) -> bool:
        """Whether every B_h is exactly a multiple of B."""
        return bool(self.rest == 0)


def common_key_of(model: ExactModel, key: np.ndarray) -> CommonKey | None:
    """Return the effective head for a key B > 0, or None if B is not proved positive definite.

    Parameters
    ----------
    model : ExactModel
    key : (d, d) ndarray
        Symmetric.

    Returns
    -------
    CommonKey or None

    Notes
    -----
    c_h is the ratio of the largest entries, as a ball; |X|^2 = tr(B X B^-1 X^T) for V_h in the
    coordinates B^(1/2) x, and tr(B^-1 X B^-1 X^T) for B_h.
    """
    B = exact_matrix(key)
    X = inverse(B) if is_positive_definite(B) else None
    if X is None:
        return None
    i, j = np.unravel_index(int(np.abs(key).argmax()), key.shape)
    at = int(i), int(j)
    weights = [matrix[at] / B[at] for matrix in model.B]
    rest = exact(0)
    for V, matrix, weight in zip(model.V, model.B, weights, strict=True):
        E = matrix - B * weight
        if _is_proportional(matrix, B, at):
            continue
        sizes = (B * V * X * V.transpose()).trace(), (X * E * X * E.transpose()).trace()
        rest += (sizes[0].abs_upper() * sizes[1].abs_upper()).sqrt().abs_upper()
    return CommonKey(B, matrix_sum([V * w for V, w in zip(model.V, weights, strict=True)]), rest)


def _is_proportional(matrix: BallMatrix, B: BallMatrix, at: tuple[int, int]) -> bool:
    """Tell whether two exact matrices are multiples of each other, decided without rounding."""
    entries = matrix.entries() + B.entries()
    if not all(x.is_exact() for x in entries):
        return False
    pairs = zip(matrix.entries(), B.entries(), strict=True)
    top, bottom = matrix[at].fmpq(), B[at].fmpq()
    return all(x.fmpq() * bottom == top * y.fmpq() for x, y in pairs)


def _spectral_decay(
    exact_model: ExactModel, model: GaussianTransformer, key: np.ndarray, gain: float
) -> bool:
    head = common_key_of(exact_model, key)
    if head is None:
        return False
    pencil = head.B * head.V
    pencil = pencil + pencil.transpose()
    if is_positive_definite(-pencil - head.B * (2 * (exact(gain) + head.rest))):
        return True
    if gain != 0 or not head.is_exact:
        return False
    return _is_exactly_dissipative(model, key)


def _is_exactly_dissipative(model: GaussianTransformer, key: np.ndarray) -> bool:
    """Decide B V + V^T B <= 0 in rationals, for keys that are exact multiples of B."""
    rational, B = ExactModel.of(model, rational_matrix), rational_matrix(key)
    i, j = np.unravel_index(int(np.abs(key).argmax()), key.shape)
    at = int(i), int(j)
    V = matrix_sum([V * (K[at] / B[at]) for V, K in zip(rational.V, rational.B, strict=True)])
    pencil = B * V
    return alternates(-(pencil + pencil.transpose()))


# -- bounds ---------------------------------------------------------------------------------------


def _limits(shown: _Shown, scale: np.ndarray, rate: float, gain: float, bound: float) -> bool:
    """Prove limsup tr(D Sigma D) <= bound from y' <= 2 (rate y - gain y^2), D diagonal."""
    if not bound >= 0:
        return False
    # The limsup of y is at most rate / gain.
    return rate <= 0 or _traces(shown, scale, bound, gain / 2, rate)


def _traces(shown: _Shown, scale: np.ndarray, bound: float, gain: float, rate: float = 1.0) -> bool:
    """Prove tr(D Sigma D) <= bound from y <= rate / (2 gain), D diagonal."""
    D, X = exact_matrix(np.diag(scale)), exact_matrix(shown.weight)
    room = exact(bound) * exact(gain) * 2
    if shown.is_spectral:
        back = inverse(X)
        return back is not None and bool((D * back * D).trace() * exact(rate) <= room)
    return is_positive_definite(X * (room / exact(rate)) - D * D)


def _stays(shown: _Shown, bound: float) -> bool:
    """Prove tr Sigma(t) <= bound tr Sigma_0 for a y that never grows."""
    # y_0 <= c tr Sigma_0.
    dim = len(shown.weight)
    largest = float(np.linalg.eigvalsh(shown.weight)[-1]) * (1 + 4 * dim * EPS)
    X, ones = exact_matrix(shown.weight), np.ones(dim)
    below = is_positive_definite(identity(dim) * exact(largest) - X)
    return below and _traces(shown, ones, bound, 0.5, largest)


def _reach(shown: _Shown, scale: np.ndarray) -> float:
    """Return a candidate for f with tr(D Sigma D) <= f y."""
    inverted = scale[:, None] * np.linalg.inv(shown.weight) * scale
    return float(np.trace(inverted) if shown.is_spectral else np.linalg.eigvalsh(inverted)[-1])


def _mean_stays(model: ExactModel, scale: np.ndarray, reach: float) -> bool:
    """Prove A + Vbar + T(S) Hurwitz by one P, for all S >= 0 with tr(D S D) <= reach."""
    D = exact_matrix(np.diag(scale))
    white = model.transformed(D, exact_matrix(np.diag(1 / scale)))
    matrix = white.A + white.values()
    middle = np.array([[float(x.mid()) for x in row] for row in matrix.table()])
    try:
        P = symmetrise(solve_lyapunov(middle.T, np.eye(len(middle))))
    except MatrixEquationError:
        return False
    P = exact_matrix(P / (np.linalg.norm(P, 2) * (1 + ROOM)))
    one = identity(len(middle))
    pairs = zip(white.V, white.B, strict=True)
    nu = sum((spectral_bound(V) * spectral_bound(B) for V, B in pairs), exact(0))
    product = P * matrix
    decay = -(product + product.transpose()) - one * (2 * nu * exact(reach))
    return is_positive_definite(P) and is_positive_definite(one - P) and is_positive_definite(decay)
