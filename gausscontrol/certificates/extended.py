"""Global stability where the attention form is not definite: the extended certificate (4.8).

    V = eta W + p(E),   W = tr Sigma - log det Sigma - d,   Sigma = I + E,   eta > 0,   p SOS
    V' = 2 eta q(E) + Dp(E) . F = -[ alpha |E|^2 + sigma0(E) + tr(S(E) Sigma) ],   alpha > 0

in whitened coordinates, with sigma0 an SOS polynomial and S an SOS matrix. Then V is proper and
V' <= -alpha |E|^2 on the whole cone, so that every Sigma_0 > 0 tends to Sigma*. Degree 2 is one
small semidefinite programme, and each degree 2k certifies what the one before does and more.
What the solver returns is corrected until the identity holds to rounding on every monomial; the
check then needs no solver, and covers the exact model at the exact equilibrium.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint, inverse_norm
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.base import check_enclosed
from gausscontrol.certificates.evidence import Evidence, mean_margin
from gausscontrol.certificates.extended_identity import (
    ExtendedWitness,
    WhitenedField,
    identity_defect,
)
from gausscontrol.certificates.extended_search import find_witness
from gausscontrol.errors import ParameterError, SolverError
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["ExtendedWitness", "check_extended", "extended_shortfall", "extended_stability"]

# Degrees that take seconds, by dimension.
DEGREES = {1: (2,), 2: (2, 4, 6), 3: (2,), 4: (2,)}


def extended_stability(
    model: GaussianTransformer, Sigma: np.ndarray, degree: int | None = 2
) -> Evidence:
    """Find an extended certificate at an equilibrium, and check it.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Positive definite. [x]^2
    degree : int or None, optional
        2k, the degree of V; None: 2, then higher ones, as far as they take seconds: up to 6 at
        d = 2, 2 at d = 3 and 4, and none beyond.

    Returns
    -------
    Evidence
        It holds if the margin is positive; `witness` is an `ExtendedWitness`.

    Raises
    ------
    ParameterError
        If the degree is not even and positive.
    NotCertified
        If no exact equilibrium is proven nearby.
    """
    degrees = _degrees(model.dim, degree)
    point = WhitenedPoint(model, Sigma)
    radius = _enclosed(point)
    reason, margin = _hopeless(model, point, degrees)
    if reason:
        return Evidence(margin, radius + point.offset, False, {"reason": reason})
    field = WhitenedField.of(point)
    tried = []
    for each in degrees:
        try:
            witness, level = find_witness(field, model.dim, each)
        except SolverError as error:
            data = {"degree": each, "reason": str(error)}
            tried.append(Evidence(-np.inf, radius + point.offset, False, data))
            continue
        tried.append(_check(point, field, radius, witness, level))
        if tried[-1].margin > 0:
            break
    return max(tried, key=lambda evidence: evidence.margin)


def check_extended(
    model: GaussianTransformer, Sigma: np.ndarray, witness: ExtendedWitness
) -> Evidence:
    """Check an extended certificate from its witness; NumPy only."""
    point = WhitenedPoint(model, Sigma)
    radius = _enclosed(point)
    return _check(point, WhitenedField.of(point), radius, witness)


def extended_shortfall(evidence: Evidence) -> str:
    """Say why there is no extended certificate."""
    data = evidence.data
    if "reason" in data:
        reason = data["reason"]
    else:
        reason = (
            f"no V of degree {data['degree']} has multipliers with a margin, the best falls short "
            f"by {-evidence.margin:.3g} per unit depth"
        )
    return f"equilibrium: not certified as globally stable by an extended certificate: {reason}"


def _degrees(dim: int, degree: int | None) -> tuple[int, ...]:
    if degree is None:
        return DEGREES.get(dim, ())
    whole = isinstance(degree, (int, np.integer)) and not isinstance(degree, bool)
    if not whole or degree < 2 or degree % 2:
        raise ParameterError(
            f"degree: expected 2, 4, 6, ... or None, found {degree!r}; the Lyapunov function has "
            "even degree"
        )
    return (int(degree),)


def _enclosed(point: WhitenedPoint) -> float:
    radius = point.radius_from(inverse_norm(point, dense_operator(point.white)))
    check_enclosed(point, radius)
    return radius


def _hopeless(
    model: GaussianTransformer, point: WhitenedPoint, degrees: tuple[int, ...]
) -> tuple[str, float]:
    """Return why there is no use in trying, "" if there is, and by how much that fails."""
    trace = float(np.trace(model.A))
    if trace <= 0:
        # At Sigma = 0 the identity reads 2 eta tr A >= alpha d.
        return f"tr A = {trace:.4g} <= 0 rules this method out (Theory 4.4)", trace
    abscissa = float(np.linalg.eigvals(dense_operator(point.white)).real.max())
    if abscissa >= 0:
        return f"it is not locally stable, the abscissa is {abscissa:.4g} per depth", -abscissa
    if not degrees:
        return f"at d = {model.dim} it takes minutes and is tried for degree=2 only", -np.inf
    return "", 0.0


def _check(
    point: WhitenedPoint,
    field: WhitenedField,
    radius: float,
    witness: ExtendedWitness,
    level: float | None = None,
) -> Evidence:
    if not witness.fits(point.white.dim):
        data = {"degree": witness.degree, "reason": "the witness has wrong shapes or is not finite"}
        return Evidence(-np.inf, radius + point.offset, False, data, 0.0, witness)
    defect = identity_defect(point, field, radius, witness)
    room = {
        "sigma0": _lowest(witness.Q) - defect.low,
        "multiplier": _lowest(witness.G) - defect.top,
        "lyapunov": _lowest(witness.Phi),
    }
    data: dict[str, Any] = {
        "degree": witness.degree,
        "eta": witness.eta,
        "alpha": witness.alpha,
        "residual": defect.residual,
        "defect": defect.low,
        "existence_radius": radius,
        **room,
    }
    if level is not None:
        data["level"] = level
    margin = float(np.min([room["sigma0"], room["multiplier"]]))
    positive = float(np.min([witness.eta, witness.alpha, room["lyapunov"]]))
    if not positive > 0:
        margin = min(margin, positive)
    mean_stable, rate = False, 0.0
    if margin > 0:
        mean_stable = mean_margin(point, radius) > 0
        rate = witness.alpha / (float(np.linalg.eigvalsh(witness.hessian)[-1]) * (1 + 1e-12))
    return Evidence(margin, radius + point.offset, mean_stable, data, rate, witness)


def _lowest(X: np.ndarray) -> float:
    """Return a lower bound of the smallest eigenvalue."""
    values = np.linalg.eigvalsh(X)
    return float(values[0] - 8 * len(X) * EPS * np.abs(values).max())
