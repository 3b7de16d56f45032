"""How known architectures name their weights, and the layers read by those names.

A layout lists the names behind the number of a layer. Linear maps are stored as (out, in) with
".weight" and ".bias" behind the name, as (in, out) with the same, or as (in, out) under the name
alone; heads lie side by side, and queries, keys and values may be one map. Every array of a layer
has to be read, and what a configuration says has to be what the arrays are and what the layout
does: a layer that is something else besides is refused rather than read in part.
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
from gausscontrol.tokens.settings import (
    activation_of,
    check_settings,
    check_sizes,
    epsilon_of,
    heads_of,
    rotary_base,
)
from gausscontrol.tokens.tensors import parse_config

__all__ = ["raw_layers"]


class Layout(NamedTuple):
    """Names of the weights of a layer, and what the names do not say.

    `key` and `value` are None where `query` names all three; `kinds` are the model types of
    configurations whose layers are these.
    """

    prefix: str
    query: str
    key: str | None
    value: str | None
    output: str
    norms: tuple[str, str]
    inner: str
    outer: str
    kinds: tuple[str, ...] = ()
    gate: str | None = None
    scales: tuple[str, str] | None = None
    activation: str = "gelu"
    norm: str = "layer"
    epsilon: float = 1e-12
    post_norm: bool = False
    rotary: str | None = None
    causal: bool = False
    stored: str = "out-in"
    scales_optional: bool = False


VISION = ("attention.attention.query", "attention.attention.key", "attention.attention.value")
LAYOUTS = {
    "glassllm": Layout(
        r"blocks\.", "attn.W_Q", "attn.W_K", "attn.W_V", "attn.W_O", ("norm1", "norm2"),
        "ffn.W3", "ffn.W2", gate="ffn.W1", activation="silu", norm="rms", epsilon=1e-6,
        rotary="pairs", causal=True, stored="bare",
    ),
    "llama": Layout(
        r"layers\.", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.o_proj", ("input_layernorm", "post_attention_layernorm"),
        "mlp.up_proj", "mlp.down_proj", ("llama", "mistral", "qwen2"), gate="mlp.gate_proj",
        activation="silu", norm="rms", epsilon=1e-6, rotary="halves", causal=True,
    ),
    "bert": Layout(
        r"layer\.", "attention.self.query", "attention.self.key", "attention.self.value",
        "attention.output.dense", ("attention.output.LayerNorm", "output.LayerNorm"),
        "intermediate.dense", "output.dense",
        ("bert", "roberta", "xlm-roberta", "camembert", "electra"), post_norm=True,
    ),
    "vit": Layout(
        r"layer\.", *VISION, "attention.output.dense", ("layernorm_before", "layernorm_after"),
        "intermediate.dense", "output.dense", ("vit", "deit", "vit_mae", "vit_msn"),
    ),
    "dinov2": Layout(
        r"layer\.", *VISION, "attention.output.dense", ("norm1", "norm2"), "mlp.fc1", "mlp.fc2",
        ("dinov2", "dinov2_with_registers"),
        scales=("layer_scale1.lambda1", "layer_scale2.lambda1"), epsilon=1e-6,
    ),
    "gpt2": Layout(
        r"h\.", "attn.c_attn", None, None, "attn.c_proj", ("ln_1", "ln_2"), "mlp.c_fc",
        "mlp.c_proj", ("gpt2",), activation="gelu_tanh", epsilon=1e-5, causal=True, stored="in-out",
    ),
    "timm": Layout(
        r"blocks\.", "attn.qkv", None, None, "attn.proj", ("norm1", "norm2"), "mlp.fc1", "mlp.fc2",
        scales=("ls1.gamma", "ls2.gamma"), epsilon=1e-6, scales_optional=True,
    ),
}  # fmt: skip

# Buffers that say nothing the layout does not: masks, positions, frequencies of the embedding.
BUFFERS = ("attn.bias", "attn.masked_bias", "self_attn.rotary_emb.inv_freq")


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
    _check_names(tensors)
    if "__config__" in tensors:
        config = {**parse_config(str(tensors["__config__"]), "__config__"), **config}
    for architecture, layout in LAYOUTS.items():
        stems = _stems(tensors, layout)
        if stems:
            check_settings(config, architecture, layout.kinds, len(stems))
            return architecture, [_layer(_Reader(tensors, stem, layout), config) for stem in stems]
    for architecture, layout in LAYOUTS.items():
        missing = _missing(tensors, layout)
        if missing:
            raise ParameterError(
                f"source: expected whole layers, with norms and feed-forward part; the names are "
                f"those of {architecture}, found no {missing}; pass attention alone to "
                "GaussianTransformer.from_weights"
            )
    found = f"{', '.join(sorted(tensors)[:3])}, ..." if tensors else "no arrays"
    raise ParameterError(
        f"source: expected weights named as in {', '.join(LAYOUTS)}, found {found}; rename the "
        "arrays to one of these, or pass the weights of each layer to "
        "GaussianTransformer.from_weights"
    )


def _check_names(tensors: Mapping[str, Any]) -> None:
    for name in tensors:
        if not isinstance(name, str):
            raise ParameterError(
                f"source: expected names of arrays, found {name!r}; pass them as in "
                "{'encoder.layer.0.attention.self.query.weight': array, ...}"
            )


def _missing(tensors: Mapping[str, Any], layout: Layout) -> str | None:
    """Return the first array that a layer with this layout's queries lacks, if there is one."""
    weight, _, gain = _suffixes(layout)
    query = layout.query + weight
    others = [name + weight for name in (layout.output, layout.inner, layout.outer)]
    others += [name + gain for name in layout.norms]
    pattern = re.compile(rf"((?:.*\.)?{layout.prefix}\d+\.){re.escape(query)}")
    for match in filter(None, map(pattern.fullmatch, sorted(tensors))):
        lacking = [match[1] + tail for tail in others if match[1] + tail not in tensors]
        if lacking:
            return lacking[0]
    return None


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
    return ("", "", ".gamma") if layout.stored == "bare" else (".weight",) * 3


class _Reader:
    """The arrays of one layer under the names of its layout."""

    def __init__(self, tensors: Mapping[str, Any], stem: str, layout: Layout) -> None:
        self.tensors, self.stem, self.layout = tensors, stem, layout
        self.found: set[str] = set()

    def has(self, name: str) -> bool:
        """Return whether there is an array."""
        return self.stem + name in self.tensors

    def find(self, name: str) -> Any:
        """Return an array that has to be there."""
        if not self.has(name):
            raise ParameterError(
                f"source: expected {self.stem + name}, found no such array; the file is incomplete"
            )
        self.found.add(name)
        return self.tensors[self.stem + name]

    def matrix(self, name: str, shape: tuple[int | None, int | None]) -> np.ndarray:
        """Return a linear map as (out, in)."""
        full = name if self.layout.stored == "bare" else f"{name}.weight"
        if self.layout.stored == "out-in":
            return _matrix(self.find(full), self.stem + full, shape)
        return _matrix(self.find(full), self.stem + full, shape[::-1]).T

    def bias(self, name: str, size: int) -> np.ndarray:
        """Return the bias of a linear map or norm, zero where there is none."""
        if not self.has(f"{name}.bias"):
            return np.zeros(size)
        return self.vector(f"{name}.bias", size)

    def vector(self, name: str, size: int) -> np.ndarray:
        """Return a bias, gain or scale."""
        return real_vector(self.find(name), self.stem + name, size)

    def attention(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the maps to queries, keys and values, and their biases."""
        layout = self.layout
        if layout.key is None:
            whole = self.matrix(layout.query, (None, None))
            if len(whole) % 3:
                raise ShapeError(
                    f"{self.stem}{layout.query}: expected as many queries as keys and values, "
                    f"found {len(whole)} in all; the file is no {layout.query} layer"
                )
            bias = self.bias(layout.query, len(whole))
            return np.split(whole, 3), np.split(bias, 3)
        first = self.matrix(layout.query, (None, None))
        names = (layout.key, layout.value)
        maps = [first, *(self.matrix(name, (None, first.shape[1])) for name in names)]
        names = (layout.query, *names)
        return maps, [self.bias(n, len(W)) for n, W in zip(names, maps, strict=True)]

    def check_nothing_is_left(self) -> None:
        """Refuse a layer with arrays that were not read."""
        own = (name for name in self.tensors if name.startswith(self.stem))
        names = {name.removeprefix(self.stem) for name in own}
        left = sorted(names - self.found - set(BUFFERS))
        if left:
            raise ParameterError(
                f"source: expected nothing in a layer but attention, its norms and its "
                f"feed-forward part, found also {self.stem}{left[0]}"
                f"{f' and {len(left) - 1} more' if len(left) > 1 else ''}; what it does would be "
                "lost: leave it out of a dict of arrays to read the layer without it"
            )


def _matrix(value: Any, name: str, shape: tuple[int | None, int | None]) -> np.ndarray:
    # As real_matrix, which has no words for a size that may be any.
    array = real_matrix(value, name, (None, None))
    for size, wanted, what in zip(array.shape, shape, ("rows", "columns"), strict=True):
        if wanted is not None and size != wanted:
            raise ShapeError(
                f"{name}: expected {wanted} {what}, found shape {array.shape}; "
                "make it agree with the other arrays of its layer"
            )
    return array


def _layer(read: _Reader, config: Mapping[str, Any]) -> LayerWeights:
    layout = read.layout
    (W_Q, W_K, W_V), (b_Q, b_K, b_V) = read.attention()
    dim = W_Q.shape[1]
    heads = heads_of(config, W_Q.shape[0])
    width = W_Q.shape[0] // heads
    groups = W_K.shape[0] // width
    if not groups or W_K.shape[0] % width or heads % groups or W_V.shape[0] % groups:
        raise ShapeError(
            f"{read.stem}{layout.key}: expected a multiple of {width} rows that divides {heads} "
            f"heads, found {W_K.shape[0]} (values {W_V.shape[0]}); check n_heads"
        )
    values = W_V.shape[0] // groups
    check_sizes(config, dim, width, groups)
    if layout.rotary and width % 2:
        raise ShapeError(
            f"{read.stem}{layout.query}: expected heads of even width for the rotary embedding, "
            f"found {width}; check n_heads"
        )

    def split(array: np.ndarray, count: int) -> np.ndarray:
        parts = array.reshape(count, -1, *array.shape[1:])
        return np.repeat(parts, heads // count, axis=0)

    W_O = read.matrix(layout.output, (dim, heads * values))
    epsilon = epsilon_of(config, layout.epsilon)
    gain = _suffixes(layout)[2]
    norms = tuple(
        Norm(layout.norm, read.vector(name + gain, dim), read.bias(name, dim), epsilon)
        for name in layout.norms
    )
    base = rotary_base(config) if layout.rotary else 0.0
    weights = LayerWeights(
        W_Q=split(W_Q, heads),
        W_K=split(W_K, groups),
        W_V=split(W_V, groups),
        W_O=W_O.reshape(dim, heads, values).transpose(1, 0, 2),
        query_bias=split(b_Q, heads),
        key_bias=split(b_K, groups),
        value_bias=split(b_V, groups),
        output_bias=read.bias(layout.output, dim),
        feedforward=_feedforward(read, dim, config),
        norms=norms,
        scales=_scales(read, dim),
        post_norm=layout.post_norm,
        rotary=Rotary(base, layout.rotary) if layout.rotary else None,
        causal=layout.causal,
        groups=groups,
    )
    read.check_nothing_is_left()
    return weights


def _scales(read: _Reader, dim: int) -> tuple[np.ndarray, np.ndarray]:
    names, optional = read.layout.scales or (), read.layout.scales_optional
    if not names or (optional and not any(map(read.has, names))):
        return np.ones(dim), np.ones(dim)
    return tuple(read.vector(name, dim) for name in names)


def _feedforward(read: _Reader, dim: int, config: Mapping[str, Any]) -> FeedForward:
    layout = read.layout
    W1 = read.matrix(layout.inner, (None, dim))
    size = W1.shape[0]
    gate = None
    if layout.gate is not None:
        gate = (read.matrix(layout.gate, (size, dim)), read.bias(layout.gate, size))
    return FeedForward(
        W1,
        read.bias(layout.inner, size),
        read.matrix(layout.outer, (dim, size)),
        read.bias(layout.outer, dim),
        activation_of(config, layout.activation),
        gate=gate,
    )
