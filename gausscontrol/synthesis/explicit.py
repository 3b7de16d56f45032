"""Attention that stabilises a target, written down without a solver (Theory 4.4).

With C = sym(A), c = tr A / d, C0 = C - c I, K = skew(A), in whitened coordinates,

    T(E) = -c E - (1/d) (tr(E) C0 - <C0, E> I) - (tr(E)/d) K
    T(I) = -A,      <E, T(E)> = -c |E|^2

and one head alone, in a basis where C has a constant diagonal:

    V = -diag(p),   B_ij = 2 C_ij / (p_i + p_j),   p widely spread

Assumption: tr A > 0.
"""

from __future__ import annotations

import numpy as np

__all__ = ["constant_diagonal", "explicit_rearranged", "heads_of", "one_head"]

# Ratios between neighbours in p that are tried for one head.
SPREADS = np.geomspace(1.0, 1e4, 49)


def explicit_rearranged(A: np.ndarray) -> np.ndarray:
    """Return the T of this module as Z with Z[(i,j),(k,l)] E_jk = T(E)_il.

    Parameters
    ----------
    A : (d, d) ndarray
        Whitened, tr A > 0.

    Returns
    -------
    (d^2, d^2) ndarray
        sum_h vec(V_h) vec(B_h)^T for any heads with this T.
    """
    d = len(A)
    identity = np.eye(d)
    c = np.trace(A) / d
    C0 = (A + A.T) / 2 - c * identity
    trace_part = C0 + (A - A.T) / 2
    T = -c * np.einsum("ij,kl->ijkl", identity, identity)
    T -= np.einsum("il,jk->ijkl", trace_part, identity) / d
    T += np.einsum("jk,il->ijkl", C0, identity) / d
    return T.reshape(d * d, d * d)


def heads_of(Z: np.ndarray, heads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return V and B (h, d, d) from the leading singular vectors of a rearranged T.

    Parameters
    ----------
    Z : (d^2, d^2) ndarray
    heads : int, optional
        How many; by default the numerical rank.

    Returns
    -------
    V, B : (h, d, d) ndarray
        With |V_h|_F = |B_h|_F.
    """
    d = int(np.sqrt(len(Z)))
    U, values, Wt = np.linalg.svd(Z)
    if heads is None:
        heads = max(int((values > 1e-12 * values[0]).sum()), 1)
    root = np.sqrt(values[:heads])
    V = (U[:, :heads] * root).T.reshape(-1, d, d)
    return V, (root[:, None] * Wt[:heads]).reshape(-1, d, d)


def one_head(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one head V < 0 < B with sym(A + V B) = 0.

    Parameters
    ----------
    A : (d, d) ndarray
        Whitened, tr A > 0.

    Returns
    -------
    V, B : (d, d) ndarray
        Of the spreads tried the one with the best lambda_min(-V) lambda_min(B), relative to
        |V| |B|; -V and B are positive definite for a spread that is large enough.
    """
    C = (A + A.T) / 2
    Q = constant_diagonal(C)
    turned = Q.T @ C @ Q
    best, found = -np.inf, None
    for spread in SPREADS:
        p = spread ** np.arange(len(C))
        B = 2 * turned / np.add.outer(p, p)
        values = np.linalg.eigvalsh(B)
        share = values[0] * p[0] / (np.abs(values).max() * p[-1])
        if share > best:
            best, found = share, (p, B)
    p, B = found
    return -(Q * p) @ Q.T, Q @ B @ Q.T


def constant_diagonal(C: np.ndarray) -> np.ndarray:
    """Return an orthogonal Q for which Q^T C Q has all diagonal entries equal to tr C / d.

    Parameters
    ----------
    C : (d, d) ndarray
        Symmetric.

    Returns
    -------
    (d, d) ndarray
        By d - 1 plane rotations, each of which sets one entry.
    """
    d = len(C)
    mean, turned, Q = np.trace(C) / d, C.copy(), np.eye(d)
    for _ in range(d - 1):
        entries = np.diag(turned) - mean
        i, j = int(np.argmin(entries)), int(np.argmax(entries))
        if not entries[i] < 0 < entries[j]:
            break
        # cos^2 low + 2 sin cos off + sin^2 high = 0 in t = tan.
        low, off, high = entries[i], turned[i, j], entries[j]
        t = (-off + np.sqrt(off**2 - low * high)) / high
        c = 1 / np.sqrt(1 + t**2)
        plane = np.array([[c, -t * c], [t * c, c]])
        Q[:, [i, j]] = Q[:, [i, j]] @ plane
        turned = Q.T @ C @ Q
    return Q
