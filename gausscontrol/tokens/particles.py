"""Tokens moving through layers: what the Gaussian system is a model of (Theory 1.5, 8.3).

    x_i' = A x_i + b + f(x_i) + sum_h V_h sum_j p_h(i, j) x_j,
    p_h(i, j) ~ exp(<B_h x_i + k_h, x_j>), summing to one over j

or x_i+ = x_i + dt x_i' in residual layers. Attention is the exact softmax over all N tokens, or
over those up to i with a causal mask. f is a feed-forward part beyond the model's own A x + b. With
pre-norm layers the right side reads tokens normalised one by one, (x - mean) / deviation over
coordinates, which no Gaussian system does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.tokens.attention import softmax_attention
from gausscontrol.tokens.companion import gaussian_companion
from gausscontrol.tokens.feedforward import FeedForward
from gausscontrol.tokens.march import LARGEST, layers_of, march, pieces_of
from gausscontrol.tokens.record import TokenRecord
from gausscontrol.tokens.response import TokenResponse
from gausscontrol.tokens.statistics import read_tokens

__all__ = ["TokenTransformer"]

# Added to the variance of a token's coordinates, as frameworks do.
NORM_EPSILON = 1e-5
# What residual layers resolve tokens to, over their size.
ROUNDING = 8 * np.finfo(float).eps

FeedForwardPart = FeedForward | Callable[[np.ndarray], np.ndarray] | None


class TokenTransformer:
    """Layers of a Transformer acting on finitely many tokens.

    x_i' = A x_i + b + f(x_i) + sum_h V_h sum_j p_h(i, j) x_j with the softmax weights
    p_h(i, j) ~ exp(<B_h x_i + k_h, x_j>), exactly.

    Parameters
    ----------
    model : GaussianTransformer or LayerStack
        The parameters; continuous depth, residual layers, or a stack that mixes both.
    feedforward : FeedForward, callable or sequence, optional
        f, which takes tokens (N, d) and returns as many, per unit depth; for a stack also a
        sequence with one for each layer, or None.
    causal : bool, optional
        Token i attends to tokens 0 to i only.
    layer_norm : bool, optional
        Every layer reads its tokens normalised, A x and f included: x' = A n(x) + b + f(n(x)) +
        attention among n(x_j), n(x) = (x - mean) / sqrt(variance + 1e-5) over the coordinates of a
        token. That is LayerNorm, not RMSNorm; gains and biases are folded into the weights
        beforehand.

    Attributes
    ----------
    model : GaussianTransformer or LayerStack
    feedforward : tuple
        One part, or None, for each layer.
    causal, layer_norm : bool
    dim : int
        Token dimension d.

    Raises
    ------
    ParameterError
        If an argument is none of its kind, or a stack does not have as many parts as layers.
    ShapeError
        If the feed-forward part has another dimension.

    See Also
    --------
    gausscontrol.moment_response : The same layers on a Gaussian.

    Notes
    -----
    Theory 1.5, 8.3. All parts of a layer act at once, on the same tokens; layers in which
    attention and feed-forward take turns are a stack with attention in one layer and f in the next.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5 * np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> tokens = 0.5 * np.random.default_rng(0).normal(size=(1000, 2))
    >>> response = gct.tokens.TokenTransformer(model).simulate(tokens, [0, 1, 2])
    >>> response.mean.shape, response.covariance.shape
    ((2, 3), (2, 2, 3))
    >>> bool(response.relative_gap[-1] < 0.1)
    True
    """

    def __init__(
        self,
        model: GaussianTransformer | LayerStack,
        feedforward: FeedForwardPart | Sequence[FeedForwardPart] = None,
        *,
        causal: bool = False,
        layer_norm: bool = False,
    ) -> None:
        if not isinstance(model, (GaussianTransformer, LayerStack)):
            raise ParameterError(
                f"model: expected a GaussianTransformer or a LayerStack, found "
                f"{type(model).__name__}; make one with gausscontrol.GaussianTransformer(A, B, V)"
            )
        self.model, self.dim = model, model.dim
        self.feedforward = _read_parts(feedforward, model)
        self.causal = _read_flag(causal, "causal")
        self.layer_norm = _read_flag(layer_norm, "layer_norm")

    def __repr__(self) -> str:
        parts = ["feed-forward part"] if any(f is not None for f in self.feedforward) else []
        parts += ["causal"] * self.causal + ["layer norm"] * self.layer_norm
        return f"<TokenTransformer of {self.model!r}{''.join(', ' + part for part in parts)}>"

    def field(self, tokens: ArrayLike, layer: int = 0) -> np.ndarray:
        """Return the rate of change of every token.

        Parameters
        ----------
        tokens : (N, d) array_like
            [x]
        layer : int, optional
            Which layer of a stack.

        Returns
        -------
        (N, d) ndarray
            x_i' per unit depth; a residual layer adds dt times it. [x/t]

        Raises
        ------
        ShapeError, ParameterError
            If the tokens are not real and of dimension d, there is no such layer, or the
            feed-forward part does not return as many tokens.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> layer = gct.tokens.TokenTransformer(gct.GaussianTransformer(-1, 0, 2))
        >>> print(layer.field([[1.0], [3.0]]))  # B = 0: attention is the mean
        [[3.]
         [1.]]
        """
        count = len(self.feedforward)
        whole = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool)
        if not whole or not -count <= layer < count:
            raise ParameterError(
                f"layer: expected one of {count} layers from 0, found {layer!r}; see len(model)"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            rate = self._rate(int(layer), _read_start(tokens, self.dim))
        if not np.isfinite(rate).all():
            raise ParameterError(
                "tokens: expected logits and values within the floating-point range, found some "
                "beyond; scale tokens or matrices down"
            )
        return rate

    def simulate(
        self,
        tokens: ArrayLike,
        timepts: ArrayLike,
        *,
        keep: ArrayLike | None = None,
        rtol: float = 1e-6,
        atol: float | None = None,
    ) -> TokenResponse:
        """Move tokens through the layers.

        Parameters
        ----------
        tokens : (N, d) array_like
            Tokens at the first depth, N >= 2; with a causal mask in their order. [x]
        timepts : (T,) array_like
            Increasing depths; with dt > 0 whole layers apart, and for a stack between 0 and its
            depth with residual layers whole. [t]
        keep : (K,) array_like, optional
            Depths among `timepts` at which the tokens themselves are kept, the last by default. [t]
        rtol : float, optional
            Relative tolerance of one step in continuous depth.
        atol : float, optional
            Absolute tolerance of one step; by default rtol times the root mean square coordinate
            of the tokens. [x]

        Returns
        -------
        TokenResponse
            With the Gaussian system, started at the sample moments, beside it.

        Raises
        ------
        ShapeError, ParameterError
            If an argument is invalid.
        IntegrationError
            If tokens grow out of the floating-point range, or adaptive steps get nowhere.

        Notes
        -----
        Theory 8.3. One evaluation takes N^2 exponentials for each head and memory in proportion
        to N. Softmax averages lie within the tokens, so these grow at most exponentially: tokens
        never escape at a finite depth, even where the Gaussian system does.
        """
        x = _read_start(tokens, self.dim)
        depths, pieces = pieces_of(self.model, timepts)
        kept = _read_kept(keep, depths)
        rtol, atol = _read_tolerances(rtol, atol, x)
        record = TokenRecord(self)
        snapshots = []
        states = march(pieces, depths, x, self._rate, rtol=rtol, atol=atol)
        for n, (depth, state) in enumerate(zip(depths, states, strict=True)):
            record.add(state, self._next_layer(depth))
            if n in kept:
                snapshots.append(state)
        gaussian = gaussian_companion(
            self.model, self.feedforward, depths, record.means[0], record.covariances[0]
        )
        flows = any(not piece.steps for piece in pieces)
        return record.response(
            len(x),
            depths,
            gaussian,
            np.stack(snapshots, axis=-1),
            depths[sorted(kept)],
            (rtol, atol) if flows else (ROUNDING, 0.0),
        )

    # -- the field --------------------------------------------------------------------------------

    def _rate(self, i: int, x: np.ndarray) -> np.ndarray:
        layer, part = layers_of(self.model)[i], self.feedforward[i]
        read = self.read(x)
        out = softmax_attention(layer.heads, layer.k, read, causal=self.causal)
        out += read @ layer.A.T + layer.b
        if part is None:
            return out
        return out + _applied(part, read)

    def read(self, x: np.ndarray) -> np.ndarray:
        """Return what a layer reads of its tokens.

        Parameters
        ----------
        x : (N, d) ndarray
            [x]

        Returns
        -------
        (N, d) ndarray
            The tokens, or with `layer_norm` (x - mean) / sqrt(variance + 1e-5) of each.
        """
        if not self.layer_norm:
            return x
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + NORM_EPSILON)

    def _next_layer(self, depth: float) -> GaussianTransformer:
        if isinstance(self.model, GaussianTransformer):
            return self.model
        i = int(np.searchsorted(self.model.boundaries, depth, side="right")) - 1
        return self.model[min(i, len(self.model) - 1)]


def _applied(part: Callable, x: np.ndarray) -> np.ndarray:
    # A part that works in place would change the tokens themselves.
    seen = x.view()
    seen.flags.writeable = False
    value = np.asarray(part(seen))
    if value.shape != x.shape or value.dtype.kind not in "iuf":
        raise ShapeError(
            f"feedforward: expected real values of shape {x.shape}, that of the tokens, found "
            f"{value.dtype} of shape {value.shape}; return one row for each token"
        )
    if not np.isfinite(value).all() and np.isfinite(x).all():
        raise ParameterError(
            "feedforward: expected finite values at the tokens, found NaN or infinite ones; the "
            "function has to be defined at every token that is met"
        )
    return value


# -- arguments ------------------------------------------------------------------------------------


def _read_parts(feedforward: Any, model: GaussianTransformer | LayerStack) -> tuple:
    layers = layers_of(model)
    parts = (feedforward,) * len(layers)
    if isinstance(feedforward, (list, tuple)):
        parts = tuple(feedforward)
        if len(parts) != len(layers):
            raise ParameterError(
                f"feedforward: expected one part for each of {len(layers)} layer(s), found "
                f"{len(parts)}; use None for a layer without"
            )
    for part in parts:
        if part is not None and not callable(part):
            raise ParameterError(
                f"feedforward: expected a FeedForward or a function of tokens, found "
                f"{type(part).__name__}; make one with gausscontrol.tokens.FeedForward"
            )
        if isinstance(part, FeedForward) and part.dim != model.dim:
            raise ShapeError(
                f"feedforward: expected token dimension {model.dim} as in the model, found "
                f"{part.dim}; W1 is (m, d) and W2 is (d, m)"
            )
    return parts


def _read_flag(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name}: expected True or False, found {value!r}")
    return bool(value)


def _read_kept(keep: ArrayLike | None, depths: np.ndarray) -> set[int]:
    if keep is None:
        return {depths.size - 1}
    wanted = np.atleast_1d(real_array(keep, "keep"))
    if wanted.ndim != 1 or wanted.size == 0:
        raise ShapeError(
            f"keep: expected depths in a vector, found shape {wanted.shape}; leave it out for the "
            "last depth"
        )
    nearest = np.abs(depths - wanted[:, None]).argmin(axis=1)
    away = np.abs(depths[nearest] - wanted)
    if (away > 1e-9 * np.ptp(depths)).any():
        raise ParameterError(
            f"keep: expected depths among timepts, found {wanted[away.argmax()]:.6g}; add it there"
        )
    return {int(n) for n in nearest}


def _read_start(tokens: ArrayLike, dim: int) -> np.ndarray:
    x = read_tokens(tokens, dim)
    if np.abs(x).max() > LARGEST:
        raise ParameterError(
            f"tokens: expected entries up to {LARGEST:g}, whose squares are finite, found "
            f"{np.abs(x).max():.3g}; choose another unit"
        )
    return x


def _number(value: Any) -> bool:
    return np.isscalar(value) and not isinstance(value, (str, bytes, bool, complex))


def _read_tolerances(rtol: float, atol: float | None, x: np.ndarray) -> tuple[float, float]:
    if not _number(rtol) or not 0 < rtol < 1:
        raise ParameterError(f"rtol: expected a number between 0 and 1, found {rtol!r}")
    if atol is not None and not (_number(atol) and 0 < atol < np.inf):
        raise ParameterError(f"atol: expected a positive number, found {atol!r}")
    if atol is None:
        atol = rtol * (float(np.sqrt(np.mean(x**2))) or 1.0)
    return rtol, atol
