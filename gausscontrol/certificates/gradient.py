"""The gradient case: attention that climbs a concave function (Theory 4.9).

    P > 0,   P A = (P A)^T,   E -> P T(E) symmetric-valued, self-adjoint and negative definite
    =>  every Sigma_0 > 0 tends to the Sigma* with M(Sigma*) = 0, if that is positive definite

There is at most one such P up to a factor: if P T is definite, T maps onto P^-1 times the symmetric
matrices, and Q P^-1 S is symmetric for all symmetric S only if Q is a multiple of P. So P is a null
vector of the equalities, which are linear in it, and no semidefinite programme is needed. The
equalities say that operators are exactly symmetric, which matrices can be by construction:

exact     P = I, and A and T are symmetric entry by entry, decided with integers;
rounded   the equalities hold to the last digits, 1e-12 of the whitened matrices at most. A model
          that close to this one has the structure exactly, and the statement says so.

M(Sigma*) = 0 need not be asked for: M Sigma* is skew at an equilibrium, and with P M symmetric that
leaves only zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.analysis.spectra import covariance_abscissa
from gausscontrol.certificates.base import check_enclosed
from gausscontrol.certificates.evidence import Evidence, mean_margin
from gausscontrol.errors import NotCertified
from gausscontrol.linalg.exact import tensor_sum
from gausscontrol.linalg.operators import symmetric_units
from gausscontrol.linalg.symmetric import smat, svec, symmetrise, whitening
from gausscontrol.model.heads import Heads
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["gradient_check", "gradient_matrix", "gradient_shortfall", "gradient_stability"]

READING = ", where the gradient structure is read up to rounding"
# What may be missing from the symmetry of P A and P T, relative to |A| and sum_h |V_h| |B_h|.
LAST_DIGITS = 1e-12
# Images T(E) that P has to make symmetric; two at random positions leave only one P.
IMAGES = 6


class _Finding(NamedTuple):
    # -lambda_max of P T over sum_h |V_h| |B_h|, and lambda_min of P, where |P| = 1, both after
    # rounding; how far P A and P T are from symmetric, relative to their sizes, and may be.
    strength: float
    lowest: float
    defect: float
    allowed: float


def gradient_stability(model: GaussianTransformer, Sigma: np.ndarray) -> Evidence:
    """Look for P and evaluate the gradient criterion at an equilibrium (Theory 4.9).

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth, d <= 32.
    Sigma : (d, d) ndarray
        Positive definite, the computed equilibrium. [x]^2

    Returns
    -------
    Evidence
        It holds if the margin is positive; `witness` is P, which `gradient_check` takes.

    Raises
    ------
    NotCertified
        If no exact equilibrium is proven near Sigma, or d is too large.
    """
    if model.dim > DENSE_DIM:
        raise NotCertified(
            f"model: the gradient case is examined for d <= {DENSE_DIM}, found d = {model.dim}; "
            "use method='form'"
        )
    return gradient_check(model, Sigma, gradient_matrix(model, Sigma))


def gradient_check(model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray) -> Evidence:
    """Evaluate the gradient criterion for a given P.

    Parameters
    ----------
    model : GaussianTransformer
    Sigma : (d, d) ndarray
        Positive definite, the computed equilibrium. [x]^2
    P : (d, d) ndarray
        Symmetric, in the original coordinates.

    Returns
    -------
    Evidence
        `data` has "exact", "largest_eigenvalue" of P T relative to sum_h |V_h| |B_h| and
        "lowest_eigenvalue" of P, where |P| = 1, "defect" (how far P A and P T are from symmetric,
        relative to their sizes) and "reading", a clause for the statement, empty where the
        structure is exact. Coordinates are the original ones if it is, else whitened.

    Raises
    ------
    NotCertified
        If no exact equilibrium is proven near Sigma.
    """
    point = WhitenedPoint(model, Sigma)
    exact = np.array_equal(P, P[0, 0] * np.eye(model.dim)) and has_symmetric_parts(model)
    found = _exact(model, P) if exact else _rounded(point, P)
    margin = min(found.strength, found.lowest)
    if found.defect >= found.allowed:
        margin = min(margin, found.allowed - found.defect, -EPS)
    data = {
        "exact": exact,
        "largest_eigenvalue": -found.strength,
        "lowest_eigenvalue": found.lowest,
        "defect": found.defect,
        "allowed": found.allowed,
        "reading": "" if exact else READING,
    }
    if not margin > 0:
        return Evidence(float(margin), np.inf, False, data, witness=P)
    radius = min(point.radius, _linear_radius(model, Sigma)) if exact else point.radius
    check_enclosed(point, radius)
    data["existence_radius"] = radius
    mean_stable = mean_margin(point, radius) > 0
    rate = -covariance_abscissa(point.white)
    return Evidence(float(margin), radius + point.offset, mean_stable, data, rate, P)


def gradient_shortfall(evidence: Evidence) -> str:
    """Say which part of the gradient criterion fails."""
    data = evidence.data
    if data["defect"] >= data["allowed"]:
        reason = (
            "no P makes P A symmetric and E -> P T(E) symmetric-valued and self-adjoint; the best "
            f"found misses by {data['defect']:.2g} of their sizes"
        )
    elif not data["lowest_eigenvalue"] > 0:
        reason = "the P that makes P A and P T(E) symmetric is not positive definite"
    else:
        reason = (
            f"E -> P T(E) is not negative definite, its largest eigenvalue is "
            f"{data['largest_eigenvalue']:.4g} of |P| sum_h |V_h| |B_h|"
        )
    return (
        f"equilibrium: not certified as globally stable by the gradient case: {reason} (Theory 4.9)"
    )


def has_symmetric_parts(model: GaussianTransformer) -> bool:
    """Tell whether A and E -> T(E) are symmetric without rounding, in the sense of P = I.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    bool
        A = A^T, and T(E) is symmetric for symmetric E and self-adjoint, entry by entry.
    """
    if not np.array_equal(model.A, model.A.T):
        return False
    V, B = model.V, model.B
    rough = np.einsum("hik,hlj->iklj", V, B)
    rough = rough + rough.transpose(0, 2, 1, 3)
    size = np.einsum("hik,hlj->iklj", np.abs(V), np.abs(B)).max()
    # Cheap first: what is far from symmetric needs no integers.
    if max(np.abs(rough - image).max() for image in _mirrored(rough)) > 1e-9 * size:
        return False
    arrays = model.heads.arrays
    if len(arrays) == 2:
        tensor = tensor_sum([[v] for v in arrays[0]], [[b] for b in arrays[1]])
    else:
        O, U, K, Q = arrays
        keys = [[k.T, q] for k, q in zip(K, Q, strict=True)]
        tensor = tensor_sum(list(zip(O, U, strict=True)), keys)
    tensor = tensor + tensor.transpose(0, 2, 1, 3)
    return all((tensor == image).all() for image in _mirrored(tensor))


def _mirrored(tensor: np.ndarray) -> Iterator[np.ndarray]:
    # Entry (i, k, l, j) is that of e_i^T T(e_k e_l^T + e_l e_k^T) e_j: symmetric-valued means i and
    # j may be exchanged, self-adjoint means that (i, j) and (k, l) may.
    yield tensor.transpose(3, 1, 2, 0)
    yield tensor.transpose(1, 0, 3, 2)


def gradient_matrix(model: GaussianTransformer, Sigma: np.ndarray) -> np.ndarray:
    """Return the one candidate for P, in the original coordinates.

    Parameters
    ----------
    model : GaussianTransformer
    Sigma : (d, d) ndarray
        Positive definite. [x]^2

    Returns
    -------
    (d, d) ndarray
        Symmetric with positive trace: I where A and T are symmetric without rounding, else what
        brings P A and some P T(E) closest to symmetry.
    """
    if has_symmetric_parts(model):
        return np.eye(model.dim)
    R, root = whitening(Sigma)
    white, dim = model.in_coordinates(R, root, "Sigma"), model.dim
    random = np.random.default_rng(0).standard_normal((IMAGES, dim, dim))
    images = [white.A, *(white.heads.attention(symmetrise(E)) for E in random)]
    images = np.stack([image / (np.linalg.norm(image) or 1.0) for image in images])
    upper = np.triu_indices(dim, 1)
    columns = []
    for P in symmetric_units(dim):
        values = P @ images
        columns.append((values - values.transpose(0, 2, 1))[:, upper[0], upper[1]].ravel())
    _, _, vectors = np.linalg.svd(np.stack(columns, axis=1), full_matrices=False)
    P = smat(vectors[-1])
    return symmetrise(R @ P @ R) * (np.sign(np.trace(P)) or 1.0)


def _images(heads: Heads) -> np.ndarray:
    """Return T of an orthonormal basis of the symmetric matrices, (n, d, d)."""
    return np.stack([heads.attention(E) for E in symmetric_units(heads.dim)])


def _exact(model: GaussianTransformer, P: np.ndarray) -> _Finding:
    """Evaluate P = p I in the original coordinates, where nothing but sums is rounded."""
    if not P[0, 0] > 0:
        return _Finding(-np.inf, float(np.sign(P[0, 0])), 0.0, np.inf)
    heads = model.heads
    operator, _ = _split(_images(heads))
    largest = np.linalg.eigvalsh(operator)[-1] / (heads.norm_bound() or 1.0)
    rounding = ((heads.n_heads + 3) * heads.dim + len(operator)) * EPS
    return _Finding(float(-largest - rounding), 1.0, 0.0, np.inf)


def _linear_radius(model: GaussianTransformer, Sigma: np.ndarray) -> float:
    """Bound the whitened distance to the solution of A + T(S) = 0, with P = I and T < 0."""
    heads, dim = model.heads, model.dim
    operator, _ = _split(_images(heads))
    R, _ = whitening(Sigma)
    # R T^-1(residual) R, where T^-1 and its errors are those of a symmetric matrix.
    inverse = np.linalg.inv(operator)
    unit = (heads.n_heads + 3) * dim * EPS
    slip = np.linalg.norm(np.eye(len(operator)) - inverse @ operator, 2)
    slip += unit * heads.norm_bound() * np.linalg.norm(inverse, 2)
    if not slip < 0.5:
        return np.inf
    drift = model.A + heads.attention(Sigma)
    sizes = type(heads)(*(np.abs(array) for array in heads.arrays))
    error = np.linalg.norm(np.abs(model.A) + sizes.attention(np.abs(Sigma))) * unit
    # |R E R| <= |R|^2 |E|; the part that is known is measured as it is.
    step = smat(inverse @ svec(symmetrise(drift)))
    rest = np.linalg.norm(inverse, 2) * (error + slip * np.linalg.norm(drift)) / (1 - slip)
    scale = float(np.linalg.norm(R, 2)) ** 2
    return float(np.linalg.norm(R @ step @ R) + scale * rest)


def _rounded(point: WhitenedPoint, P: np.ndarray) -> _Finding:
    """Evaluate P in whitened coordinates, and widen the bounds of the point to what it assumes."""
    white = point.white
    P = symmetrise(point.root @ P @ point.root)
    P = P / (np.linalg.norm(P, 2) or 1.0)
    lowest = float(np.linalg.eigvalsh(P)[0]) - white.dim * EPS
    operator, skew_T = _split(P @ _images(white.heads))
    skew_A = (P @ white.A - white.A.T @ P) / 2
    size_A, bound = float(np.linalg.norm(white.A)) or 1.0, point.bound or 1.0
    level = max(point.drift_error / size_A, point.attention_error / bound)
    allowed = min(float(np.sqrt(len(operator))) * level, LAST_DIGITS)
    defect = float(max(np.linalg.norm(skew_A) / size_A, np.linalg.norm(skew_T) / bound))
    if lowest > 0:
        # The model with P A and P T symmetrised has the structure exactly; it is this close.
        moved = float(np.linalg.norm(np.linalg.solve(P, skew_T)))
        point.attention_error += moved
        point.drift_error += float(np.linalg.norm(np.linalg.solve(P, skew_A)))
        point.drift_error += float(np.sqrt(white.dim)) * moved
    loss = point.attention_error / bound + len(operator) * EPS
    largest = float(np.linalg.eigvalsh(operator)[-1]) / bound
    return _Finding(-largest - loss, lowest, defect, allowed)


def _split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a map E_j -> values as a symmetric matrix on svec, and the values that this drops."""
    half = (values + values.transpose(0, 2, 1)) / 2
    operator = symmetrise(svec(np.moveaxis(half, 0, -1)))
    return operator, values - np.moveaxis(smat(operator), -1, 0)
