"""Which of many models have structure that the single path looks for (Theory 3.1, 3.2, 4.7, 4.9).

    V_h = v_h I      B_h = c_h B, B = B^T > 0      a common kernel of all B_h      M(Sigma) = 0
    P A and P T(E) symmetric for some P > 0

Structure is an equality, and is decided with integers there. Here it is only told where it is out
of the question, by far more than rounding.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.certificates.gradient import IMAGES
from gausscontrol.certificates.semidefinite import CLEARLY_FULL
from gausscontrol.sweeps.batch import Stack, transposed
from gausscontrol.sweeps.polish import smat_stack, whitening_stack
from gausscontrol.sweeps.search import balanced_covariances

__all__ = ["is_structured", "may_be_gradient"]

# Relative deviations from a structure up to which a model may have it.
NEAR = 1e-7
# Least asymmetry of P A and P T(E), relative to their sizes, that rules the gradient case out.
ASYMMETRIC = 1e-9


def is_structured(models: Stack) -> np.ndarray:
    """Tell which models may have scalar values, a shared key, a kernel or a balanced equilibrium.

    Parameters
    ----------
    models : Stack

    Returns
    -------
    (N,) ndarray of bool
        Also where a matrix is zero.
    """
    A, B, V = models.A, models.B, models.V
    with np.errstate(all="ignore"):
        size_V, size_B = np.linalg.norm(V, axis=(2, 3)), np.linalg.norm(B, axis=(2, 3))
        near = (size_V == 0).any(axis=1) | (size_B == 0).any(axis=1)
        near |= ~A.any(axis=(1, 2))
        means = np.trace(V, axis1=2, axis2=3) / models.dim
        apart = np.linalg.norm(V - means[..., None, None] * np.eye(models.dim), axis=(2, 3))
        near |= (apart <= NEAR * size_V).all(axis=1)
        near |= _shares_key(B / size_B[..., None, None])
        near |= _has_kernel(B / size_B[..., None, None])
        if models.n_heads == 1:
            near |= _balances(models)
    return near


def _shares_key(keys: np.ndarray) -> np.ndarray:
    lead = keys[:, 0]
    shares = np.einsum("nhij,nij->nh", keys, lead)
    apart = np.linalg.norm(keys - shares[..., None, None] * lead[:, None], axis=(2, 3))
    skew = np.linalg.norm(lead - transposed(lead), axis=(1, 2))
    values = np.linalg.eigvalsh(_finite((lead + transposed(lead)) / 2))
    definite = (values[:, 0] > -NEAR) | (values[:, -1] < NEAR)
    return (apart <= NEAR).all(axis=1) & (skew <= NEAR) & definite


def _has_kernel(keys: np.ndarray) -> np.ndarray:
    count, heads, dim, _ = keys.shape
    both = np.concatenate([keys, transposed(keys)], axis=1).reshape(count, 2 * heads * dim, dim)
    return np.linalg.svd(_finite(both), compute_uv=False)[:, -1] <= 10 * CLEARLY_FULL


def _balances(models: Stack) -> np.ndarray:
    """Tell whether -V^-1 A B^-1 may be symmetric, where it exists to working precision."""
    V, B = models.V[:, 0], models.B[:, 0]
    rough = np.linalg.svd(_finite(V), compute_uv=False)
    rough_B = np.linalg.svd(_finite(B), compute_uv=False)
    regular = (rough[:, -1] > 1e-11 * rough[:, 0]) & (rough_B[:, -1] > 1e-11 * rough_B[:, 0])
    near = ~regular & (rough[:, -1] > 1e-13 * rough[:, 0])
    index = np.flatnonzero(regular)
    Sigma = balanced_covariances(models.take(index))
    skew = np.linalg.norm(Sigma - transposed(Sigma), axis=(1, 2))
    near[index] = skew <= NEAR * np.linalg.norm(Sigma, axis=(1, 2))
    return near


def may_be_gradient(models: Stack, covariance: np.ndarray) -> np.ndarray:
    """Tell for which models some P may make P A and every P T(E) symmetric.

    Parameters
    ----------
    models : Stack
    covariance : (N, d, d) ndarray
        Equilibria, at which the models are whitened.

    Returns
    -------
    (N,) ndarray of bool
    """
    dim, count = models.dim, models.count
    with np.errstate(all="ignore"):
        R, root, _ = whitening_stack(covariance)
        white = models.transform(R, root)
        norms = np.linalg.norm(white.V, axis=(2, 3)) * np.linalg.norm(white.B, axis=(2, 3))
        images, floor = [white.A], np.ones(count)
        for Z in np.random.default_rng(0).standard_normal((IMAGES, dim, dim)):
            E = (Z + Z.T) / 2
            image = white.attention(np.broadcast_to(E, white.A.shape))
            images.append(image)
            share = np.linalg.norm(image, axis=(1, 2)) / norms.sum(axis=1)
            floor = np.minimum(floor, share / np.linalg.norm(E))
        stacked = np.stack(images, axis=1)
        stacked = stacked / np.linalg.norm(stacked, axis=(2, 3), keepdims=True)
        # What is skew in P X, for every P of an orthonormal basis: (N, p, images, pairs).
        basis = smat_stack(np.eye(dim * (dim + 1) // 2))
        products = basis[:, None] @ stacked[:, None]
        rows, columns = np.triu_indices(dim, 1)
        skew = (products - transposed(products))[..., rows, columns]
        gram = np.einsum("npmi,nqmi->npq", skew, skew)
        least = np.linalg.eigvalsh(_finite(gram))[:, 0]
    # Squares: rounding leaves 1e-16 of them.
    return ~((least > 1e-12) & (np.sqrt(np.maximum(least, 0)) * floor > ASYMMETRIC))


def _finite(X: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(X), X, 0.0)
