"""How known architectures name their weights, and the layers read by those names.

A layout lists the names behind the number of a layer. Linear maps are stored as (out, in) with
".weight" and ".bias" behind the name, or as (in, out) under the name alone; heads lie side by side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_matrix, real_vector
from gausscontrol.tokens.feedforward import FeedForward
from gausscontrol.tokens.pretrained import LayerWeights, Norm, Rotary
from gausscontrol.tokens.tensors import parse_config

__all__ = ["raw_layers"]


class Layout(NamedTuple):
    """Names of the weights of a layer, and what the names do not say."""

    prefix: str
    query: str
    key: str
    value: str
    output: str
    norms: tuple[str, str]
    inner: str
    outer: str
    gate: str | None = None
    scales: tuple[str, str] | None = None
    activation: str = "gelu"
    norm: str = "layer"
    epsilon: float = 1e-12
    post_norm: bool = False
    rotary: str | None = None
    causal: bool = False
    bare: bool = False


VISION = ("attention.attention.query", "attention.attention.key", "attention.attention.value")
LAYOUTS = {
    "glassllm": Layout(
        r"blocks\.", "attn.W_Q", "attn.W_K", "attn.W_V", "attn.W_O", ("norm1", "norm2"),
        "ffn.W3", "ffn.W2", gate="ffn.W1", activation="silu", norm="rms", epsilon=1e-6,
        rotary="pairs", causal=True, bare=True,
    ),
    "llama": Layout(
        r"layers\.", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.o_proj", ("input_layernorm", "post_attention_layernorm"),
        "mlp.up_proj", "mlp.down_proj", gate="mlp.gate_proj", activation="silu", norm="rms",
        epsilon=1e-6, rotary="halves", causal=True,
    ),
    "bert": Layout(
        r"layer\.", "attention.self.query", "attention.self.key", "attention.self.value",
        "attention.output.dense", ("attention.output.LayerNorm", "output.LayerNorm"),
        "intermediate.dense", "output.dense", post_norm=True,
    ),
    "vit": Layout(
        r"layer\.", *VISION, "attention.output.dense", ("layernorm_before", "layernorm_after"),
        "intermediate.dense", "output.dense",
    ),
    "dinov2": Layout(
        r"layer\.", *VISION, "attention.output.dense", ("norm1", "norm2"), "mlp.fc1", "mlp.fc2",
        scales=("layer_scale1.lambda1", "layer_scale2.lambda1"), epsilon=1e-6,
    ),
}  # fmt: skip

# Names of one setting in the configurations of different architectures.
HEADS = ("num_attention_heads", "n_heads")
EPSILON = ("layer_norm_eps", "rms_norm_eps", "eps")
BASE = ("rope_theta", "rope_base")
ACTIVATION_NAMES = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def raw_layers(
    tensors: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[str, list[LayerWeights]]:
    """Return the architecture that the names tell, and its layers.

    Parameters
    ----------
    tensors : mapping of arrays
        By name.
    config : mapping
        Settings; those that a file carries as "__config__" come second.

    Returns
    -------
    str, list of LayerWeights

    Raises
    ------
    ParameterError, ShapeError
        If the architecture is unknown, a setting is missing, or weights do not agree.
    """
    if "__config__" in tensors:
        config = {**parse_config(str(tensors["__config__"]), "__config__"), **config}
    for architecture, layout in LAYOUTS.items():
        stems = _stems(tensors, layout)
        if stems:
            return architecture, [_layer(_Reader(tensors, stem, layout), config) for stem in stems]
    raise ParameterError(
        f"source: expected weights named as in {', '.join(LAYOUTS)}, found "
        f"{', '.join(sorted(tensors)[:3]) or 'none'}, ...; rename the arrays to one of these, or "
        "pass the weights of each layer to GaussianTransformer.from_weights"
    )


def _stems(tensors: Mapping[str, Any], layout: Layout) -> list[str]:
    """Return what comes before the names of each layer, in the order of the layers."""
    wanted = [layout.query, layout.inner, layout.norms[0]]
    tails = [name + suffix for name, suffix in zip(wanted, _suffixes(layout), strict=True)]
    pattern = re.compile(rf"((?:.*\.)?{layout.prefix})(\d+)\.{re.escape(tails[0])}")
    found = [match for match in map(pattern.fullmatch, tensors) if match]
    found = [m for m in found if all(f"{m[1]}{m[2]}.{tail}" in tensors for tail in tails)]
    encoders = {match[1] for match in found}
    if len(encoders) > 1:
        raise ParameterError(
            f"source: expected one stack of layers, found {', '.join(sorted(encoders))}; pass a "
            "dict with the arrays of one of them"
        )
    numbers = sorted(int(match[2]) for match in found)
    if numbers != list(range(len(numbers))):
        raise ParameterError(
            f"source: expected layers 0 to {len(numbers) - 1}, found {numbers}; the file is "
            "incomplete"
        )
    return [f"{match[1]}{number}." for match in found[:1] for number in numbers]


def _suffixes(layout: Layout) -> tuple[str, str, str]:
    return ("", "", ".gamma") if layout.bare else (".weight",) * 3


class _Reader:
    """The arrays of one layer under the names of its layout."""

    def __init__(self, tensors: Mapping[str, Any], stem: str, layout: Layout) -> None:
        self.tensors, self.stem, self.layout = tensors, stem, layout

    def find(self, name: str) -> Any:
        """Return an array that has to be there."""
        if self.stem + name not in self.tensors:
            raise ParameterError(f"source: expected {self.stem + name}, found no such array")
        return self.tensors[self.stem + name]

    def matrix(self, name: str, shape: tuple[int | None, int | None]) -> np.ndarray:
        """Return a linear map as (out, in)."""
        if self.layout.bare:
            return real_matrix(self.find(name), self.stem + name, shape[::-1]).T
        return real_matrix(self.find(f"{name}.weight"), f"{self.stem}{name}.weight", shape)

    def bias(self, name: str, size: int) -> np.ndarray:
        """Return the bias of a linear map or norm, zero where there is none."""
        full = f"{self.stem}{name}.bias"
        if full not in self.tensors:
            return np.zeros(size)
        return real_vector(self.tensors[full], full, size)

    def vector(self, name: str, size: int) -> np.ndarray:
        """Return a gain or scale."""
        return real_vector(self.find(name), self.stem + name, size)


def _layer(read: _Reader, config: Mapping[str, Any]) -> LayerWeights:
    layout = read.layout
    W_Q = read.matrix(layout.query, (None, None))
    dim = W_Q.shape[1]
    heads = _heads(config, W_Q.shape[0])
    width = W_Q.shape[0] // heads
    W_K = read.matrix(layout.key, (None, dim))
    W_V = read.matrix(layout.value, (None, dim))
    groups = W_K.shape[0] // width
    if not groups or W_K.shape[0] % width or heads % groups or W_V.shape[0] % groups:
        raise ShapeError(
            f"{read.stem}{layout.key}: expected a multiple of {width} rows that divides {heads} "
            f"heads, found {W_K.shape[0]} (values {W_V.shape[0]}); check n_heads"
        )
    values = W_V.shape[0] // groups

    def split(array: np.ndarray, count: int) -> np.ndarray:
        parts = array.reshape(count, -1, *array.shape[1:])
        return np.repeat(parts, heads // count, axis=0)

    W_O = read.matrix(layout.output, (dim, heads * values))
    epsilon = float(_setting(config, EPSILON, layout.epsilon))
    gain = _suffixes(layout)[2]
    norms = tuple(
        Norm(layout.norm, read.vector(name + gain, dim), read.bias(name, dim), epsilon)
        for name in layout.norms
    )
    scales = layout.scales or ()
    return LayerWeights(
        W_Q=split(W_Q, heads),
        W_K=split(W_K, groups),
        W_V=split(W_V, groups),
        W_O=W_O.reshape(dim, heads, values).transpose(1, 0, 2),
        query_bias=split(read.bias(layout.query, heads * width), heads),
        key_bias=split(read.bias(layout.key, groups * width), groups),
        value_bias=split(read.bias(layout.value, groups * values), groups),
        output_bias=read.bias(layout.output, dim),
        feedforward=_feedforward(read, dim, config),
        norms=norms,
        scales=tuple(read.vector(name, dim) for name in scales) or (np.ones(dim), np.ones(dim)),
        post_norm=layout.post_norm,
        rotary=Rotary(float(_setting(config, BASE, 10000.0)), layout.rotary)
        if layout.rotary
        else None,
        causal=layout.causal,
        groups=groups,
    )


def _feedforward(read: _Reader, dim: int, config: Mapping[str, Any]) -> FeedForward:
    layout = read.layout
    W1 = read.matrix(layout.inner, (None, dim))
    size = W1.shape[0]
    gate = None
    if layout.gate is not None:
        gate = (read.matrix(layout.gate, (size, dim)), read.bias(layout.gate, size))
    named = config.get("hidden_act", layout.activation)
    if named not in ACTIVATION_NAMES:
        raise ParameterError(
            f"hidden_act: expected one of {', '.join(ACTIVATION_NAMES)}, found {named!r}"
        )
    return FeedForward(
        W1,
        read.bias(layout.inner, size),
        read.matrix(layout.outer, (dim, size)),
        read.bias(layout.outer, dim),
        ACTIVATION_NAMES[named],
        gate=gate,
    )


def _heads(config: Mapping[str, Any], rows: int) -> int:
    heads = _setting(config, HEADS, None)
    if heads is None:
        raise ParameterError(
            "n_heads: expected the number of heads, which these weights do not tell; pass n_heads="
        )
    if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1 or rows % heads:
        raise ParameterError(
            f"n_heads: expected a positive integer that divides {rows} query rows, found {heads!r}"
        )
    return heads


def _setting(config: Mapping[str, Any], names: tuple[str, ...], default: Any) -> Any:
    return next((config[name] for name in names if name in config), default)
