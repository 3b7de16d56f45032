"""Local stability without a matrix of the linearisation (Theory 4.5).

    dissipation   P: E -> X E X,  X > 0:          <P E, L(E)> < 0, that is sym L < 0 in the
                                                  coordinates X^(1/2) x
    propagator    P = int_0^t Phi^T Phi ds:       L^T P + P L = Phi(t)^T Phi(t) - I < 0,
                                                  that is |Phi(t)| < 1,  Phi(t) = e^(tL)

P is given by X or by t alone, so that d^2 numbers are stored where a matrix has d^4 / 4. With
X the inverse of Sigma* the first is the attention form. Both are evaluated at the computed
equilibrium in whitened coordinates; what rounding and the distance to the exact equilibrium change
is bounded and subtracted: as L moves by D, P is still a Lyapunov function if

    |Phi(t)|^2 + 2 |P| |D| < 1

Eigenvalues and norms come from Lanczos, which no rounding bound covers: pairs are checked by their
residuals, two starts must agree, and a share of what is found is given away.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import eigsh

from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.analysis.form import form_is_degenerate, form_tolerance
from gausscontrol.analysis.krylov import extreme_eigenvalues, on_svec
from gausscontrol.analysis.propagator import (
    Linearisation,
    gramian_norm,
    growth_rate,
    propagator_norm,
)
from gausscontrol.analysis.spectra import PAIR_TOLERANCE, covariance_abscissa
from gausscontrol.certificates.base import check_enclosed
from gausscontrol.certificates.evidence import Evidence, mean_margin
from gausscontrol.errors import GausscontrolError, NotCertified
from gausscontrol.linalg.symmetric import is_positive_definite, symmetrise, whitening
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["dissipation", "horizon_for", "metrics", "propagation"]

# |Phi(t)| that the search for t is content with, and what is given away of 1 beside it.
CONTRACTED = 0.8
SLACK = 0.05
# Factor by which |P| is taken larger than it is found.
ROUGH = 2.0
# The first t, in units of 1/|abscissa|: a normal L contracts to 0.3. It is then lengthened.
FIRST, LONGER, LENGTHENINGS = 1.2, 1.6, 7
# Taylor steps of one propagation beyond which the search ends.
LONGEST = 200


def metrics(model: GaussianTransformer, Sigma: np.ndarray) -> list[np.ndarray]:
    """Return the X that are tried: the inverse of Sigma, and the key that acts on Sigma.

    Parameters
    ----------
    model : GaussianTransformer
    Sigma : (d, d) ndarray
        Positive definite. [x]^2

    Returns
    -------
    list of (d, d) ndarray
        Symmetric positive definite. [1/x^2]
    """
    R, _ = whitening(Sigma)
    # With the inverse it is the attention form, which narrow heads leave a kernel.
    found = [] if form_is_degenerate(model.heads) else [symmetrise(R @ R)]
    # The scalar part of every head; head gauge leaves it.
    scalars = np.trace(model.V, axis1=1, axis2=2)
    key = -symmetrise(np.tensordot(scalars, model.B, axes=1))
    if is_positive_definite(key) and np.linalg.cond(key) < 1 / PAIR_TOLERANCE:
        found.append(key)
    return found


def dissipation(model: GaussianTransformer, Sigma: np.ndarray, X: np.ndarray) -> Evidence:
    """Check that P: E -> X E X is a Lyapunov function at an equilibrium.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Computed equilibrium. [x]^2
    X : (d, d) ndarray
        Symmetric positive definite. [1/x^2]

    Returns
    -------
    Evidence
        The margin is that of -sym L in the coordinates X^(1/2) x, per unit depth. [1/t]
    """
    point = WhitenedPoint(model, Sigma)
    Y = symmetrise(point.root @ X @ point.root)
    values = np.linalg.eigvalsh(Y)
    condition = float(values[-1] / values[0]) if values[0] > 0 else np.inf
    if not condition * PAIR_TOLERANCE < 1:
        raise NotCertified(
            "equilibrium: the metric X of the Lyapunov function is not definite beyond rounding; "
            "use better scaled coordinates, model.transform(R)"
        )
    _, root = whitening(Y)
    inverse = np.linalg.inv(root)
    linear = Linearisation(point.white.in_coordinates(root, inverse), symmetrise(root @ root))
    try:
        highest = _symmetric_maximum(linear)
    except GausscontrolError as error:
        raise _unknown("dissipation", error) from error
    # Coordinates multiply a perturbation of L by at most their condition number.
    size = 2 * (float(np.linalg.norm(point.drift, 2)) + point.bound)
    rounding = condition * 2 * (point.drift_error + point.attention_error)
    rounding += (form_tolerance(linear.dim) + 8 * condition * point.unit) * condition * size
    strength = -highest - rounding
    data = {"dissipation": -highest, "rounding": rounding, "condition": condition}
    if not strength > 0:
        return Evidence(float(strength), np.inf, False, data)
    radius = point.radius_from(condition / strength)
    check_enclosed(point, radius)
    margin = strength - 4 * condition * (point.bound + point.attention_error) * radius
    data["existence_radius"] = radius
    mean_stable = margin > 0 and mean_margin(point, radius) > 0
    return Evidence(float(margin), radius + point.offset, mean_stable, data)


def propagation(model: GaussianTransformer, Sigma: np.ndarray, horizon: float) -> Evidence:
    """Check that the propagator contracts over a depth t at an equilibrium.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Computed equilibrium. [x]^2
    horizon : float
        t > 0. [t]

    Returns
    -------
    Evidence
        The margin is 1 - |Phi(t)|^2 after rounding, Lanczos and the distance to the exact
        equilibrium were allowed for.
    """
    point = WhitenedPoint(model, Sigma)
    linear = Linearisation(point.white)
    data = {"norm": np.inf, "horizon": horizon}
    try:
        data["norm"] = propagator_norm(linear, horizon)
        strength = 1 - (data["norm"] + SLACK) ** 2
        if not strength > 0:
            return Evidence(strength, np.inf, False, data)
        data["gramian"] = gramian_norm(linear, horizon)
    except GausscontrolError as error:
        raise _unknown("propagator", error) from error
    size = 2 * ROUGH * data["gramian"]
    # Each product with the computed L errs by a few units of |L|.
    rounding = 2 * (point.drift_error + point.attention_error) + point.unit * linear.bound
    strength -= size * rounding
    if not strength > 0:
        return Evidence(float(strength), np.inf, False, data)
    radius = point.radius_from(size / strength)
    check_enclosed(point, radius)
    margin = strength - size * 4 * (point.bound + point.attention_error) * radius
    data["existence_radius"] = radius
    mean_stable = margin > 0 and mean_margin(point, radius) > 0
    return Evidence(float(margin), radius + point.offset, mean_stable, data)


def horizon_for(model: GaussianTransformer, Sigma: np.ndarray) -> float:
    """Return a depth t over which the propagator is seen to contract.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Computed equilibrium. [x]^2

    Returns
    -------
    float
        [t]

    Raises
    ------
    NotCertified
        If the abscissa is not negative, or t would be longer than is worth computing.
    """
    white = model.whiten(Sigma)
    linear = Linearisation(white)
    try:
        # An estimate serves to choose t, unless it is that nothing decays.
        abscissa = growth_rate(linear)
        if not abscissa < -PAIR_TOLERANCE * linear.size:
            abscissa = covariance_abscissa(white)
        if not abscissa < -PAIR_TOLERANCE * linear.size:
            raise NotCertified(
                f"equilibrium: the linearisation is not stable, its abscissa is {abscissa:.4g} per "
                "unit depth; look at the poles with analyze(model, equilibrium)",
                margin=-abscissa,
            )
        depth, size = FIRST / -abscissa, np.inf
        for _ in range(LENGTHENINGS):
            if linear.steps(depth) > LONGEST:
                break
            size = propagator_norm(linear, depth)
            if size <= CONTRACTED:
                return depth
            depth *= LONGER
    except NotCertified:
        raise
    except GausscontrolError as error:
        raise _unknown("propagator", error) from error
    raise NotCertified(
        f"equilibrium: the propagator of the linearisation, abscissa {abscissa:.4g}, is not seen "
        f"to contract to {CONTRACTED:g} within {LONGEST} steps of 6/|L|, |L| = {linear.size:.3g}; "
        f"the last norm was {size:.3g}",
        margin=abscissa,
    )


def _unknown(what: str, error: GausscontrolError) -> NotCertified:
    return NotCertified(
        f"equilibrium: its {what} is not known ({error}); look at the poles with "
        "analyze(model, equilibrium)"
    )


def _symmetric_maximum(linear: Linearisation) -> float:
    """Return the largest eigenvalue of sym L."""

    def apply(E: np.ndarray) -> np.ndarray:
        return (linear.apply(E) + linear.adjoint(E)) / 2

    operator, tolerance = on_svec(apply, linear.dim), form_tolerance(linear.dim)
    return float(extreme_eigenvalues(eigsh, operator, "LA", tolerance=tolerance).max())
