"""A trained Transformer layer as it is, on finitely many tokens.

    pre-norm     x <- x + lambda_1 attention(norm_1(x)),   x <- x + lambda_2 f(norm_2(x))
    post-norm    x <- norm_1(x + lambda_1 attention(x)),   x <- norm_2(x + lambda_2 f(x))

    attention(z)_i = sum_h W_O sum_j softmax_j(s (W_Q z_i + b_Q) . (W_K z_j + b_K)) (W_V z_j + b_V)

with rotary position embeddings and a causal mask where the model has them. This is the plain
computation that folded layers are compared with; logits are formed as they stand, N x N per head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.tokens.feedforward import FeedForward
from gausscontrol.tokens.statistics import read_tokens

__all__ = ["LayerWeights", "Norm", "Rotary"]


@dataclass(frozen=True, eq=False)
class Norm:
    """A layer norm, or a root-mean-square norm without centring.

    norm(x) = gain * (x - mean(x)) / sqrt(var(x) + epsilon) + bias over the coordinates of a token;
    an "rms" norm leaves the mean in.

    Parameters
    ----------
    kind : {"layer", "rms"}
    gain, bias : (d,) ndarray
    epsilon : float
        [x]^2
    """

    kind: str
    gain: np.ndarray
    bias: np.ndarray
    epsilon: float

    def __repr__(self) -> str:
        return f"<Norm: {self.kind}, d = {self.gain.size}, epsilon {self.epsilon:g}>"

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """Return the normalised tokens, (N, d)."""
        centred = self._centred(tokens)
        size = np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + self.epsilon)
        return self.gain * centred / size + self.bias

    def linear(self, tokens: np.ndarray, divisor: float) -> np.ndarray:
        """Return the norm with a fixed divisor, (N, d)."""
        return self.gain * self._centred(tokens) / divisor + self.bias

    def _centred(self, tokens: np.ndarray) -> np.ndarray:
        return tokens - tokens.mean(axis=1, keepdims=True) if self.kind == "layer" else tokens

    def fold(self, W: np.ndarray, divisor: float) -> np.ndarray:
        """Return W diag(gain) P / divisor, P the centring or I.

        Parameters
        ----------
        W : (..., d) ndarray
            A matrix that multiplies the normalised tokens.
        divisor : float
            The number that stands in for sqrt(var(x) + epsilon). [x]

        Returns
        -------
        (..., d) ndarray
        """
        folded = W * (self.gain / divisor)
        if self.kind == "layer":
            folded = folded - folded.mean(axis=-1, keepdims=True)
        return folded


class Rotary(NamedTuple):
    """Rotary position embedding: planes of each head turn by position times base^(-2i/dk).

    Parameters
    ----------
    base : float
    style : {"pairs", "halves"}
        Whether a plane holds adjacent coordinates, or those half a head apart.
    """

    base: float
    style: str

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the queries or keys (N, dk) of one head at positions 0 to N - 1."""
        count, width = x.shape
        angles = np.outer(np.arange(count), self.base ** (-2.0 * np.arange(width // 2) / width))
        cos, sin = np.cos(angles), np.sin(angles)
        out = np.empty_like(x)
        if self.style == "pairs":
            first, second = slice(0, None, 2), slice(1, None, 2)
        else:
            first, second = slice(0, width // 2), slice(width // 2, None)
        out[:, first] = x[:, first] * cos - x[:, second] * sin
        out[:, second] = x[:, first] * sin + x[:, second] * cos
        return out


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Weights of a trained layer, nothing folded.

    Calling it moves tokens (N, d) through the layer.

    Parameters
    ----------
    W_Q, W_K : (h, dk, d) ndarray
        Query and key projections, grouped keys repeated.
    W_V : (h, dv, d) ndarray
        Value projections.
    W_O : (h, d, dv) ndarray
        Output projections.
    query_bias, key_bias : (h, dk) ndarray
    value_bias : (h, dv) ndarray
    output_bias : (d,) ndarray
    feedforward : FeedForward
    norms : tuple of Norm
        That of attention and that of the feed-forward part.
    scales : tuple of (d,) ndarray
        LayerScale of both parts, ones where there is none.
    post_norm : bool
        Whether norms come after the sums.
    rotary : Rotary or None
    causal : bool
    groups : int
        Key heads before repetition.
    """

    W_Q: np.ndarray
    W_K: np.ndarray
    W_V: np.ndarray
    W_O: np.ndarray
    query_bias: np.ndarray
    key_bias: np.ndarray
    value_bias: np.ndarray
    output_bias: np.ndarray
    feedforward: FeedForward
    norms: tuple[Norm, Norm]
    scales: tuple[np.ndarray, np.ndarray]
    post_norm: bool
    rotary: Rotary | None
    causal: bool
    groups: int

    def __repr__(self) -> str:
        groups = "" if self.groups == self.n_heads else f" on {self.groups} key heads"
        return f"<LayerWeights: d = {self.dim}, {self.n_heads} heads{groups}>"

    @property
    def n_heads(self) -> int:
        """Number of heads h."""
        return self.W_Q.shape[0]

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.W_Q.shape[2]

    def __call__(
        self, tokens: ArrayLike, *, rotary: bool = True, causal: bool = True
    ) -> np.ndarray:
        """Move tokens through the layer as trained.

        Parameters
        ----------
        tokens : (N, d) array_like
            In the order of their positions. [x]
        rotary, causal : bool, optional
            False leaves out the rotary embedding or the mask of a model that has it.

        Returns
        -------
        (N, d) ndarray
            [x]

        Raises
        ------
        ShapeError, ParameterError
            If they are not at least two real tokens of dimension d.
        """
        x = read_tokens(tokens, self.dim)
        options = {"rotary": rotary, "causal": causal}
        first, second = self.norms
        if self.post_norm:
            x = first(x + self.scales[0] * self.attention(x, **options))
            return second(x + self.scales[1] * self.feedforward(x))
        x = x + self.scales[0] * self.attention(first(x), **options)
        return x + self.scales[1] * self.feedforward(second(x))

    def attention(
        self, z: np.ndarray, *, rotary: bool = True, causal: bool = True, head: int | None = None
    ) -> np.ndarray:
        """Return what the attention block makes of its input.

        Parameters
        ----------
        z : (N, d) ndarray
            Already normalised where the layer does so.
        rotary, causal : bool, optional
            False leaves out the rotary embedding or the mask of a model that has it.
        head : int, optional
            One head alone, without the output bias.

        Returns
        -------
        (N, d) ndarray

        Raises
        ------
        ShapeError, ParameterError
            If z is not (N, d), or there is no such head.
        """
        if z.ndim != 2 or z.shape[1] != self.dim:
            raise ShapeError(f"z: expected shape (N, {self.dim}), found {z.shape}")
        chosen = range(self.n_heads) if head is None else (_read_head(head, self.n_heads),)
        out = np.zeros_like(z) if head is not None else np.tile(self.output_bias, (len(z), 1))
        for h in chosen:
            queries = z @ self.W_Q[h].T + self.query_bias[h]
            keys = z @ self.W_K[h].T + self.key_bias[h]
            if self.rotary is not None and rotary:
                queries, keys = self.rotary(queries), self.rotary(keys)
            logits = queries @ keys.T / np.sqrt(keys.shape[1])
            if self.causal and causal:
                logits[np.triu_indices(len(z), 1)] = -np.inf
            weights = softmax(logits, axis=1)
            out += weights @ (z @ self.W_V[h].T + self.value_bias[h]) @ self.W_O[h].T
        return out


def _read_head(head: Any, count: int) -> int:
    whole = isinstance(head, (int, np.integer)) and not isinstance(head, bool)
    if not whole or not 0 <= head < count:
        raise ParameterError(f"head: expected one of {count} heads from 0, found {head!r}")
    return int(head)
