"""Proofs of blow-up, in ball arithmetic (Theory 5.3, 5.6, 9.3).

    y' >= 2 (k y^2 + a y - g),   k > 0,   y = tr(P Sigma) or lambda_max(B^(1/2) Sigma B^(1/2))

For y = tr(P Sigma), in entries x of Sigma with y = <v, x>, tr(P A Sigma) = <w, x> and
q_P(S) >= Phi(x) on S >= 0, that follows from::

    [ Phi - k v v^T     (w - a v) / 2 ]
    [ (w - a v)^T / 2   g             ]  >= 0

On a left-invariant subspace, U^T V = Lam U^T and P = U Q U^T, the entries are those of X = U^T S
and Phi(X) = tr(Q Lam X B X^T). P is singular there, so that U must be exact: see `plane`. Every
function here returns True only if its claim is proved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.balance import balanced
from gausscontrol.certificates.rigorous.common_key import common_key_of
from gausscontrol.certificates.rigorous.cone import cone_remainder, trace_vector
from gausscontrol.certificates.rigorous.exact_model import ExactModel, lyapunov_form, working
from gausscontrol.certificates.rigorous.plane import enclosed_plane
from gausscontrol.certificates.rigorous.riccati import prove_riccati_escape, prove_uniform_escape
from gausscontrol.certificates.spectral import original_key, spectra
from gausscontrol.linalg.balls import (
    alternates,
    block_matrix,
    column,
    exact,
    exact_matrix,
    frobenius,
    is_positive_definite,
    is_zero,
    kronecker,
    rational_matrix,
    symmetric_part,
)
from gausscontrol.linalg.symmetric import symmetrise

if TYPE_CHECKING:
    from gausscontrol.certificates.blow_up import BlowUp
    from gausscontrol.linalg.balls import BallMatrix

__all__ = ["prove_blow_up"]

# Share by which a threshold may be rounded; it is proved for the stored one times 1 + ROUNDED.
ROUNDED = 1e-12


def prove_blow_up(certificate: BlowUp) -> bool:
    """Prove that covariances beyond a threshold escape at a finite depth.

    Parameters
    ----------
    certificate : BlowUp

    Returns
    -------
    bool
        The comparison y' >= 2 (gain y^2 + rate y - loss) is proved with the stored numbers, and
        y escapes from every value above the threshold, which is taken to twelve digits. For
        "subspace" y belongs to an exact subspace as near the stored basis as the certificate says.
        Where `depth` is not zero there is no comparison: P <= W(depth) is proved.

    Notes
    -----
    Theory 3.2, 5.3, 5.6.
    """
    model = certificate.model
    if certificate.depth:
        return certificate.threshold >= 1 and prove_riccati_escape(
            model, certificate.P, certificate.depth
        )
    if model.dt or not (certificate.gain > 0 and certificate.loss >= 0):
        return False
    methods = {"spectral": _spectral, "subspace": _subspace, "sdp": _programme, "riccati": _uniform}
    prove = methods[certificate.method]
    with working(model.dim):
        return prove(certificate, ExactModel.of(model)) and _escapes(certificate)


def _escapes(certificate: BlowUp) -> bool:
    """Prove that gain y^2 + rate y - loss is not negative from the threshold on, and increases."""
    y = exact(certificate.threshold) * exact(1 + ROUNDED)
    if certificate.method in ("subspace", "sdp"):
        y = y * exact_matrix(certificate.P).trace().sqrt()
    slope = exact(certificate.gain) * y + exact(certificate.rate)
    return bool(
        y >= 0 and slope * y >= exact(certificate.loss) and slope + slope >= certificate.rate
    )


def _spectral(certificate: BlowUp, model: ExactModel) -> bool:
    """B A + A^T B >= 2 a B and B V + V^T B >= 2 (k + e) B, with no loss."""
    found = balanced(certificate.model)
    numbers = spectra(found)
    if numbers is None:
        return False
    key = original_key(found, numbers)
    head = common_key_of(model, key)
    if head is None:
        return False
    growth = head.B * (2 * (exact(certificate.gain) + head.rest))
    quadratic = lyapunov_form(head.B, head.V) - growth
    return is_positive_definite(quadratic) and _grows(certificate, model, key)


def _uniform(certificate: BlowUp, _: ExactModel) -> bool:
    """A = a I and every V_h = v_h I: y' >= 2 (a y + y^2 / 2)."""
    if certificate.gain > 0.5 or certificate.loss != 0:
        return False
    return prove_uniform_escape(certificate.model, certificate.P, certificate.rate)


def _programme(certificate: BlowUp, model: ExactModel) -> bool:
    """A positive definite P and a multiplier on the cone."""
    P = exact_matrix(symmetrise(certificate.P))
    form = cone_remainder(model, P, certificate.multiplier, certificate.gain, 1.0)
    if form is None or not is_positive_definite(P):
        return False
    v, w = trace_vector(P), trace_vector(symmetric_part(P * model.A))
    if _bordered(form, w - v * exact(certificate.rate), certificate.loss):
        return True
    # tr(P A S) >= a tr(P S) on S >= 0 costs nothing.
    return is_positive_definite(form) and _grows(certificate, model, symmetrise(certificate.P))


def _subspace(certificate: BlowUp, model: ExactModel) -> bool:
    """P = U Q U^T on an exact left-invariant subspace of the one effective head."""
    head = _single_head(certificate, model)
    if head is None:
        return False
    B, V = head
    plane = enclosed_plane(V, certificate.basis, balanced(certificate.model).scale)
    Q = exact_matrix(symmetrise(certificate.weight))
    if plane is None or not is_positive_definite(Q):
        return False
    allowed = exact(certificate.uncertainty)
    if not plane.shift * plane.shift * frobenius(Q) <= allowed * allowed:
        return False
    v = Q * plane.U.transpose()
    w = v * model.A
    form = symmetric_part(kronecker(Q * plane.Lam, B.transpose()))
    flat_v, slope = column(v), column(w - v * exact(certificate.rate))
    form = form - flat_v * flat_v.transpose() * exact(certificate.gain)
    return _bordered(form, slope, certificate.loss)


def _single_head(certificate: BlowUp, model: ExactModel) -> tuple[BallMatrix, BallMatrix] | None:
    """Return B and V with T(S) = V S B exactly, or None."""
    if len(model.V) == 1:
        return model.B[0], model.V[0]
    found = balanced(certificate.model)
    numbers = spectra(found)
    head = None if numbers is None else common_key_of(model, original_key(found, numbers))
    return (head.B, head.V) if head is not None and head.is_exact else None


def _grows(certificate: BlowUp, model: ExactModel, weight: np.ndarray) -> bool:
    """Prove P A + A^T P >= 2 a P for a weight P, in rationals where there is no slack."""
    P = exact_matrix(weight)
    if is_positive_definite(lyapunov_form(P, model.A) - P * exact(2 * certificate.rate)):
        return True
    P, A = rational_matrix(weight), rational_matrix(certificate.model.A)
    rate = rational_matrix(np.array([[2 * certificate.rate]]))[0, 0]
    return alternates(lyapunov_form(P, A) - P * rate)


def _bordered(form: BallMatrix, slope: BallMatrix, loss: float) -> bool:
    """Prove form + <slope, x> + loss >= 0 for all x."""
    if is_zero(slope):
        return loss >= 0 and is_positive_definite(form)
    side, corner = slope * exact(0.5), exact_matrix(np.array([[loss]]))
    return is_positive_definite(block_matrix([[form, side], [side.transpose(), corner]]))
