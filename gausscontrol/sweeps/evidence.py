"""Stability at many equilibria, decided where rounding cannot matter (Theory 3.4, 4.1, 4.5).

    form  alpha = -lambda_max of E -> sym T(E);    local  J^T P + P J < 0;    mean  M + Vbar

in coordinates whitened at the computed equilibria. Numbers are those of `analysis.enclosure` and
`certificates.evidence`, with every bound on rounding widened: "yes" and "no" are what the single
path must say as well, whatever its last digits, and "unclear" is for it to decide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.analysis.enclosure import EPS
from gausscontrol.certificates.base import ROUGHEST
from gausscontrol.sweeps.batch import Stack, symmetric_operators, to_svec, transposed
from gausscontrol.sweeps.polish import smat_stack, solve_each, svec_stack, whitening_stack

__all__ = ["NO", "UNCLEAR", "YES", "Points", "hurwitz", "lyapunov_solutions"]

NO, UNCLEAR, YES = 0, -1, 1
# Bounds on rounding are widened by this factor before anything is called clear.
GUARD = 1e3
# Abscissae within this share of their matrix have no sign here.
NEUTRAL = 1e-7


class Points(NamedTuple):
    """What is known at one equilibrium of every model; verdicts are YES, NO or UNCLEAR.

    `exists` says whether an exact equilibrium is proven nearby; `form` whether the attention form
    is negative definite; `local` whether the equilibrium is certified to attract; `mean` whether
    M + Vbar is Hurwitz. `alpha`, `abscissa` and `mean_abscissa` are the numbers behind them.
    """

    exists: np.ndarray
    form: np.ndarray
    local: np.ndarray
    mean: np.ndarray
    alpha: np.ndarray
    abscissa: np.ndarray
    mean_abscissa: np.ndarray

    @classmethod
    def at(cls, models: Stack, covariance: np.ndarray) -> Points:
        """Examine equilibria (N, d, d) of N models."""
        with np.errstate(all="ignore"):
            return _examine(models, covariance)


def _examine(models: Stack, covariance: np.ndarray) -> Points:
    R, root, values = whitening_stack(covariance)
    white, dim = models.transform(R, root), models.dim
    unit = np.broadcast_to(np.eye(dim), white.A.shape)
    attention = white.attention(unit)
    drift = white.A + attention
    asymmetry = np.linalg.norm(drift + transposed(drift), axis=(1, 2))
    bound, attention_error, drift_error, total_error = _errors(models, white, R, root, attention)
    attention_error, drift_error, total_error = (
        GUARD * error for error in (attention_error, drift_error, total_error)
    )
    total = white.V.sum(axis=1)
    J = white.jacobians(unit)
    spectra = np.linalg.eigvals(_finite(J)).real.max(axis=1)
    size = np.linalg.norm(J, axis=(1, 2))

    # An exact equilibrium, by |J^-1|.
    smallest = np.linalg.svd(_finite(J), compute_uv=False)[:, -1]
    beta = np.sqrt(J.shape[-1]) / (
        smallest - 2 * (drift_error + attention_error) - GUARD * dim * EPS * size
    )
    radius = _radius(beta, asymmetry, bound + attention_error, drift_error)
    exists = np.where(radius <= ROUGHEST / 10, YES, UNCLEAR)

    # The attention form.
    alpha = -np.linalg.eigvalsh(_finite(white.forms()))[:, -1]
    rounding = attention_error + GUARD * size_of(dim) * EPS * bound
    strength = 2 * (alpha - rounding) - 10 * asymmetry - 2 * drift_error
    near = _radius(1 / strength, asymmetry, bound + attention_error, drift_error)
    change = (bound + attention_error) * near / (1 - near)
    holds = (strength > 0) & (near <= ROUGHEST / 10) & (alpha - rounding - change > 0)
    form = np.where(holds, YES, np.where(alpha < -rounding, NO, UNCLEAR))

    # The linearisation.
    P = np.full_like(J, np.nan)
    some = np.flatnonzero((form != YES) & (spectra < 0))
    P[some] = lyapunov_solutions(J[some])
    widths = np.linalg.eigvalsh(_finite(P))
    largest = np.abs(widths).max(axis=1)
    definite = np.isfinite(P).all(axis=(1, 2))
    definite &= widths[:, 0] > GUARD * size_of(dim) * EPS * largest
    slack = 8 * (bound + attention_error) * radius + 4 * (drift_error + attention_error)
    slack = slack + GUARD * size_of(dim) * EPS * size * values[:, -1] / values[:, 0]
    steady = definite & (1 / largest > 10 * slack) & (1e-3 * size > GUARD * slack)
    steady &= (exists == YES) & (spectra < 0)
    local = np.where(steady, YES, np.where(spectra > NEUTRAL * size, NO, UNCLEAR))

    matrix = drift + total
    reach = np.where(form == YES, near, radius)
    change = (bound + attention_error) * reach + drift_error + total_error
    mean, mean_abscissa = hurwitz(matrix, change)
    return Points(exists, form, local, mean, alpha, spectra, mean_abscissa)


def hurwitz(matrices: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tell which matrices are Hurwitz with everything within a distance (N,), and the abscissae."""
    dim, size = matrices.shape[-1], np.linalg.norm(matrices, axis=(1, 2))
    abscissa = np.linalg.eigvals(_finite(matrices)).real.max(axis=1)
    P = lyapunov_solutions(matrices)
    widths = np.linalg.eigvalsh(_finite(P))
    largest = np.abs(widths).max(axis=1)
    definite = np.isfinite(P).all(axis=(1, 2))
    definite &= widths[:, 0] > GUARD * dim * EPS * largest
    decay = 1 / largest
    holds = definite & (decay > 2.01 * change + GUARD * dim * EPS * size) & (abscissa < 0)
    return np.where(holds, YES, np.where(abscissa > NEUTRAL * size, NO, UNCLEAR)), abscissa


def lyapunov_solutions(X: np.ndarray, Q: np.ndarray | None = None) -> np.ndarray:
    """Return the symmetric P of X^T P + P X = -Q, Q = I by default; NaN where there is none."""
    size = X.shape[-1]
    unit = np.broadcast_to(np.eye(size), X.shape)
    # E -> X^T E + E X = X^T E I + transpose, on svec.
    operators = to_svec(symmetric_operators(transposed(X)[:, None], unit[:, None]))
    return smat_stack(solve_each(operators, -svec_stack(unit if Q is None else Q)))


def size_of(dim: int) -> int:
    """Return d(d+1)/2."""
    return dim * (dim + 1) // 2


def _radius(
    beta: np.ndarray, asymmetry: np.ndarray, bound: np.ndarray, drift_error: np.ndarray
) -> np.ndarray:
    """Return the Newton-Kantorovich radius (Theory 3.4), infinite where that fails."""
    eta = beta * (asymmetry + 2 * drift_error)
    product = 4 * bound * beta * eta
    good = (beta > 0) & (product <= 0.25)
    root = np.sqrt(np.where(good, 1 - 2 * product, 1.0))
    return np.where(good, 2 * eta / (1 + root), np.inf)


def _errors(
    models: Stack, white: Stack, R: np.ndarray, root: np.ndarray, attention: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the bounds of `WhitenedPoint`: |T|, and the errors of T, of M(I) and of Vbar."""
    dim = white.dim
    unit = (white.n_heads + 3) * dim * EPS
    size_R, size_root = np.abs(R), np.abs(root)
    defect = _norm(R @ root - np.eye(dim)) + unit * _norm(size_R @ size_root)
    defect = np.where(defect < 0.5, defect / (1 - defect), np.inf)[:, None]
    sizes = Stack(*(np.abs(array) for array in models)).transform(size_R, size_root)
    norm_V, norm_B = _norm(white.V), _norm(white.B)
    error_V = unit * _norm(sizes.V) + defect * norm_V
    error_B = unit * _norm(sizes.B) + 3 * defect * norm_B
    products = norm_V * norm_B
    attention_error = error_V * norm_B + norm_V * error_B + error_V * error_B + unit * products
    attention_error = attention_error.sum(axis=1)
    drift_error = unit * _norm(sizes.A) + defect[:, 0] * _norm(white.A)
    drift_error = drift_error + np.sqrt(dim) * attention_error
    drift_error = drift_error + EPS * (_norm(white.A) + _norm(attention))
    # Frobenius norms: larger than the spectral ones that the single path takes.
    return products.sum(axis=1), attention_error, drift_error, error_V.sum(axis=1)


def _norm(X: np.ndarray) -> np.ndarray:
    return np.linalg.norm(X, axis=(-2, -1))


def _finite(X: np.ndarray) -> np.ndarray:
    # Decompositions refuse NaN; the verdicts of such models come out as unclear.
    fine = np.isfinite(X).all(axis=(1, 2))
    return X if fine.all() else np.where(fine[:, None, None], X, 0.0)
