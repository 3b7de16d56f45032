"""The moment system as a vector field, with all its exact derivatives (Theory 1 and 2).

    mu'    = (M + Vbar) mu + sum_h V_h Sigma k_h + b,     Sigma' = M Sigma + Sigma M^T   (1)
    L'     = M L,  Sigma = L L^T                                                        (2)
    mu+    = mu + dt mu',   Sigma+ = D Sigma D^T,   L+ = D L,   D = I + dt M            (1.4)

with M = A + T(Sigma). States are packed as x = (mu, vech Sigma) or x = (mu, rows of L). Nothing is
validated here and nothing is differenced: derivatives are the closed forms of Theory 2, and
complex states pass through, so that tests can use the complex step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gausscontrol.linalg.operators import symmetric_operator
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.model.heads import DenseHeads, Heads
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["MomentField"]


class MomentField:
    """Right side and Jacobians of the moment system for fixed parameters.

    Parameters
    ----------
    A : (d, d) ndarray
    heads : Heads
    b : (d,) ndarray
    k : (h, d) ndarray
    dt : float
        0 for a vector field, positive for the map of one layer.
    """

    def __init__(
        self, A: np.ndarray, heads: Heads, b: np.ndarray, k: np.ndarray, dt: float = 0
    ) -> None:
        self.A, self.heads, self.b, self.k, self.dt = A, heads, b, k, dt
        self.dim = A.shape[0]
        self._tilted = bool(k.any())
        index = vech_index(self.dim)
        self._low = index.low
        self._full = index.full.reshape(self.dim, self.dim)
        self._packing = _packing(self.dim)

    @classmethod
    def of(cls, model: GaussianTransformer) -> MomentField:
        """Return the field of a model."""
        return cls(model.A, model.heads, model.b, model.k, model.dt)

    def offset(self, **inputs: np.ndarray) -> MomentField:
        """Return the field with offsets added to some of b, A, V, B, k."""
        heads = self.heads
        if "V" in inputs or "B" in inputs:
            heads = DenseHeads(heads.V + inputs.get("V", 0), heads.B + inputs.get("B", 0))
        return MomentField(
            self.A + inputs.get("A", 0),
            heads,
            self.b + inputs.get("b", 0),
            self.k + inputs.get("k", 0),
            self.dt,
        )

    # -- the field ------------------------------------------------------------------------------

    def drift(self, S: np.ndarray) -> np.ndarray:
        """Return M(S) = A + T(S)."""
        return self.A + self.heads.attention(S)

    def covariance_rate(self, S: np.ndarray) -> np.ndarray:
        """Return F(S) = M S + S M^T, whatever dt is."""
        product = self.drift(S) @ S
        return product + product.T

    def mean_rate(self, mean: np.ndarray, S: np.ndarray, M: np.ndarray) -> np.ndarray:
        """Return mu', given M = M(S)."""
        rate = (M + self.heads.total) @ mean + self.b
        return rate + self.heads.tilt(S, self.k) if self._tilted else rate

    def covariance_form(self, x: np.ndarray) -> np.ndarray:
        """Return x' (or x+) for x = (mu, vech Sigma)."""
        if self.dt:
            return self._layer(x)
        # One product M [Sigma, mu] serves both moments: every call saved counts when d is small.
        dim, index = self.dim, self._packing
        both = x.take(index.both)
        S = both[:, :dim]
        product = self.drift(S) @ both
        out = product.take(index.low)
        out[dim:] += product.take(index.high)
        rate = self.heads.total @ x[:dim] + self.b
        out[:dim] += rate + self.heads.tilt(S, self.k) if self._tilted else rate
        return out

    def mean_jacobian(self, S: np.ndarray) -> np.ndarray:
        """Return d mu'/d mu = M(S) + Vbar, or I + dt of it for the map, (d, d)."""
        return self._mean_matrix(self.drift(S))

    def _layer(self, x: np.ndarray) -> np.ndarray:
        dim, dt = self.dim, self.dt
        mean, S = x[:dim], x[dim:].take(self._full)
        M = self.drift(S)
        D = np.eye(dim) + dt * M
        mean = mean + dt * self.mean_rate(mean, S, M)
        return np.concatenate([mean, (D @ S @ D.T).take(self._low)])

    def polynomial(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return `covariance_form` at continuous depth as x -> c + (J + K x / 2) x.

        The field is exactly quadratic (Theory 2.1), so its Jacobian J + K x is affine. For a few
        states this takes a third of the time; the cost of K x grows with their third power.
        """
        size = self.dim + self._low.size
        origin = np.zeros(size)
        c, J = self.covariance_form(origin), self.jacobian(origin)
        # Differences are taken where both parts are of one size, or units would cost digits.
        linear = np.linalg.norm(self.A) + np.linalg.norm(self.heads.total)
        span = linear / (self.heads.norm_bound() or 1.0) or 1.0
        K = np.stack([self.jacobian(span * unit) - J for unit in np.eye(size)], axis=-1)
        K /= 2 * span
        flat, first = K.reshape(-1, size), J.reshape(-1)

        def evaluate(x: np.ndarray) -> np.ndarray:
            return (flat @ x + first).reshape(size, size) @ x + c

        return evaluate

    def factor_form(self, x: np.ndarray) -> np.ndarray:
        """Return x' (or x+) for x = (mu, rows of L)."""
        dim, dt = self.dim, self.dt
        mean, L = x[:dim], x[dim:].reshape(dim, -1)
        S = L @ L.T
        M = self.A + self.heads.attention(S)
        rate = np.concatenate([self.mean_rate(mean, S, M), (M @ L).reshape(-1)])
        return x + dt * rate if dt else rate

    # -- exact derivatives in the state ---------------------------------------------------------

    def covariance_jacobian(self, S: np.ndarray) -> np.ndarray:
        """Return d vech(Sigma') / d vech(Sigma), or that of vech(Sigma+), at S (Theory 2.1)."""
        return self._covariance_jacobian(S, self.drift(S))

    def _covariance_jacobian(self, S: np.ndarray, M: np.ndarray) -> np.ndarray:
        V, products = self.heads.V, self.heads.products(S)
        if self.dt:
            D = np.eye(self.dim) + self.dt * M
            return symmetric_operator(
                np.concatenate([V, D[None] / 2]),
                np.concatenate([self.dt * (products @ D.T), D.T[None]]),
            )
        left, right = np.empty((2, len(V) + 1, *M.shape), dtype=M.dtype)
        left[:-1], left[-1] = V, M
        right[:-1], right[-1] = products, np.eye(self.dim)
        return symmetric_operator(left, right)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return the Jacobian of `covariance_form`; block upper triangular (Theory 2.3)."""
        dim = self.dim
        mean, S = x[:dim], x[dim:].take(self._full)
        M = self.drift(S)
        block = self._covariance_jacobian(S, M)
        out = np.zeros((x.size, x.size), dtype=block.dtype)
        out[:dim, :dim] = self._mean_matrix(M)
        out[:dim, dim:] = self._mean_by_covariance(mean)
        out[dim:, dim:] = block
        return out

    def factor_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return the Jacobian of `factor_form`: dL' = M dL + T(dL L^T + L dL^T) L."""
        dim = self.dim
        mean, L = x[:dim], x[dim:].reshape(dim, -1)
        rank = L.shape[1]
        M = self.drift(L @ L.T)
        gain = self.dt or 1.0
        block = np.kron(M, np.eye(rank))
        for V, BL in zip(self.heads.V, self.heads.products(L), strict=True):
            block = block + np.kron(V, (L.T @ BL).T)
            # V L dL^T (B L): entry (i, a) over (p, q) is (V L)[i, q] (B L)[p, a].
            block = block + np.einsum("iq,pa->iapq", V @ L, BL).reshape(block.shape)
        by_factor = self._mean_by_factor(mean, L)
        out = np.zeros((x.size, x.size), dtype=block.dtype)
        out[:dim, :dim] = self._mean_matrix(M)
        out[:dim, dim:] = by_factor
        out[dim:, dim:] = gain * block
        if self.dt:
            out[dim:, dim:] += np.eye(dim * rank)
        return out

    def _mean_matrix(self, M: np.ndarray) -> np.ndarray:
        matrix = M + self.heads.total
        return np.eye(self.dim) + self.dt * matrix if self.dt else matrix

    def _tilts(self, mean: np.ndarray) -> np.ndarray:
        # w_h = B_h mu + k_h, so that d mu' = sum_h V_h E w_h in the covariance direction E.
        return self.heads.B @ mean + self.k

    def _mean_by_covariance(self, mean: np.ndarray) -> np.ndarray:
        dim = self.dim
        index = vech_index(dim)
        heads, tilts = self.heads, self._tilts(mean)
        # tensor[i, k, l] = sum_h V_h[i, k] w_h[l]
        tensor = (heads.V.reshape(heads.n_heads, -1).T @ tilts).reshape(dim, dim * dim)
        block = (tensor.take(index.low, axis=1) + tensor.take(index.high, axis=1)) * index.half
        return (self.dt or 1.0) * block

    def _mean_by_factor(self, mean: np.ndarray, L: np.ndarray) -> np.ndarray:
        tilts = self._tilts(mean)
        block = np.einsum("hip,hq->ipq", self.heads.V, tilts @ L)
        block = block + np.einsum("hiq,hp->ipq", self.heads.V @ L, tilts)
        return (self.dt or 1.0) * block.reshape(self.dim, -1)

    # -- exact derivatives in the parameters (Theory 2.2) -----------------------------------------

    def input_jacobian(self, x: np.ndarray, inputs: tuple[str, ...]) -> np.ndarray:
        """Return the derivative of `covariance_form` in the parameters named by `inputs`."""
        dim = self.dim
        mean, S = x[:dim], x[dim:].take(self._full)
        right = S @ (np.eye(dim) + self.dt * self.drift(S)).T if self.dt else S
        low = self._low

        def spread(P: np.ndarray, R: np.ndarray) -> np.ndarray:
            # X -> P X (R S D^T) + transpose, on the rows of X.
            product = np.einsum("ip,qj->ijpq", P, R @ right)
            both = product + product.transpose(1, 0, 2, 3)
            return both.reshape(dim * dim, dim * dim)[low]

        return self._input_blocks(mean, S, inputs, spread, low.size)

    def factor_input_jacobian(self, x: np.ndarray, inputs: tuple[str, ...]) -> np.ndarray:
        """Return the derivative of `factor_form` in the parameters named by `inputs`."""
        dim = self.dim
        mean, L = x[:dim], x[dim:].reshape(dim, -1)

        def spread(P: np.ndarray, R: np.ndarray) -> np.ndarray:
            return np.einsum("ip,qa->iapq", P, R @ L).reshape(L.size, dim * dim)

        return self._input_blocks(mean, L @ L.T, inputs, spread, L.size)

    def _input_blocks(self, mean, S, inputs, spread, rows) -> np.ndarray:
        dim = self.dim
        columns = [
            column for name in inputs for column in self._input_columns(name, mean, S, spread, rows)
        ]
        if not columns:
            return np.zeros((dim + rows, 0))
        block = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
        return self.dt * block if self.dt else block

    def _input_columns(self, name, mean, S, spread, rows) -> Iterator[np.ndarray]:
        dim = self.dim
        if name == "b":
            yield np.eye(dim + rows, dim)
        elif name == "k":
            for V in self.heads.V:
                yield np.concatenate([V @ S, np.zeros((rows, dim))])
        else:
            for P, R, direction in self._parameter_factors(name, mean, S):
                yield np.concatenate([np.kron(P, direction), spread(P, R)])

    def _parameter_factors(self, name, mean, S) -> Iterator[tuple]:
        # A change X of the parameter changes M by P X R and mu' by P X w.
        identity = np.eye(self.dim)
        if name == "A":
            yield identity, identity, mean
            return
        for V, B, k in zip(self.heads.V, self.heads.B, self.k, strict=True):
            if name == "V":
                yield identity, S @ B, mean + S @ (B @ mean + k)
            else:
                yield V @ S, identity, mean


class _Packing(NamedTuple):
    # Between a packed state and the d x (d + 1) matrix [Sigma, mu]: `both` takes the one to the
    # other, `low` takes mu and the lower triangle back, `high` the triangle mirrored.
    both: np.ndarray
    low: np.ndarray
    high: np.ndarray


@lru_cache(maxsize=64)
def _packing(dim: int) -> _Packing:
    index, mean = vech_index(dim), np.arange(dim)
    both = np.column_stack([dim + index.full.reshape(dim, dim), mean])
    low = np.concatenate([mean * (dim + 1) + dim, index.rows * (dim + 1) + index.columns])
    packing = _Packing(both, low, index.columns * (dim + 1) + index.rows)
    for array in packing:
        array.flags.writeable = False
    return packing
