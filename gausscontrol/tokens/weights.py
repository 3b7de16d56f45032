"""Trained layers as Gaussian Transformers: what folds into B, V, k, and what does not (Theory 1.3).

    z = diag(g) P x / r + beta           a norm with a fixed r for each token's own size
    W_Q -> W_Q diag(g) P / r,  b_Q -> b_Q + W_Q beta,  W_O -> diag(lambda) W_O

and likewise for W_K, W_V and the feed-forward part; P takes the mean of the coordinates off, and is
I for a root-mean-square norm. The division by each token's own size is what has no place in a
Gaussian system, nor have rotary embeddings beyond offset 0 and masks. In a post-norm model gain and
centring act on the residual stream as well, so nothing of them folds. `read_layers` does this for
files of known architectures and lists both, layer by layer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.tokens.feedforward import FeedForward
from gausscontrol.tokens.layouts import raw_layers
from gausscontrol.tokens.pretrained import LayerWeights
from gausscontrol.tokens.statistics import read_tokens
from gausscontrol.tokens.tensors import read_config, read_tensors

__all__ = ["PretrainedLayer", "read_layers"]


@dataclass(frozen=True, eq=False)
class PretrainedLayer:
    """A trained layer and the Gaussian Transformer it folds into.

    Parameters
    ----------
    name : str
        Architecture and position, from 0.
    raw : LayerWeights
        The layer as trained; ``raw(tokens)`` runs it.
    model : GaussianTransformer
        Its attention, with factored heads and A = 0.
    feedforward : FeedForward
        Its feed-forward part, gate included; `FeedForward.frozen` puts its closure into the model.
    divisor : float
        The number that stands in for each token's own size in the norms. [x]
    folded, dropped : tuple of str
        What model and feedforward contain, and what they cannot.
    index : int
        Position in the trained model, from 0.
    """

    name: str
    raw: LayerWeights
    model: GaussianTransformer
    feedforward: FeedForward
    divisor: float
    folded: tuple[str, ...]
    dropped: tuple[str, ...]
    index: int = 0

    def attention(self, tokens: ArrayLike, *, head: int | None = None) -> np.ndarray:
        """Return softmax attention from the raw weights, all norms off.

        No mask, no rotary embedding, the fixed divisor for each token's size: what the model says
        of finitely many tokens, computed without B, V and k.

        Parameters
        ----------
        tokens : (N, d) array_like
            [x]
        head : int, optional
            One head alone, without the output bias.

        Returns
        -------
        (N, d) ndarray
            [x/t]

        Raises
        ------
        ShapeError, ParameterError
            If the tokens are not real and of dimension d, or there is no such head.
        """
        raw, z = self.raw, read_tokens(tokens, self.raw.dim)
        if not raw.post_norm:
            z = raw.norms[0].linear(z, self.divisor)
        return raw.scales[0] * raw.attention(z, rotary=False, causal=False, head=head)

    def refold(self, divisor: float) -> PretrainedLayer:
        """Return the layer folded with another divisor.

        Parameters
        ----------
        divisor : float
            Positive. [x]

        Returns
        -------
        PretrainedLayer

        Raises
        ------
        ParameterError
            If it is not positive.
        """
        return _folded(self.name, self.index, self.raw, _read_divisor(divisor), self.model.dt)

    def __repr__(self) -> str:
        raw = self.raw
        return f"<PretrainedLayer {self.name}: d = {raw.dim}, {raw.n_heads} heads>"

    def __str__(self) -> str:
        raw = self.raw
        heads = f"{raw.n_heads} heads of width {raw.W_Q.shape[1]}"
        lines = [f"{self.name}: d = {raw.dim}, {heads}, {self.feedforward!r}"]
        lines += [f"  folded   {line}" for line in self.folded]
        lines += [f"  dropped  {line}" for line in self.dropped]
        return "\n".join(lines)


def read_layers(
    source: str | os.PathLike | Mapping[str, ArrayLike],
    *,
    config: Mapping[str, Any] | None = None,
    n_heads: int | None = None,
    divisor: float = 1.0,
    dt: float = 1.0,
) -> list[PretrainedLayer]:
    """Read the layers of a trained model.

    V_h = W_O W_V, B_h = s W_K^T W_Q, k_h = s W_K^T b_Q with norm gains, LayerScale and biases
    folded in.

    Parameters
    ----------
    source : path or mapping of arrays
        A .npz, .safetensors or .onnx file, a folder with one, or arrays by name. Architectures
        known by their names: "glassllm", "llama", "bert", "vit", "dinov2", "gpt2", "timm".
    config : mapping, optional
        Settings, by the names that config.json has; read from beside the file by default. One that
        contradicts the arrays, or changes layers in a way that is not read, is refused.
    n_heads : int, optional
        Number of heads where the configuration does not say.
    divisor : float, optional
        The number that stands in for each token's own size in pre-norm layers: 1, the default,
        switches the normalisation off; the root mean square of the tokens imitates it. [x]
    dt : float, optional
        1 for the residual layers that they are, 0 for continuous depth. [t]

    Returns
    -------
    list of PretrainedLayer

    Raises
    ------
    ParameterError, ShapeError
        If the architecture is unknown, a setting is missing, weights do not agree, or a layer has
        arrays that are not read.
    OSError
        If the file cannot be read.

    Notes
    -----
    Theory 1.3. Attention and feed-forward part act one after the other in a trained layer and at
    once in a `TokenTransformer`.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> I = np.eye(4)
    >>> names = ["attention.self.query", "attention.self.key", "attention.self.value",
    ...          "attention.output.dense", "intermediate.dense", "output.dense"]
    >>> arrays = {f"encoder.layer.0.{name}.weight": I for name in names}
    >>> for name in ("attention.output.LayerNorm", "output.LayerNorm"):
    ...     arrays[f"encoder.layer.0.{name}.weight"] = np.ones(4)
    >>> [layer] = gct.tokens.read_layers(arrays, n_heads=2)
    >>> bool(np.allclose(layer.model.V.sum(axis=0), I))
    True
    """
    if isinstance(source, Mapping):
        tensors, settings = source, {}
    elif isinstance(source, (str, os.PathLike)):
        tensors, settings = read_tensors(source), read_config(source)
    else:
        raise ParameterError(
            f"source: expected a file or arrays by name, found {type(source).__name__}; pass a "
            "path or a dict"
        )
    if config is not None:
        if not isinstance(config, Mapping):
            raise ParameterError(
                f"config: expected settings by name, found {type(config).__name__}; pass a dict "
                "such as {'num_attention_heads': 12}"
            )
        settings = dict(config)
    if n_heads is not None:
        settings = {**settings, "num_attention_heads": n_heads}
    number = _read_divisor(divisor)
    architecture, layers = raw_layers(tensors, settings)
    return [
        _folded(f"{architecture} layer {index}", index, raw, number, dt)
        for index, raw in enumerate(layers)
    ]


def _read_divisor(value: Any) -> float:
    if not np.isscalar(value) or isinstance(value, (str, bool)) or not 0 < value < np.inf:
        raise ParameterError(
            f"divisor: expected a positive number, found {value!r}; use 1 for norms off"
        )
    return float(value)


def _folded(name: str, index: int, raw: LayerWeights, divisor: float, dt: float) -> PretrainedLayer:
    weights, feedforward = raw, raw.feedforward
    if not raw.post_norm:
        weights, feedforward = _inputs(raw, divisor)
    scale, scale_feedforward = raw.scales
    model = GaussianTransformer.from_weights(
        weights.W_Q,
        weights.W_K,
        weights.W_V,
        scale[:, None] * raw.W_O,
        b_Q=weights.query_bias,
        b_V=weights.value_bias,
        b_O=scale * raw.output_bias,
        dt=dt,
        name=name,
    )
    feedforward = FeedForward(
        feedforward.W1,
        feedforward.c1,
        scale_feedforward[:, None] * feedforward.W2,
        scale_feedforward * feedforward.c2,
        feedforward.activation,
        gate=feedforward.gate,
    )
    return PretrainedLayer(
        name, raw, model, feedforward, divisor, _what_folds(raw), _what_drops(raw, divisor), index
    )


def _inputs(raw: LayerWeights, divisor: float) -> tuple[LayerWeights, FeedForward]:
    """Fold the norms in front of attention and of the feed-forward part."""
    first, second = raw.norms
    part = raw.feedforward
    weights = replace(
        raw,
        W_Q=first.fold(raw.W_Q, divisor),
        W_K=first.fold(raw.W_K, divisor),
        W_V=first.fold(raw.W_V, divisor),
        query_bias=raw.query_bias + raw.W_Q @ first.bias,
        value_bias=raw.value_bias + raw.W_V @ first.bias,
    )
    gate = part.gate
    if gate is not None:
        gate = (second.fold(gate[0], divisor), gate[1] + gate[0] @ second.bias)
    feedforward = FeedForward(
        second.fold(part.W1, divisor),
        part.c1 + part.W1 @ second.bias,
        part.W2,
        part.c2,
        part.activation,
        gate=gate,
    )
    return weights, feedforward


def _what_folds(raw: LayerWeights) -> tuple[str, ...]:
    lines = []
    if not raw.post_norm:
        centring = " and centring" if raw.norms[0].kind == "layer" else ""
        lines.append(
            f"gain{centring} of the norms, into W_Q, W_K, W_V and the feed-forward weights"
        )
        if any(norm.bias.any() for norm in raw.norms):
            lines.append("bias of the norms, through W_Q into k, through W_V into b, into c1")
    if any(np.any(scale != 1) for scale in raw.scales):
        lines.append("LayerScale, into W_O, b_O and the feed-forward output")
    if raw.groups < raw.n_heads:
        lines.append(f"grouped keys and values, {raw.groups} repeated for {raw.n_heads} heads")
    if raw.query_bias.any():
        lines.append("query bias, as k")
    if raw.key_bias.any():
        lines.append("key bias: the softmax does not see it")
    if raw.value_bias.any() or raw.output_bias.any():
        lines.append("value and output bias, into b")
    return tuple(lines)


def _what_drops(raw: LayerWeights, divisor: float) -> tuple[str, ...]:
    lines = []
    if raw.post_norm:
        lines.append(
            "both norms, gain and bias included: after the sums they act on the residual stream too"
        )
    else:
        lines.append(f"division by each token's own size: {divisor:g} stands in for it")
    if raw.rotary is not None:
        lines.append(f"rotary embedding, base {raw.rotary.base:g}: B is that of tokens at offset 0")
    if raw.causal:
        lines.append("causal mask: every token attends to all")
    lines.append("order: attention and feed-forward part act at once, not one after the other")
    return tuple(lines)
