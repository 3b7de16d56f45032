"""What a configuration says of trained layers: sizes, norms, activation, embedding.

Names are those of config.json files, several for one setting; null stands for a setting that is not
made. A setting that contradicts the arrays, or that changes a layer in a way that is not read, is
refused: scaled rotary embeddings, soft caps of the logits, decoders with cross attention.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError

__all__ = [
    "activation_of",
    "check_settings",
    "check_sizes",
    "epsilon_of",
    "heads_of",
    "rotary_base",
]

# Names of one setting in the configurations of different architectures.
HEADS = ("num_attention_heads", "n_heads", "n_head", "num_heads")
GROUPS = ("num_key_value_heads", "n_kv_heads")
WIDTH = ("head_dim",)
DIMENSION = ("hidden_size", "d_model", "n_embd")
LAYERS = ("num_hidden_layers", "n_layers", "n_layer")
EPSILON = ("layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon", "eps")
BASE = ("rope_theta", "rope_base")
ACTIVATION = ("hidden_act", "hidden_activation", "activation_function")
ACTIVATION_NAMES = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
# Settings that change a layer and are not read, with the values that change nothing.
UNREAD = {
    "rope_scaling": (),
    "partial_rotary_factor": (1, 1.0),
    "attn_logit_softcapping": (),
    "query_pre_attn_scalar": (),
    "attention_multiplier": (),
    "residual_multiplier": (1, 1.0),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "use_sliding_window": (False,),
    "no_rope_layers": ([],),
}


def check_settings(
    config: Mapping[str, Any], architecture: str, kinds: tuple[str, ...], layers: int
) -> None:
    """Refuse a configuration of other layers than a layout describes.

    Parameters
    ----------
    config : mapping
    architecture : str
        What the names of the arrays tell.
    kinds : tuple of str
        The model types whose layers are these.
    layers : int
        How many there are.

    Raises
    ------
    ParameterError
    """
    kind = config.get("model_type")
    if kind is not None and kind not in kinds:
        raise ParameterError(
            f"model_type: expected one of {', '.join(kinds) or 'none'} for arrays named as in "
            f"{architecture}, found {kind!r}, whose layers may differ; leave it out of config if "
            f"they are those of {architecture}"
        )
    for name, harmless in UNREAD.items():
        value = config.get(name)
        if value is not None and value not in harmless:
            raise ParameterError(
                f"{name}: expected none, found {value!r}, which changes layers in a way that is "
                "not read; leave it out of config to read them without it"
            )
    # A window that no sequence exceeds cannot be told from one that some do.
    window, used = config.get("sliding_window"), config.get("use_sliding_window", True)
    if window is not None and used:
        raise ParameterError(
            f"sliding_window: expected none, found {window!r}, a mask that is not read; leave it "
            "out of config if no sequence is longer"
        )
    _agrees(config, LAYERS, layers, "layers")


def check_sizes(config: Mapping[str, Any], dim: int, width: int, groups: int) -> None:
    """Refuse sizes that are not those of the arrays.

    Parameters
    ----------
    config : mapping
    dim, width, groups : int
        Token dimension, width of a head, and key heads.

    Raises
    ------
    ParameterError
    """
    _agrees(config, DIMENSION, dim, "dimensions")
    _agrees(config, WIDTH, width, "dimensions of a head")
    _agrees(config, GROUPS, groups, "key heads")


def heads_of(config: Mapping[str, Any], rows: int) -> int:
    """Return the number of heads of so many query rows.

    Parameters
    ----------
    config : mapping
    rows : int

    Returns
    -------
    int

    Raises
    ------
    ParameterError
        If it is missing, or does not divide them.
    """
    _, heads = _setting(config, HEADS)
    if heads is None:
        raise ParameterError(
            "n_heads: expected the number of heads, which these weights do not tell; pass n_heads="
        )
    try:
        count = 0 if isinstance(heads, bool) else operator.index(heads)
    except TypeError:
        count = 0
    if count < 1 or rows % count:
        raise ParameterError(
            f"n_heads: expected a positive integer that divides {rows} query rows, found {heads!r}"
        )
    return count


def epsilon_of(config: Mapping[str, Any], default: float) -> float:
    """Return what norms add to the variance.

    Parameters
    ----------
    config : mapping
    default : float

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        If it is not a number, or negative.
    """
    name, value = _setting(config, EPSILON)
    return default if value is None else _number(name, value, least=0.0)


def rotary_base(config: Mapping[str, Any]) -> float:
    """Return the base of a rotary embedding.

    Parameters
    ----------
    config : mapping

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        If it is not a positive number, or the embedding is scaled.
    """
    nested = config.get("rope_parameters")
    if nested is not None:
        if not isinstance(nested, Mapping) or nested.get("rope_type", "default") != "default":
            raise ParameterError(
                f"rope_parameters: expected rope_theta alone, found {nested!r}, a scaled embedding "
                "that is not read; leave it out of config to read the layers without it"
            )
        config = {**config, **nested}
    name, value = _setting(config, BASE)
    return 10000.0 if value is None else _number(name, value, least=np.finfo(float).tiny)


def activation_of(config: Mapping[str, Any], default: str) -> str:
    """Return the activation of the feed-forward part.

    Parameters
    ----------
    config : mapping
    default : str

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        If it is none of those known.
    """
    name, value = _setting(config, ACTIVATION)
    if value is None:
        return default
    if not isinstance(value, str) or value not in ACTIVATION_NAMES:
        raise ParameterError(
            f"{name}: expected one of {', '.join(ACTIVATION_NAMES)}, found {value!r}"
        )
    return ACTIVATION_NAMES[value]


def _setting(config: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    # The first that is made, with its name.
    made = ((name, config[name]) for name in names if config.get(name) is not None)
    return next(made, (names[0], None))


def _number(name: str, value: Any, least: float) -> float:
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not least <= value < np.inf:
        sign = "positive" if least else "non-negative"
        raise ParameterError(f"{name}: expected a {sign} number, found {value!r}")
    return float(value)


def _agrees(config: Mapping[str, Any], names: tuple[str, ...], found: int, what: str) -> None:
    name, value = _setting(config, names)
    if value is not None and value != found:
        raise ParameterError(
            f"{name}: expected {found} {what} as in the arrays, found {value!r}; pass the "
            "configuration that belongs to them, and all of its layers"
        )
