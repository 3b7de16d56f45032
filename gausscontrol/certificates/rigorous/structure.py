"""Proofs that rest on structure the parameters have exactly (Theory 4.7, 4.9, 9.3).

    semidefinite   the common kernel U of all B_h and B_h^T has dimension k, q < 0 on a complement
                   of the symmetric matrices supported on U, and L is Hurwitz
    gradient       P > 0, P A = (P A)^T, E -> P T(E) symmetric-valued, self-adjoint and negative
                   definite, and an equilibrium Sigma* > 0

No ball is narrow enough to show an equality, so k and the symmetries are decided in rational
arithmetic; the inequalities are strict and proved in balls. Structure that only holds up to
rounding is refused. Continuous depth only. Arguments are those of `stability`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from gausscontrol.certificates.rigorous.equilibrium import enclosed_equilibrium, mean_is_stable
from gausscontrol.certificates.rigorous.exact_model import ExactModel, working
from gausscontrol.linalg.ball_forms import form_matrix, symmetric_map
from gausscontrol.linalg.balls import (
    block_matrix,
    exact,
    exact_matrix,
    floats,
    inverse,
    is_hurwitz,
    is_positive_definite,
    is_zero,
    rational_matrix,
)
from gausscontrol.linalg.symmetric import symmetric_size, symmetrise, vech_index
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import BallMatrix, RationalMatrix

__all__ = ["prove_gradient", "prove_semidefinite"]


def prove_semidefinite(
    model: GaussianTransformer, Sigma: np.ndarray, radius: float, *, mean: bool = False
) -> bool:
    """Prove that an exact equilibrium attracts every Sigma > 0, by a semidefinite form.

    Notes
    -----
    Theory 4.7. E supported on U has B_h E = E B_h = 0, hence T(E) = 0 and q(E, .) = 0: k(k+1)/2
    dimensions of the kernel are known. If q < 0 on a subspace of the dimension that is left, the
    kernel is no larger, and q <= 0. As sym L = 2 q, L Hurwitz is all that is missing.
    """
    if model.dt:
        return False
    size = model.dim * (model.dim + 1) // 2
    with working(size):
        original = ExactModel.of(model)
        ball = enclosed_equilibrium(original, Sigma, radius)
        X = None if ball is None else inverse(ball)
        if X is None:
            return False
        common = _common_kernel(ExactModel.of(model, rational_matrix))
        form = -form_matrix(symmetric_map([X * V for V in original.V], original.B))
        chosen = _independent(form, size - common * (common + 1) // 2)
        return (
            is_positive_definite(_principal(form, chosen))
            and is_hurwitz(original.linearisation(ball))
            and (not mean or mean_is_stable(original, ball))
        )


def prove_gradient(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    P: np.ndarray,
    radius: float,
    *,
    mean: bool = False,
) -> bool:
    """Prove that an exact equilibrium attracts every Sigma > 0, by a concave function.

    Notes
    -----
    Theory 4.9. At an exact equilibrium M Sigma is skew and P M symmetric, which leaves M = 0.
    """
    if model.dt or not np.isfinite(P).all():
        return False
    with working(model.dim):
        if not _is_gradient(ExactModel.of(model, rational_matrix), rational_matrix(P)):
            return False
        original, P = ExactModel.of(model), exact_matrix(symmetrise(P))
        form = form_matrix(symmetric_map([P * V * exact(0.5) for V in original.V], original.B))
        if not (is_positive_definite(P) and is_positive_definite(-form)):
            return False
        ball = enclosed_equilibrium(original, Sigma, radius)
        return ball is not None and (not mean or mean_is_stable(original, ball))


def _common_kernel(model: ExactModel) -> int:
    """Return the dimension of the common kernel of B_h and B_h^T over heads with V_h != 0."""
    heads = zip(model.V, model.B, strict=True)
    rows = [[part] for V, B in heads if not is_zero(V) for part in (B, B.transpose())]
    return model.dim - block_matrix(rows).rank() if rows else model.dim


def _independent(form: BallMatrix, count: int) -> list[int]:
    """Choose entries of vech on which a semidefinite form looks most definite."""
    weight = vech_index(symmetric_size(form.nrows())).weight
    scaled = floats(form) / weight[:, None] / weight
    if not np.isfinite(scaled).all():
        return list(range(count))
    _, order = scipy.linalg.qr(scaled, mode="r", pivoting=True)
    return sorted(int(position) for position in order[:count])


def _principal(form: BallMatrix, chosen: list[int]) -> BallMatrix:
    return type(form)([[form[i, j] for j in chosen] for i in chosen])


def _is_gradient(model: ExactModel, P: RationalMatrix) -> bool:
    """Decide whether P, P A and E -> P T(E) are symmetric, the last in both senses."""
    product = P * model.A
    if P.transpose() != P or product.transpose() != product:
        return False
    index, images = vech_index(model.dim), []
    for i, j in zip(index.rows, index.columns, strict=True):
        E = np.zeros((model.dim, model.dim))
        E[i, j] = E[j, i] = 1.0
        image = P * model.attention(rational_matrix(E))
        if image != image.transpose():
            return False
        images.append(image.entries())
    doubles = np.rint(index.weight**2).astype(int).tolist()
    rows = [
        [double * image[position] for image in images]
        for double, position in zip(doubles, index.low.tolist(), strict=True)
    ]
    operator = type(P)(rows)  # entry (l, m): <E_l, P T(E_m)>
    return operator == operator.transpose()
