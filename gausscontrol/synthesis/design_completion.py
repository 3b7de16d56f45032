"""From what a solver proposes to a certified model (Theory 3.6, 7d, 9.1).

    b = -(M(Sigma*) + Vbar) mu* - sum_h V_h Sigma* k_h       the mean is put at its target
    V = -g I, B = 0                                          heads that move the mean only

Matrices that were given go into the model untouched. Certificates are those of the original
model, with bounds on rounding that grow with its norms.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from gausscontrol.analysis.equilibrium import describe, place_mean
from gausscontrol.analysis.newton import Root, scaled_residual
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.discrete import certify_semiglobal_stability
from gausscontrol.certificates.local import certify_local_stability
from gausscontrol.certificates.stability import certify_global_stability
from gausscontrol.errors import InfeasibleDesign, NotCertified
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.synthesis.design_point import Candidate
from gausscontrol.synthesis.design_request import Request
from gausscontrol.synthesis.design_result import (
    RATE_TOLERANCE,
    RESIDUAL,
    Design,
    contraction,
    mean_rate,
)

__all__ = ["complete"]

# V counts as contracting the mean by itself if it does at this share of its size.
MEAN_SHARE = 1e-6
# The set of a semiglobal certificate is the one that holds this multiple of Sigma*.
START_FACTOR = 4.0


def complete(request: Request, found: Candidate) -> Design:
    """Certify a candidate in original coordinates; nothing of it is taken on trust.

    Parameters
    ----------
    request : Request
    found : Candidate

    Returns
    -------
    Design

    Raises
    ------
    InfeasibleDesign
        If the candidate does not pass.
    """
    model, mean_heads = _assemble(request, found)
    Sigma = request.covariance
    model = place_mean(model, Sigma, request.mean)
    residual = scaled_residual(model.whiten(Sigma))[1]
    if not residual <= RESIDUAL:
        raise InfeasibleDesign(
            f"equilibrium: the point found misses the equation by {residual:.2g} relative, more "
            f"than {RESIDUAL:g}; the equality and the other constraints leave no point "
            f"({found.status})"
        )
    try:
        certificate, rate, step = _certify(model, Sigma)
    except NotCertified as error:
        raise InfeasibleDesign(
            f"the solver says {found.status!r} with alpha = {found.alpha:.4g}, but its point, of "
            f"norms {_norms(model)}, is not certified: {error}; ask for a lower decay_rate, "
            "another norm_bound or another solver"
        ) from error
    if not certificate.mean_stable:
        raise InfeasibleDesign(
            "mean_decay_rate: M(Sigma*) + Vbar is not verified to be stable beside norms "
            f"{_norms(model)}; give a mean_decay_rate"
        )
    best = float(np.trace(model.A)) / model.dim
    return Design(
        model=model,
        equilibrium=describe(model, Root(Sigma, residual), "design"),
        certificate=certificate,
        decay_rate=rate,
        mean_decay_rate=mean_rate(model, Sigma),
        status=found.status,
        problem=found.problem,
        free=request.free,
        optimal_rate=request.alpha_to_rate(best),
        mean_heads=mean_heads,
        bounds=request.bounds,
        largest_step=step,
    )


def _assemble(request: Request, found: Candidate) -> tuple[GaussianTransformer, int]:
    """Carry the matrices to original coordinates, and add heads for the mean if need be."""
    white = {"A": found.A, "V": found.V, "B": found.B}
    own = {
        name: request.fixed[name] if name in request.fixed else request.restore(name, M)
        for name, M in white.items()
    }
    heads = _mean_heads(request, found)
    V = np.concatenate([own["V"], heads])
    B = np.concatenate([own["B"], np.zeros_like(heads)])
    initial = request.initial
    k = name = None
    if initial is not None:
        name = initial.name
        if initial.n_heads == len(own["V"]):
            k = np.zeros(V.shape[:2])
            k[: initial.n_heads] = initial.k
    return GaussianTransformer(own["A"], B, V, k=k, dt=request.dt, name=name), len(heads)


def _mean_heads(request: Request, found: Candidate) -> np.ndarray:
    """Return V = -g I (m, d, d), which make the mean stable, as many as the bound on V needs."""
    total, identity = found.V.sum(axis=0), np.eye(request.dim)
    size = float(np.linalg.norm(total, 2))
    reached, wanted = contraction(total, request.dt), request.gamma
    least = MEAN_SHARE * size if wanted is None else (1 - RATE_TOLERANCE) * wanted
    if size and reached > 0 and reached >= least:
        return np.zeros((0, *identity.shape))
    strength = _strength(total, request.dt, wanted, found.alpha)
    if not contraction(total - strength * identity, request.dt) >= max(least, 0):
        raise InfeasibleDesign(
            f"mean_decay_rate: layers of depth {request.dt:g} cannot make the mean contract at "
            f"{request.mean_decay_rate or 0:g} per unit depth beside V of norm {size:.4g}; ask for "
            "less, or use smaller layers or a norm bound on V"
        )
    count = int(np.ceil(strength / request.bounds.get("V", np.inf))) or 1
    if count > request.dim**2:
        raise InfeasibleDesign(
            f"norm bound: the mean needs heads V = -g I with g = {strength:.4g} in all, more than "
            f"{request.dim**2} of the norm {request.bounds['V']:g} allowed; raise norm_bound"
        )
    # -g I is the same matrix in all coordinates.
    return np.repeat(-strength / count * identity[None], count, axis=0)


def _strength(total: np.ndarray, dt: float, wanted: float | None, alpha: float) -> float:
    """Return the smallest g that gives the mean the rate wanted, by default alpha if it can."""
    if not dt:
        return (alpha if wanted is None else wanted * (1 + RATE_TOLERANCE)) - contraction(total, 0)

    def reached(g: float) -> float:
        return contraction(total - g * np.eye(len(total)), dt)

    # |I + dt (Vbar - g I)| is convex in g.
    most = 2 * float(np.linalg.norm(total, 2)) + 2 / dt
    search = minimize_scalar(
        lambda g: -reached(g), bounds=(0.0, most), method="bounded", options={"xatol": 1e-9 * most}
    )
    best = float(search.x)
    target = min(alpha, reached(best) / 2) if wanted is None else wanted
    if not reached(0.0) < target < reached(best):
        return best
    return float(brentq(lambda g: reached(g) - target, 0.0, best))


def _certify(
    model: GaussianTransformer, Sigma: np.ndarray
) -> tuple[Certificate, float, float | None]:
    """Return the certificate, the certified decay rate and the largest dt of the parameters."""
    if not model.dt:
        certificate = certify_global_stability(model, Sigma, method="form")
        return certificate, certificate.rate, None
    local = certify_local_stability(model, Sigma)
    rate = -float(np.log(1 - local.margin)) / model.dt
    values = np.linalg.eigvals(dense_operator(model.replace(dt=0).whiten(Sigma)))
    step = float((-2 * values.real / np.abs(values) ** 2).min())
    try:
        return certify_semiglobal_stability(model, Sigma, START_FACTOR * Sigma), rate, step
    except NotCertified:
        return local, rate, step


def _norms(model: GaussianTransformer) -> str:
    return ", ".join(
        f"|{name}| = {np.linalg.norm(getattr(model, name), 2, axis=(-2, -1)).max():.3g}"
        for name in ("A", "V", "B")
    )
