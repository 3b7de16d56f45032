"""What decides global stability: the attention form, or the Riccati criterion (Theory 4.1, 4.7).

    form      q(E) = <E, T(E)> < 0 for all symmetric E != 0, whitened at Sigma*
    Riccati   V_h = v_h I:   G <= 0,  -A Hurwitz,  Sigma* > 0            (if and only if)

Both are evaluated at the computed equilibrium with rounding and the distance to the exact one
subtracted; a positive margin is a proof in floating point with explicit error bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gausscontrol.analysis.enclosure import WhitenedPoint, form_evidence
from gausscontrol.analysis.spectra import covariance_abscissa
from gausscontrol.certificates.base import check_enclosed, hurwitz_margin
from gausscontrol.errors import GausscontrolError, NotCertified
from gausscontrol.linalg.exact import exactly_nonpositive, nearest
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.structure import exact_riccati_gain
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "Evidence",
    "LOCAL_ADVICE",
    "form_shortfall",
    "form_stability",
    "is_riccati",
    "mean_margin",
    "riccati_shortfall",
    "riccati_stability",
    "supports",
]


@dataclass(frozen=True)
class Evidence:
    """What a check found; it holds if the margin is positive.

    `radius` bounds the whitened distance from the computed equilibrium to an exact one, `rate` is
    the certified decay rate near it, and `witness` holds the matrices that a re-check needs.
    """

    margin: float
    radius: float
    mean_stable: bool
    data: dict[str, Any]
    rate: float = 0.0
    witness: Any = None


# A repeated check may find the radius larger by this factor, from rounding of stored matrices.
RADIUS_SLACK = 1.01


def supports(evidence: Evidence, certificate: Any) -> bool:
    """Tell whether a fresh check bears out what a certificate says, its scope included."""
    return bool(
        evidence.margin > 0
        and evidence.radius <= RADIUS_SLACK * certificate.radius
        and evidence.mean_stable >= certificate.mean_stable
    )


def form_stability(model: GaussianTransformer, Sigma: np.ndarray) -> Evidence:
    """Evaluate the attention form at an equilibrium (Theory 4.1 to 4.3)."""
    point = WhitenedPoint(model, Sigma)
    try:
        form = form_evidence(point)
    except GausscontrolError as error:
        raise NotCertified(
            f"equilibrium: its attention form is not known ({error}); see certify_local_stability"
        ) from error
    if form.margin == -np.inf or np.isfinite(form.radius):
        check_enclosed(point, form.radius)
    data = {
        "alpha": form.alpha,
        "rounding": form.rounding,
        "existence_radius": form.radius,
        "sign_condition": _sign_condition(point.white),
    }
    mean_stable = form.margin > 0 and mean_margin(point, form.radius) > 0
    # In coordinates whitened at the exact equilibrium |E| shrinks by at most 1 - radius.
    rate = 2 * form.margin * (1 - form.radius) ** 2 if form.margin > 0 else 0.0
    return Evidence(form.margin, form.radius + point.offset, mean_stable, data, rate)


def _sign_condition(white: GaussianTransformer) -> float | None:
    """Return the margin of Theory 4.3 for one head; positive implies that the form is negative."""
    if white.n_heads != 1:
        return None
    V, B = white.V[0], white.B[0]
    skew = np.linalg.norm((V - V.T) / 2, 2) * np.linalg.norm((B - B.T) / 2, 2)
    best = -np.inf
    for sign in (1.0, -1.0):
        v = np.linalg.eigvalsh(symmetrise(-sign * V))[0]
        b = np.linalg.eigvalsh(symmetrise(sign * B))[0]
        if v > 0 and b > 0:
            best = max(best, v * b - skew)
    return float(best) if np.isfinite(best) else float(-skew)


# What to try next where nothing is known of the equilibrium.
LOCAL_ADVICE = "local stability may still hold, see certify_local_stability"


def form_shortfall(model: GaussianTransformer, evidence: Evidence) -> str:
    """Say how far the attention form is from negative definite."""
    trace = float(np.trace(model.A))
    reason = (
        f"tr A = {trace:.4g} <= 0 rules this method out (Theory 4.4)"
        if trace <= 0
        else "the form is not negative definite"
    )
    return (
        f"equilibrium: not certified as globally stable: {reason}, its largest eigenvalue is "
        f"{-evidence.data['alpha']:.4g} per unit depth; {LOCAL_ADVICE}"
    )


def riccati_stability(model: GaussianTransformer, Sigma: np.ndarray) -> Evidence:
    """Evaluate the Riccati criterion at an equilibrium (Theory 4.7).

    In the Riccati case X = Sigma^-1 obeys X(t) = X* + e^{-A^T t} (X_0 - X*) e^{-A t}, which stays
    positive for every X_0 > 0 and tends to X* if and only if G <= 0, -A is Hurwitz and X* > 0.
    """
    point = WhitenedPoint(model, Sigma)
    largest, slack = _largest_gain(model)
    antistable = hurwitz_margin(-point.white.A, point.drift_error)
    data = {"largest_gain": largest, "rounding": slack, "antistability": antistable}
    if largest > slack or not antistable > 0:
        return Evidence(min(slack - largest, antistable, 0.0), np.inf, False, data)
    radius = point.radius
    check_enclosed(point, radius)
    data["existence_radius"] = radius
    data["reading"] = ", where G <= 0 is read up to rounding" if largest > 0 else ""
    return Evidence(
        antistable,
        radius + point.offset,
        mean_margin(point, radius) > 0,
        data,
        -covariance_abscissa(point.white),
    )


def _largest_gain(model: GaussianTransformer) -> tuple[float, float]:
    """Return the largest eigenvalue of G and the size that the last digit of G has in it.

    G is semidefinite at best in the cases this serves, and heads may cancel, so that it is summed
    without rounding, and a largest eigenvalue that floats cannot tell from zero is decided with
    integers: it comes back as zero if G <= 0.
    """
    gain = exact_riccati_gain(model)
    if gain is None:
        raise NotCertified("model: the values V_h are not multiples of the identity; use 'form'")
    G = nearest(gain[0] + gain[0].T, gain[1])
    if not np.isfinite(G).all():
        raise NotCertified(
            "model: G = sum_h v_h (B_h + B_h^T) overflows; change the units of the coordinates"
        )
    values = np.linalg.eigvalsh(G)
    largest = float(values[-1])
    last = model.dim * np.finfo(float).eps * float(np.abs(values).max())
    if abs(largest) <= 8 * last:
        if exactly_nonpositive(gain[0]):
            return min(largest, 0.0), last
        largest = max(largest, float(np.finfo(float).smallest_normal))
    return largest, last


def riccati_shortfall(evidence: Evidence) -> str:
    """Say which part of the Riccati criterion fails."""
    data = evidence.data
    if data["largest_gain"] > data["rounding"]:
        reason = (
            f"G has the positive eigenvalue {data['largest_gain']:.4g}, "
            "so that large covariances blow up"
        )
    else:
        reason = "-A is not verified to be Hurwitz, so that Sigma* does not attract"
    return (
        f"equilibrium: not globally attracting by the Riccati criterion, which is if and only if: "
        f"{reason} (Theory 4.7)"
    )


def is_riccati(model: GaussianTransformer) -> bool:
    """Tell whether every value matrix is a multiple of the identity, to the last digit.

    The criterion speaks of all covariances, however large, where no deviation is small enough.
    """
    V = model.V
    if not np.array_equal(V, V[:, :1, :1] * np.eye(model.dim)):
        return False
    return exact_riccati_gain(model) is not None


def mean_margin(point: WhitenedPoint, radius: float) -> float:
    """Verify that M + Vbar is Hurwitz at the exact equilibrium; positive if so."""
    error = point.drift_error + point.total_error
    return hurwitz_margin(
        point.drift + point.white.heads.total,
        (point.bound + point.attention_error) * radius + error,
    )
