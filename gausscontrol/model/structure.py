"""Structure that lets system (1) be solved or bounded in closed form (Theory 3.2, 3.7, 4.4).

V_h = v_h I for all h     Sigma' = A Sigma + Sigma A^T + Sigma G Sigma, G = sum_h v_h (B_h + B_h^T)
B_h = c_h B, B = B^T > 0  one effective head (V, B), V = sum_h c_h V_h
"""

from __future__ import annotations

import numpy as np

from gausscontrol.linalg.exact import integer_product, integers
from gausscontrol.linalg.symmetric import is_positive_definite, symmetrise
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["common_key", "exact_riccati_gain", "riccati_gain", "trace_obstruction"]

# Relative deviation up to which a matrix counts as having the structure asked for.
STRUCTURE_TOLERANCE = 1e-13


def riccati_gain(model: GaussianTransformer) -> np.ndarray | None:
    """Return G of the Riccati case, or None if some value matrix is not a multiple of I.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    (d, d) ndarray or None
        Symmetric. [1/(t x^2)]
    """
    scales = model.heads.scalar_values()
    return None if scales is None else 2 * symmetrise(np.tensordot(scales, model.B, axes=1))


def exact_riccati_gain(model: GaussianTransformer) -> tuple[np.ndarray, int] | None:
    """Return G of the Riccati case without rounding, for decisions about G <= 0.

    Parameters
    ----------
    model : GaussianTransformer
        Heads given by factors stand for the exact products.

    Returns
    -------
    tuple or None
        X (d, d) of int objects and e with G = (X + X^T) 2^e; None unless every V_h is exactly a
        multiple of the identity.
    """
    if model.heads.scalar_values() is None:
        return None
    arrays = model.heads.arrays
    if isinstance(model.heads, FactoredHeads):
        O, U, K, Q = arrays
        V = [integer_product(pair) for pair in zip(O, U, strict=True)]
        B = [integer_product((k.T, q)) for k, q in zip(K, Q, strict=True)]
    else:
        V, B = ([integers(matrix) for matrix in array] for array in arrays)
    one = np.eye(model.dim, dtype=int).astype(object)
    if any((v != v[0, 0] * one).any() for v, _ in V):
        return None
    lowest = min(v[1] + b[1] for v, b in zip(V, B, strict=True))
    total = sum(v[0][0, 0] * b[0] * 2 ** (v[1] + b[1] - lowest) for v, b in zip(V, B, strict=True))
    return total, lowest


def common_key(model: GaussianTransformer) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (B, V) of one effective head with B = B^T > 0, or None if there is none.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    tuple or None
        B (d, d) symmetric positive definite and V (d, d) with T(S) = V S B.
    """
    # Every head is compared at its own scale, which head gauge may set to anything.
    powers = np.frexp(np.abs(model.B).max(axis=(1, 2)))[1]
    keys = np.ldexp(model.B, -powers[:, None, None])
    norms = np.linalg.norm(keys, axis=(1, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        lead = int(np.ldexp(norms, powers).argmax())
        if norms[lead] == 0:
            return None
        B = keys[lead]
        shares = np.tensordot(keys, B, axes=2) / norms[lead] ** 2
        deviation = np.linalg.norm(keys - shares[:, None, None] * B, axis=(1, 2))
        asymmetry = np.linalg.norm(B - B.T)
        if not (
            (deviation <= STRUCTURE_TOLERANCE * norms).all()
            and asymmetry <= STRUCTURE_TOLERANCE * norms[lead]
        ):
            return None
        weights = np.ldexp(shares, powers - powers[lead])
        V = np.tensordot(weights, model.V, axes=1)
    if not np.isfinite(V).all():
        return None
    B = symmetrise(model.B[lead])
    for sign in (1.0, -1.0):
        if is_positive_definite(sign * B):
            return sign * B, sign * V
    return None


def trace_obstruction(model: GaussianTransformer) -> str | None:
    """Say why no positive definite equilibrium can exist, if the trace shows it.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.

    Returns
    -------
    str or None
        None if the trace decides nothing.

    Notes
    -----
    M(Sigma) Sigma is skew at an equilibrium Sigma > 0, hence tr M(Sigma) = 0, which reads
    tr A + tr(W Sigma) = 0 with W = sym(sum_h B_h V_h). A semidefinite W of the wrong sign
    leaves no Sigma > 0 for it.
    """
    W = symmetrise((model.B @ model.V).sum(axis=0))
    error = symmetrise((np.abs(model.B) @ np.abs(model.V)).sum(axis=0))
    trace = float(np.trace(model.A))
    if trace > 0 and _is_semidefinite(W, error):
        sign, definite = ">", "positive semidefinite"
    elif trace < 0 and _is_semidefinite(-W, error):
        sign, definite = "<", "negative semidefinite"
    else:
        return None
    return (
        f"tr A = {trace:.4g} {sign} 0 and sym(sum_h B_h V_h) is {definite}, "
        "so tr M(Sigma) = 0 has no positive definite solution"
    )


def _is_semidefinite(W: np.ndarray, terms: np.ndarray) -> bool:
    """Tell whether W >= 0 up to rounding of the terms it is a sum of.

    Scaled to a unit diagonal first, since units of the coordinates must not hide an eigenvalue.
    """
    diagonal = W.diagonal()
    rounding = STRUCTURE_TOLERANCE * terms
    used = (np.abs(W) > rounding).any(axis=0)
    if not (diagonal[used] > rounding.diagonal()[used]).all():
        return False
    scale = 1 / np.sqrt(diagonal[used])
    scaled = scale[:, None] * W[np.ix_(used, used)] * scale
    slack = np.linalg.norm(scale[:, None] * rounding[np.ix_(used, used)] * scale)
    return bool(np.linalg.eigvalsh(scaled)[0] >= -slack) if used.any() else True
