"""Proofs of boundedness and collapse, in ball arithmetic (Theory 3.7, 5.1, 5.2, 5.6, 9.3).

    y = tr(P Sigma):   P A + A^T P <= 2 a P,   -q_P(S) - <G, S (x) S> - k tr(P S)^2 >= 0,   G >= 0
    y = lambda_max(B^(1/2) Sigma B^(1/2)):   B A + A^T B <= 2 a B,   B V + V^T B <= -2 (k + e) B
    =>  y' <= 2 (a y - k y^2)
    y = lambda_max(P Sigma):   G <= 0,   P A + A^T P + G <= 2 a P   =>  y' <= 2 a y while y >= 1

with q_P(S) = sum_h tr(P V_h S B_h S) and, in the second line, the one effective head of
`common_key`. No equilibrium is involved: all is a statement about the floats of the model and of
the witness, with k, a and the bound as stored. Inequalities without any slack (k = 0, a = 0) are
decided in rational arithmetic. Every function here returns True only if its claim is proved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gausscontrol.certificates.balance import balanced
from gausscontrol.certificates.comparison import EPS
from gausscontrol.certificates.rigorous.common_key import common_key_of, is_exactly_dissipative
from gausscontrol.certificates.rigorous.cone import cone_remainder
from gausscontrol.certificates.rigorous.exact_model import (
    ExactModel,
    exact_gain,
    gain_of,
    lyapunov_form,
    working,
)
from gausscontrol.certificates.spectral import original_key, spectra
from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.balls import (
    alternates,
    exact,
    exact_matrix,
    floats,
    identity,
    inverse,
    is_hurwitz,
    is_positive_definite,
    is_zero,
    rational_matrix,
)
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.certificates.regime import Boundedness, Collapse

__all__ = ["prove_boundedness", "prove_collapse"]

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
        if certificate.method == "riccati":
            return _filter_bounds(certificate, exact_model)
        shown = _comparison(certificate, exact_model, rate, gain)
        if shown is None:
            return False
        if keeps:
            return not certificate.mean_stable and _stays(shown, certificate.bound)
        return _bounds(certificate, exact_model, shown, rate, gain)


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
    # y is lambda_max(weight Sigma) if spectral, tr(weight Sigma) if not.
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
    P = exact_matrix(weight)
    if is_positive_definite(P * exact(2 * rate) - lyapunov_form(P, exact_model.A)):
        return True
    if rate != 0:
        return False
    return alternates(-lyapunov_form(rational_matrix(weight), rational_matrix(model.A)))


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
    return gain == 0 and (_vanishes(exact_model) or _gain_is_nonpositive(model))


def _spectral_decay(
    exact_model: ExactModel, model: GaussianTransformer, key: np.ndarray, gain: float
) -> bool:
    head = common_key_of(exact_model, key)
    if head is None:
        return False
    decay = head.B * (2 * (exact(gain) + head.rest))
    if is_positive_definite(-lyapunov_form(head.B, head.V) - decay):
        return True
    if gain != 0 or not head.is_exact:
        return False
    return is_exactly_dissipative(model, key)


def _vanishes(model: ExactModel) -> bool:
    return all(is_zero(V) or is_zero(B) for V, B in zip(model.V, model.B, strict=True))


def _gain_is_nonpositive(model: GaussianTransformer) -> bool:
    gain = exact_gain(model)
    return gain is not None and alternates(-gain)


# -- bounds ---------------------------------------------------------------------------------------


def _bounds(
    certificate: Boundedness, exact_model: ExactModel, shown: _Shown, rate: float, gain: float
) -> bool:
    """Prove the bound, and that the mean is stable under it, where limsup y <= rate / gain."""
    # tr Sigma <= bound follows from D = I, and the balanced trace from its own D.
    ones = np.ones(exact_model.dim)
    if not _limits(shown, ones, rate, gain, certificate.bound):
        return False
    if not certificate.mean_stable:
        return True
    scale = balanced(certificate.model).scale
    reach = 0.0 if rate <= 0 else _reach(shown, scale) * rate / gain * (1 + ROOM)
    return _limits(shown, scale, rate, gain, reach) and _mean_stays(exact_model, scale, reach)


def _filter_bounds(certificate: Boundedness, exact_model: ExactModel) -> bool:
    """Prove P > 0, G <= 0 and P A + A^T P + G <= 2 a P, a < 0, after which y <= 1."""
    if not (certificate.rate < 0 == certificate.gain and _gain_is_nonpositive(certificate.model)):
        return False
    shown = _Shown(symmetrise(certificate.P), True)
    P = exact_matrix(shown.weight)
    linear = lyapunov_form(P, exact_model.A) + gain_of(exact_model)
    return (
        is_positive_definite(P)
        and is_positive_definite(P * exact(2 * certificate.rate) - linear)
        and _bounds(certificate, exact_model, shown, 1.0, 1.0)
    )


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
    middle = floats(matrix)
    try:
        P = symmetrise(solve_lyapunov(middle.T, np.eye(len(middle))))
    except MatrixEquationError:
        return False
    P = exact_matrix(P / (np.linalg.norm(P, 2) * (1 + ROOM)))
    one = identity(len(middle))
    decay = -lyapunov_form(P, matrix) - one * (2 * white.spectral_bound() * exact(reach))
    return is_positive_definite(P) and is_positive_definite(one - P) and is_positive_definite(decay)
