"""A semidefinite attention form with a kernel known from structure (Theory 4.7).

    q(E) = <E, T(E)> <= 0 with kernel N,   T(E) E + E T(E)^T = 0 on N,   L Hurwitz
    =>  Sigma(t) -> Sigma* from every Sigma_0 > 0

No computed eigenvalue shows that an exact one is zero, and a positive one, however small, lets
large covariances escape. So the kernel is not read off the eigenvalues of q but off the heads:
every symmetric E supported on U, the common kernel of all B_h and B_h^T, has T(E) = 0 and lies in
the kernel of q, whatever Sigma* is. With k = dim U, k(k+1)/2 eigenvalues of q are zero; if the
others are negative by more than rounding, q <= 0 is proven, and N consists of these E. k is

exact     from the rank of the B_h, found with integers;
rounded   where singular values of the B_h are zero to the last digit of their entries. A model
          whose B_h differ by that much has the property exactly, it is within the error bounds
          that are checked, and the statement says so.

As sym L = 2 q, L is Hurwitz if and only if (q, L) is observable: an open condition, checked by a
Lyapunov inequality with a margin.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint, inverse_norm
from gausscontrol.analysis.form import attention_form
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.analysis.spectra import covariance_abscissa, dense_operator
from gausscontrol.certificates.base import check_enclosed, hurwitz_margin
from gausscontrol.certificates.evidence import Evidence, is_riccati, mean_margin
from gausscontrol.errors import NotCertified
from gausscontrol.linalg.exact import exact_rank
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "common_kernel",
    "rounded_kernel",
    "semidefinite_shortfall",
    "semidefinite_stability",
]

READING = ", where the common kernel of the B_h is read up to rounding"
# Singular value of the normalised stack beyond which no exact kernel has to be looked for.
CLEARLY_FULL = 1e-6
# What rounding the B_h may change, relative to sum_h |V_h| |B_h| in whitened coordinates.
LAST_DIGITS = 1e-12


def semidefinite_stability(model: GaussianTransformer, Sigma: np.ndarray) -> Evidence:
    """Evaluate the semidefinite criterion at an equilibrium (Theory 4.7).

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth, d <= 32.
    Sigma : (d, d) ndarray
        Positive definite, the computed equilibrium. [x]^2

    Returns
    -------
    Evidence
        It holds if the margin is positive; calling this again is the re-check. `data` has
        "common_kernel" (k above), "exact", "largest_eigenvalue" (of q outside its kernel), "decay"
        (margin of the Lyapunov inequality of L), "observability" (least |q v| over the unit
        eigenvectors v of L) and "reading", a clause for the statement, empty for an exact kernel.

    Raises
    ------
    NotCertified
        If no exact equilibrium is proven near Sigma, or d is too large.
    """
    if model.dim > DENSE_DIM:
        raise NotCertified(
            f"model: the semidefinite form is examined for d <= {DENSE_DIM}, found d = "
            f"{model.dim}; use method='form'"
        )
    point = WhitenedPoint(model, Sigma)
    common, exact = _read_kernel(point, model)
    J, form = dense_operator(point.white), attention_form(point.white.heads)
    beta = inverse_norm(point, J)
    radius = point.radius_from(beta)
    if np.isfinite(beta):
        check_enclosed(point, radius)
    # Where L is singular to rounding nothing encloses the exact equilibrium, and `decay` refuses.
    near = radius if np.isfinite(radius) else 0.0
    bound = point.bound + point.attention_error
    rounding = point.attention_error + len(form) * EPS * point.bound + bound * near / (1 - near)
    # By Weyl's inequality the exact eigenvalues after the first k(k+1)/2 are negative if this is.
    size = common * (common + 1) // 2
    values = np.linalg.eigvalsh(form)[::-1]
    largest = float(values[size]) if size < len(values) else 0.0
    change = 4 * bound * near + 2 * (point.drift_error + point.attention_error)
    decay = hurwitz_margin(J, change) if np.isfinite(radius) else -max(change, EPS)
    data = {
        "common_kernel": common,
        "exact": exact,
        "largest_eigenvalue": largest,
        "rounding": rounding,
        "decay": decay,
        "observability": _observability(form, J),
        "existence_radius": radius,
        "reading": "" if exact else READING,
    }
    margin = float(min(decay, -largest - rounding))
    if not margin > 0:
        return Evidence(margin, np.inf, False, data)
    mean_stable = mean_margin(point, radius) > 0
    rate = -covariance_abscissa(point.white)
    return Evidence(margin, radius + point.offset, mean_stable, data, rate)


def semidefinite_shortfall(model: GaussianTransformer, evidence: Evidence) -> str:
    """Say which part of the semidefinite criterion fails."""
    data = evidence.data
    trace = float(np.trace(model.A))
    largest, common = data["largest_eigenvalue"], data["common_kernel"]
    if trace <= 0:
        reason = f"tr A = {trace:.4g}, and tr A > 0 is necessary"
    elif largest > data["rounding"]:
        reason = f"the form has the positive eigenvalue {largest:.4g}"
    elif largest > -data["rounding"]:
        reason = (
            f"its eigenvalue {largest:.2g} is zero to rounding, and not because of the common "
            f"kernel of the B_h, which has dimension {common}"
        )
    else:
        reason = (
            "the form and the linearisation are not verified to be observable, so that Sigma* is "
            "not shown to attract"
        )
    return (
        f"equilibrium: not certified as globally stable by the semidefinite form: {reason} "
        "(Theory 4.7)"
    )


def common_kernel(model: GaussianTransformer) -> int:
    """Return the dimension of the common kernel of all B_h and B_h^T, without rounding.

    Heads with V_h = 0 do not count. Heads given by factors, B_h = K_h^T Q_h, are read as products
    of the exact factors, and the common kernel of all K_h and Q_h counts.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    int
    """
    stack = _keys(model)
    # Far from singular in floating point means nonsingular.
    if len(stack) >= model.dim and np.linalg.svd(stack, compute_uv=False)[-1] > CLEARLY_FULL:
        return 0
    return model.dim - exact_rank(stack)


def rounded_kernel(model: GaussianTransformer) -> int:
    """Return the dimension of that kernel where the last digit of the entries is in doubt.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    int
    """
    values = np.linalg.svd(_keys(model), compute_uv=False)
    return model.dim - int((values > model.dim * EPS).sum())


def _read_kernel(point: WhitenedPoint, model: GaussianTransformer) -> tuple[int, bool]:
    """Return k and whether it is exact; else the bounds of the point hold a model that has it."""
    common = common_kernel(model)
    # The Riccati criterion is if and only if, and reads rounding itself.
    rounded = common if is_riccati(model) else rounded_kernel(model)
    moved = _key_change(point, model)
    if not (rounded > common and moved <= LAST_DIGITS * point.bound):
        return common, True
    point.attention_error += moved
    point.drift_error += float(np.sqrt(model.dim)) * moved
    return rounded, False


def _keys(model: GaussianTransformer) -> np.ndarray:
    """Return B_h and B_h^T one below the other, each scaled by a power of two to about 1."""
    arrays = model.heads.arrays
    if len(arrays) == 2:
        V, B = arrays
        blocks = [part for v, b in zip(V, B, strict=True) if v.any() for part in (b, b.T)]
    else:
        O, U, K, Q = arrays
        heads = zip(O, U, K, Q, strict=True)
        blocks = [part for o, u, k, q in heads if o.any() and u.any() for part in (k, q)]
    blocks = [np.ldexp(block, -np.frexp(np.abs(block).max())[1]) for block in blocks]
    return np.concatenate([np.zeros((0, model.dim)), *blocks])


def _key_change(point: WhitenedPoint, model: GaussianTransformer) -> float:
    """Bound the change of the whitened T as the B_h move onto their rounded kernel."""
    # In the stack, scaled to entries below 1, B_h and its transpose (or its factors) move by d eps.
    factors = [np.abs(array).max(axis=(1, 2)) for array in model.heads.arrays]
    inner = 1 if len(factors) == 2 else model.heads.arrays[2].shape[1]
    keys = inner * np.prod([np.ldexp(1.0, np.frexp(f)[1]) for f in factors[len(factors) // 2 :]], 0)
    moved = 2 * model.dim * EPS * keys * np.linalg.norm(point.root, 2) ** 2
    return float((np.linalg.norm(point.white.V, axis=(1, 2)) * moved).sum())


def _observability(form: np.ndarray, J: np.ndarray) -> float:
    """Return the least |q v| over the unit eigenvectors v of J."""
    _, vectors = np.linalg.eig(J)
    return float(np.linalg.norm(form @ vectors, axis=0).min())
