"""One positive definite equilibrium of each of many models (Theory 3).

    F_i(Sigma_i) = 0,   (M_i + Vbar_i) mu_i = -b_i,   i = 1, ..., N

by the starts, flows and Newton steps of `find_equilibrium`, until the first root. Where the order
of the search matters, a closed form exists or nothing is found, the model is handed to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.equilibrium import NEUTRAL, SINGULAR_MEAN
from gausscontrol.analysis.finding import find_equilibrium
from gausscontrol.errors import EquilibriumNotFound
from gausscontrol.sweeps.batch import Stack, blocks, read_stack, transposed
from gausscontrol.sweeps.polish import Roots, polish, whitening_stack
from gausscontrol.sweeps.search import candidates, default_starts, obstructed
from gausscontrol.sweeps.structure import is_structured

__all__ = ["BatchEquilibria", "find_equilibria_batch"]

# Beyond this dimension every model is searched by itself: its own arrays are large enough.
LARGEST_DIM = 16


@dataclass(frozen=True, eq=False)
class BatchEquilibria:
    """Equilibria of many models, one of each where one was found.

    Numbers of models without one are NaN, their flags False and their method "".

    Attributes
    ----------
    found : (N,) ndarray of bool
    covariance : (N, d, d) ndarray
        [x]^2
    mean : (N, d) ndarray
        NaN also where M + Vbar is singular. [x]
    residual : (N,) ndarray
        |F(Sigma*)| over the size of its terms, in whitened coordinates.
    covariance_abscissa, mean_abscissa : (N,) ndarray
        Largest real parts of the eigenvalues of the covariance linearisation and of M + Vbar. [1/t]
    attention_form_margin : (N,) ndarray
        alpha of Theory 4.2, as computed; positive means that the covariance is globally stable.
        [1/t]
    covariance_is_stable, mean_is_stable : (N,) ndarray of bool
    method : (N,) ndarray of str
        As in `Equilibrium`.
    single : (N,) ndarray of bool
        Models that were handed to `find_equilibrium` one by one.
    """

    found: np.ndarray
    covariance: np.ndarray
    mean: np.ndarray
    residual: np.ndarray
    covariance_abscissa: np.ndarray
    mean_abscissa: np.ndarray
    attention_form_margin: np.ndarray
    covariance_is_stable: np.ndarray
    mean_is_stable: np.ndarray
    method: np.ndarray
    single: np.ndarray

    @property
    def is_stable(self) -> np.ndarray:
        """Where both mean and covariance are locally exponentially stable, (N,) of bool."""
        return self.covariance_is_stable & self.mean_is_stable

    def __len__(self) -> int:
        return len(self.found)

    def __str__(self) -> str:
        found, count = self.found, len(self)
        head = f"{count} models, {int(found.sum())} with a positive definite equilibrium, "
        lines = [f"{head}{int(self.single.sum())} searched one by one"]
        if found.any():
            globally = self.attention_form_margin[found] > 0
            stable, mean = int(self.covariance_is_stable.sum()), int(self.mean_is_stable.sum())
            ranges = (_range(x[found]) for x in (self.covariance_abscissa, self.mean_abscissa))
            lines += [
                f"  covariance stable    {stable:8d}, abscissa {next(ranges)} per unit depth",
                f"  mean stable          {mean:8d}, abscissa {next(ranges)} per unit depth",
                f"  form negative        {int(globally.sum()):8d}",
                f"  residual             up to {self.residual[found].max():.1e} relative",
            ]
        return "\n".join(lines)


def find_equilibria_batch(
    A: ArrayLike, B: ArrayLike, V: ArrayLike, b: ArrayLike | None = None
) -> BatchEquilibria:
    """Find one positive definite equilibrium of each of many models.

    Parameters
    ----------
    A : (N, d, d) array_like
        Feed-forward matrices. [1/t]
    B, V : (N, d, d) or (N, h, d, d) array_like
        Key-query matrices [1/x^2] and value matrices [1/t].
    b : (N, d) array_like, optional
        Biases, zero by default. [x/t]

    Returns
    -------
    BatchEquilibria
        The equilibrium of every model is the one that `find_equilibrium` returns.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ParameterError
        If an entry is not a finite real number.

    Notes
    -----
    Theory 3.1 to 3.3, 3.6, continuous depth.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> a, v = np.array([0.5, -1.0]), np.array([-0.25, -1.0])
    >>> found = gct.find_equilibria_batch(a[:, None, None], np.ones((2, 1, 1)), v[:, None, None])
    >>> print(found.found, np.round(found.covariance[0], 6))
    [ True False] [[2.]]
    """
    models = read_stack(A, B, V, b)
    size = 30.0 * models.dim**4
    parts = [_searched(models.take(index)) for index in blocks(models.count, size)]
    names = [field.name for field in fields(BatchEquilibria)]
    return BatchEquilibria(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )


def _searched(models: Stack) -> BatchEquilibria:
    count = models.count
    S, residual = np.full_like(models.A, np.nan), np.full(count, np.nan)
    method, single = np.full(count, "", dtype="<U8"), is_structured(models)
    never, near = obstructed(models)
    single |= near | (models.dim > LARGEST_DIM)
    if models.dim == 1:
        single, left, roots = _scalar_roots(models)
        S[left], residual[left], method[left] = roots.covariance, roots.residual, "lyapunov"
    else:
        left = np.flatnonzero(~single & ~never)
        first = _first_roots(models.take(left))
        S[left], residual[left], method[left] = first
    for i in np.flatnonzero(single):
        try:
            point = find_equilibrium(models.model(i))
        except EquilibriumNotFound:
            continue
        S[i], residual[i], method[i] = point.covariance, point.residual, point.method
    return _described(models, S, residual, method, single)


def _first_roots(models: Stack) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first root of every model in the order of the search, residual and method."""
    S, residual = np.full_like(models.A, np.nan), np.full(models.count, np.nan)
    method = np.full(models.count, "", dtype="<U8")

    def see(index: np.ndarray, roots: Roots, how: str) -> None:
        # Of several roots of one model the first comes last, and stays.
        hit = np.flatnonzero(roots.found)[::-1]
        at = index[hit]
        S[at], residual[at], method[at] = roots.covariance[hit], roots.residual[hit], how

    for wanted in candidates(models, default_starts(models), see):
        wanted[method != ""] = False
    return S, residual, method


def _scalar_roots(models: Stack) -> tuple[np.ndarray, np.ndarray, Roots]:
    """Return where d = 1 needs the single path, where there is s = -a / g > 0, and that."""
    A = models.A[:, 0, 0]
    terms = (models.V * models.B)[..., 0, 0]
    gain, size = terms.sum(axis=1), np.abs(terms).sum(axis=1)
    clear = (np.abs(gain) > 1e-9 * size) & (A != 0)
    left = np.flatnonzero(clear & (A * gain < 0))
    roots = polish(models.take(left), (-A[left] / gain[left])[:, None, None])
    single = ~clear
    single[left[~roots.found]] = True
    return single, left[roots.found], Roots(*(x[roots.found] for x in roots))


def _described(
    models: Stack, S: np.ndarray, residual: np.ndarray, method: np.ndarray, single: np.ndarray
) -> BatchEquilibria:
    found = np.isfinite(S).all(axis=(1, 2))
    at = np.flatnonzero(found)
    R, root, _ = whitening_stack(S[at])
    white = models.take(at).transform(R, root)
    unit = np.broadcast_to(np.eye(models.dim), white.A.shape)
    drift, total = white.A + white.attention(unit), white.V.sum(axis=1)
    abscissa, mean_abscissa, alpha = (np.full(models.count, np.nan) for _ in range(3))
    mean = np.full((models.count, models.dim), np.nan)
    if at.size:
        abscissa[at] = np.linalg.eigvals(white.jacobians(unit)).real.max(axis=1)
        mean_abscissa[at] = np.linalg.eigvals(drift + total).real.max(axis=1)
        alpha[at] = -np.linalg.eigvalsh(white.forms())[:, -1]
        mean[at] = (root @ _means(white, drift, total)[..., None])[..., 0]
    norms = np.linalg.norm(white.V, 2, axis=(2, 3)) * np.linalg.norm(white.B, 2, axis=(2, 3))
    size = np.full(models.count, np.nan)
    size[at] = np.linalg.norm(white.A, axis=(1, 2)) + norms.sum(axis=1)
    mean_size = np.array(size)
    mean_size[at] += np.linalg.norm(total, axis=(1, 2))
    return BatchEquilibria(
        found=found,
        covariance=S,
        mean=mean,
        residual=residual,
        covariance_abscissa=abscissa,
        mean_abscissa=mean_abscissa,
        attention_form_margin=alpha,
        covariance_is_stable=abscissa < -NEUTRAL * size,
        mean_is_stable=mean_abscissa < -NEUTRAL * mean_size,
        method=method,
        single=single,
    )


def _means(white: Stack, drift: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Solve (M + Vbar) mu = -b; NaN where M + Vbar is singular and there is no solution."""
    U, values, Wt = np.linalg.svd(drift + total)
    sizes = [np.linalg.norm(X, 2, axis=(1, 2)) for X in (white.A, drift, total)]
    large = values > SINGULAR_MEAN * white.dim * np.max(sizes, axis=0)[:, None]
    weights = (transposed(U) @ -white.b[..., None])[..., 0]
    missed = np.linalg.norm(np.where(large, 0.0, weights), axis=1)
    missed = missed > 1e-10 * np.linalg.norm(white.b, axis=1)
    mean = transposed(Wt) @ np.where(large, weights / np.where(large, values, 1.0), 0.0)[..., None]
    return np.where(missed[:, None], np.nan, mean[..., 0])


def _range(values: np.ndarray) -> str:
    return f"{values.min():.4g} to {values.max():.4g}"
