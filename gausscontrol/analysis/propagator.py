"""The covariance linearisation and its propagator, never formed (Theory 2.1, 4.5).

    L(E) = M E + E M^T + T(E) S + S T(E)^T,        Phi(t) = e^(tL)

    P = int_0^t Phi(s)^T Phi(s) ds > 0   has   L^T P + P L = Phi(t)^T Phi(t) - I

so |Phi(t)| < 1 for one t > 0 proves that L is Hurwitz, and |L^-1| <= 2 |P| / (1 - |Phi(t)|^2).
Phi(t) E is summed as a Taylor series in short steps, each ended when what is left is bounded below
the tolerance; P E is a sweep forth and back, by the trapezoidal rule; |Phi(t)|^2 and |P| are
largest eigenvalues, by Lanczos. One product with L costs O(h d^3) or, with factored heads, as
much as one head; memory is a few dozen matrices d x d, for P E one for every step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from gausscontrol.analysis.krylov import on_svec
from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.symmetric import smat, svec
from gausscontrol.model.heads import FactoredHeads, Heads
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Linearisation", "gramian_norm", "growth_rate", "propagator_norm"]

# Length of a Taylor step in units of 1/|L|, |L| estimated, and what it may leave out, relative:
# usually, where a norm is sought to a few per cent, and where a rate is estimated.
STEP = 6.0
TRUNCATION, NORM_TRUNCATION, RATE_TRUNCATION = 1e-11, 1e-6, 1e-4
LONGEST_SERIES = 200
# Steps of the trapezoidal rule in one of the series.
FINER = 4
# Power steps that estimate |L|.
SIZE_STEPS = 12
# Lanczos: size of the subspace and attempts; for |Phi|^2 and, since it is needed roughly, for |P|
# the relative tolerance and the agreement of two starts.
LANCZOS_SIZE, ATTEMPTS = 12, 4
NORM_TOLERANCE, NORM_AGREEMENT = 1e-3, 1e-2
ROUGH_TOLERANCE, ROUGH_AGREEMENT = 2e-2, 0.1
# Taylor steps over which a growth rate is watched.
GROWTH_STEPS = 12

Product = Callable[[np.ndarray], np.ndarray]


class Linearisation:
    """The covariance linearisation at S and its adjoint, acting on symmetric d x d matrices.

    Parameters
    ----------
    model : GaussianTransformer
        For dt > 0 the linearisation is that of the map Sigma -> D Sigma D^T.
    covariance : (d, d) ndarray, optional
        S, the identity by default.
    """

    def __init__(self, model: GaussianTransformer, covariance: np.ndarray | None = None) -> None:
        self.dim, self.dt = model.dim, model.dt
        self._heads, self._adjoint = model.heads, model.heads.adjoint()
        self._S = covariance
        S = np.eye(self.dim) if covariance is None else covariance
        self._M = model.A + model.heads.attention(S)
        self._D = np.eye(self.dim) + self.dt * self._M if self.dt else None

    def apply(self, E: np.ndarray) -> np.ndarray:
        """Return L(E), or the derivative D E D^T + dt (T(E) S D^T + transpose) of the map."""
        image = self._heads.attention(E)
        if self._S is not None:
            image = image @ self._S
        if self._D is not None:
            change = self.dt * image @ self._D.T
            return self._D @ E @ self._D.T + change + change.T
        image += self._M @ E
        return image + image.T

    def adjoint(self, E: np.ndarray) -> np.ndarray:
        """Return the adjoint in the Frobenius product of symmetric matrices."""
        right = E if self._D is None else self.dt * E @ self._D
        image = self._adjoint.attention(right if self._S is None else right @ self._S)
        if self._D is not None:
            return self._D.T @ E @ self._D + image + image.T
        image += self._M.T @ E
        return image + image.T

    @cached_property
    def bound(self) -> float:
        """A proven bound of |L| (of its continuous form, dt = 0)."""
        size = 1.0 if self._S is None else float(np.linalg.norm(self._S, 2))
        return 2 * (float(np.linalg.norm(self._M, 2)) + _attention_bound(self._heads) * size)

    @cached_property
    def size(self) -> float:
        """An estimate of |L| from below, by power steps on L^T L."""
        E = np.random.default_rng(0).normal(size=(self.dim, self.dim))
        E, size = E + E.T, 0.0
        for _ in range(SIZE_STEPS):
            E = self.apply(E / np.linalg.norm(E))
            size = max(size, float(np.linalg.norm(E)))
            E = self.adjoint(E)
            if not E.any():
                break
        return size

    def propagate(
        self,
        E: np.ndarray,
        depth: float,
        *,
        adjoint: bool = False,
        truncation: float = TRUNCATION,
    ) -> np.ndarray:
        """Return e^(depth L) E, or with the adjoint.

        Parameters
        ----------
        E : (d, d) ndarray
            Symmetric.
        depth : float
            t >= 0. [t]
        adjoint : bool, optional
        truncation : float, optional
            Relative error of each step of the series, before growth.

        Returns
        -------
        (d, d) ndarray

        Raises
        ------
        GausscontrolError
            If a series does not end, as |L| is bounded too roughly.
        """
        product = self.adjoint if adjoint else self.apply
        steps = self.steps(depth)
        for _ in range(steps):
            E = self._step(product, E, depth / steps, truncation)
        return E

    def gramian(self, E: np.ndarray, depth: float) -> np.ndarray:
        """Return P E, P = int_0^t Phi(s)^T Phi(s) ds, by the trapezoidal rule on the steps.

        Parameters
        ----------
        E : (d, d) ndarray
            Symmetric.
        depth : float
            t. [t]

        Returns
        -------
        (d, d) ndarray
            [t]

        Raises
        ------
        GausscontrolError
            As in `propagate`.
        """
        steps = FINER * self.steps(depth)
        step = depth / steps
        states = [svec(E)]
        for _ in range(steps):
            E = self._step(self.apply, E, step, NORM_TRUNCATION)
            states.append(svec(E))
        total = smat(states.pop()) / 2
        for _ in range(steps):
            total = self._step(self.adjoint, total, step, NORM_TRUNCATION)
            total += smat(states.pop()) * (1.0 if states else 0.5)
        return step * total

    def steps(self, depth: float) -> int:
        """Return the number of Taylor steps that a depth takes."""
        return max(1, int(np.ceil(depth * self.size / STEP)))

    def _step(self, product: Product, E: np.ndarray, depth: float, truncation: float) -> np.ndarray:
        total, term = E.copy(), E
        start = float(np.linalg.norm(E))
        for order in range(1, LONGEST_SERIES):
            term = product(term) * (depth / order)
            total += term
            # The terms that follow shrink at least by this ratio each.
            ratio = depth * self.bound / (order + 1)
            if ratio < 1 and np.linalg.norm(term) * ratio / (1 - ratio) <= truncation * start:
                return total
        raise GausscontrolError(
            f"model: the exponential of the linearisation takes more than {LONGEST_SERIES} terms, "
            f"as its norm is known only to be at most {self.bound:.3g}"
        )


def propagator_norm(linear: Linearisation, depth: float) -> float:
    """Return |e^(depth L)|, the largest singular value, from Lanczos with two starts.

    Parameters
    ----------
    linear : Linearisation
        Of a model with dt = 0.
    depth : float
        [t]

    Returns
    -------
    float
        A value that two starts agree on to 1e-2 relative; the larger one.

    Raises
    ------
    GausscontrolError
        If no two starts agree, or an exponential does not converge.
    """

    def gram(E: np.ndarray) -> np.ndarray:
        E = linear.propagate(E, depth, truncation=NORM_TRUNCATION)
        return linear.propagate(E, depth, adjoint=True, truncation=NORM_TRUNCATION)

    return float(np.sqrt(_largest_eigenvalue(gram, linear.dim, NORM_TOLERANCE, NORM_AGREEMENT)))


def gramian_norm(linear: Linearisation, depth: float) -> float:
    """Return |P| for P = int_0^t Phi(s)^T Phi(s) ds, from Lanczos with two starts.

    Parameters
    ----------
    linear : Linearisation
        Of a model with dt = 0.
    depth : float
        t. [t]

    Returns
    -------
    float
        To the accuracy of the trapezoidal rule; two starts agree on it to a tenth. [t]

    Raises
    ------
    GausscontrolError
        As in `propagator_norm`.
    """
    return _largest_eigenvalue(
        lambda E: linear.gramian(E, depth), linear.dim, ROUGH_TOLERANCE, ROUGH_AGREEMENT
    )


def growth_rate(linear: Linearisation) -> float:
    """Return the rate at which a propagated matrix grows in the end, an estimate of the abscissa.

    Parameters
    ----------
    linear : Linearisation
        Of a model with dt = 0.

    Returns
    -------
    float
        The larger of two starts over the second half of a depth of 72/|L|; off by a few units of
        its inverse where many eigenvalues are close to the rightmost. [1/t]
    """
    if not linear.size:
        return 0.0
    depth = GROWTH_STEPS * STEP / linear.size / 2
    rates = []
    for seed in range(2):
        E = np.random.default_rng(seed).normal(size=(linear.dim, linear.dim))
        E = linear.propagate(E + E.T, depth, truncation=RATE_TRUNCATION)
        E = linear.propagate(E / np.linalg.norm(E), depth, truncation=RATE_TRUNCATION)
        rates.append(float(np.log(np.linalg.norm(E))) / depth)
    return max(rates)


def _attention_bound(heads: Heads) -> float:
    """Return a bound of |T(E)|_F / |E|_F, the sharper of two for factored heads.

    T(E) = O Y with O = [c_1 O_1, ...] side by side, Y the blocks U_h E K_h^T Q_h / c_h on top of
    each other, and with c_h = |K_h| |Q_h| the norm of Y is at most that of the blocks U_h E.
    """
    bound = heads.norm_bound()
    if not isinstance(heads, FactoredHeads):
        return bound
    O, U, K, Q = heads.arrays
    weights = np.linalg.norm(K, 2, axis=(1, 2)) * np.linalg.norm(Q, 2, axis=(1, 2))
    outputs = (weights[:, None, None] * O).transpose(1, 0, 2).reshape(heads.dim, -1)
    values = U.reshape(-1, heads.dim)
    return min(bound, float(np.linalg.norm(outputs, 2) * np.linalg.norm(values, 2)))


def _largest_eigenvalue(apply: Product, dim: int, tolerance: float, agreement: float) -> float:
    operator = on_svec(apply, dim)
    n = operator.shape[0]
    found: list[float] = []
    for attempt in range(ATTEMPTS):
        value = _largest(operator, np.random.default_rng(attempt).normal(size=n), tolerance)
        if value is None:
            continue
        found.append(value)
        if sum(abs(value - other) <= agreement * value for other in found) >= 2:
            return max(found)
    raise GausscontrolError(
        f"model: Lanczos found no reliable norm of a propagator of size {n} in {ATTEMPTS} attempts"
    )


def _largest(operator: LinearOperator, start: np.ndarray, tolerance: float) -> float | None:
    size = min(LANCZOS_SIZE, operator.shape[0])
    if size < 3:
        return float(np.linalg.norm(operator @ np.eye(operator.shape[0]), 2))
    try:
        values, vectors = eigsh(operator, k=1, which="LA", ncv=size, v0=start, tol=tolerance)
    except ArpackNoConvergence:
        return None
    residual = np.linalg.norm(operator @ vectors[:, 0] - values[0] * vectors[:, 0])
    return float(values[0]) if residual <= 2 * tolerance * values[0] else None
