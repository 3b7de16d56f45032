"""Weights of an attention block: agreement with the dense formulas (Theory 1.3), shapes, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.heads import DenseHeads, FactoredHeads
from gausscontrol.model.parameters import (
    read_heads,
    read_label,
    read_layer_depth,
    read_tilts,
    read_weights,
)
from gausscontrol.model.transformer import GaussianTransformer

from_weights = GaussianTransformer.from_weights
law = settings(derandomize=True, deadline=None, max_examples=30)
BIASES = ("b_Q", "b_V", "b_O", "A", "b")


def weights(seed=0, heads=3, dim=4, width=2, value_width=5):
    """All arguments that are arrays, entries distinct."""
    rng = np.random.default_rng(seed)
    return {
        "W_Q": rng.normal(size=(heads, width, dim)),
        "W_K": rng.normal(size=(heads, width, dim)),
        "W_V": rng.normal(size=(heads, value_width, dim)),
        "W_O": rng.normal(size=(heads, dim, value_width)),
        "b_Q": rng.normal(size=(heads, width)),
        "b_V": rng.normal(size=(heads, value_width)),
        "b_O": rng.normal(size=dim),
        "A": rng.normal(size=(dim, dim)),
        "b": rng.normal(size=dim),
    }


def dense(W_Q, W_K, W_V, W_O, b_Q, b_V, b_O, A, b, scale):
    """The formulas head by head, multiplied out."""
    heads = range(len(W_Q))
    return GaussianTransformer(
        A,
        [scale * W_K[h].T @ W_Q[h] for h in heads],
        [W_O[h] @ W_V[h] for h in heads],
        b + b_O + sum(W_O[h] @ b_V[h] for h in heads),
        k=[scale * W_K[h].T @ b_Q[h] for h in heads],
    )


sizes = {
    "seed": st.integers(0, 2**32 - 1),
    "heads": st.integers(1, 4),
    "dim": st.integers(1, 5),
    "width": st.integers(1, 4),
    "value_width": st.integers(1, 4),
}


# What weights amount to


@law
@given(st.fixed_dictionaries(sizes), st.none() | st.floats(0.1, 10))
def test_weights_agree_with_the_dense_formulas(size, scale):
    given_weights = weights(**size)
    model = from_weights(**given_weights, scale=scale)
    expected = dense(**given_weights, scale=scale or 1 / np.sqrt(size["width"]))
    assert (model.dim, model.n_heads) == (size["dim"], size["heads"])
    for key in ("A", "B", "V", "b", "k"):
        np.testing.assert_allclose(getattr(model, key), getattr(expected, key), 1e-12, 1e-12)
    S = np.random.default_rng(size["seed"]).normal(size=(size["dim"], size["dim"]))
    np.testing.assert_allclose(model.drift(S), expected.drift(S), 1e-11, 1e-11)


@law
@given(st.fixed_dictionaries(sizes))
def test_the_attention_is_that_of_tokens(size):
    """T(S) q + V S k for a query token q is the average of values under tilted logits."""
    w = weights(**size)
    model = from_weights(**w)
    rng = np.random.default_rng(size["seed"])
    L, q = rng.normal(size=(size["dim"], size["dim"])), rng.normal(size=size["dim"])
    S = L @ L.T
    # Softmax weights over N(0, S) tilt its mean to S times the gradient of the logit.
    gradients = np.einsum("hkd,hk->hd", w["W_K"], w["W_Q"] @ q + w["b_Q"]) / np.sqrt(size["width"])
    expected = np.einsum("hdv,hve,he->d", w["W_O"], w["W_V"], gradients @ S)
    found = model.attention(S) @ q + model.heads.tilt(S, model.k)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_a_known_answer():
    model = from_weights(
        [[1.0, 0.0]], [[0.0, 2.0]], [[3.0, 0.0]], [[0.0], [5.0]], b_Q=[7.0], b_V=[11.0], scale=0.5
    )
    np.testing.assert_array_equal(model.V, [[[0, 0], [15, 0]]])
    np.testing.assert_array_equal(model.B, [[[0, 0], [1, 0]]])
    np.testing.assert_array_equal(model.k, [[0, 7]])
    np.testing.assert_array_equal(model.b, [0, 55])
    np.testing.assert_array_equal(model.A, np.zeros((2, 2)))


@pytest.mark.parametrize("absent", BIASES)
def test_what_is_not_given_is_zero(absent):
    given_weights = weights()
    zero = given_weights | {absent: np.zeros_like(given_weights[absent])}
    del given_weights[absent]
    assert from_weights(**given_weights) == from_weights(**zero)


def test_the_scale_is_one_over_the_root_of_the_width():
    given_weights = weights(width=4)
    assert from_weights(**given_weights) == from_weights(**given_weights, scale=0.5)
    assert from_weights(**given_weights, scale=2) == from_weights(**given_weights, scale=2.0)
    twice, once = (from_weights(**given_weights, scale=scale) for scale in (2, 1))
    np.testing.assert_allclose(twice.B, 2 * once.B, rtol=1e-14)
    np.testing.assert_allclose(twice.k, 2 * once.k, rtol=1e-14)
    np.testing.assert_array_equal(twice.V, once.V)


def test_one_head_may_be_a_matrix():
    many = weights(heads=1)
    one = many | {key: many[key][0] for key in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_V")}
    model = from_weights(**one)
    assert model == from_weights(**many)
    assert model.V.shape == (1, 4, 4)


def test_integers_and_lists_are_floats():
    W = [[1, 0], [0, 1]]
    model = from_weights(W, W, W, W, b_Q=[1, 2], scale=1, dt=1)
    assert model == from_weights(*[np.eye(2)] * 4, b_Q=[1.0, 2.0], scale=1.0, dt=1.0)
    assert {array.dtype for array in (*model.heads.arrays, model.k)} == {np.dtype(float)}


def test_depth_and_name_are_passed_on():
    model = from_weights(**weights(), dt=0.25, name="block")
    assert (model.dt, model.name) == (0.25, "block")
    assert type(model.dt) is float


# The factors


def test_a_large_layer_is_never_multiplied_out():
    heads, width, dim = 12, 32, 384
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3, heads, width, dim)) / np.sqrt(dim)
    output = rng.normal(size=(heads, dim, width)) / np.sqrt(dim)
    model = from_weights(*W, output, b_Q=np.ones((heads, width)))
    found = model.drift(np.eye(dim))
    changed = model.replace(A=-np.eye(dim)).reversed().rescale_heads(2.0)
    for each in (model, changed, pickle.loads(pickle.dumps(model))):
        assert isinstance(each.heads, FactoredHeads)
        assert not {"V", "B"} & set(each.heads.__dict__)
    expected = sum(
        output[h] @ (W[2, h] @ W[1, h].T) @ W[0, h] / np.sqrt(width) for h in range(heads)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_replace_keeps_factors_unless_heads_are_replaced():
    model = from_weights(**weights())
    changed = model.replace(A=np.eye(4), b=None, dt=1, name="x")
    assert changed.heads is model.heads
    assert (changed.dt, changed.name, changed.b.any()) == (1, "x", np.False_)
    np.testing.assert_array_equal(changed.k, model.k)
    assert not model.replace(k=None).k.any()
    heads = model.replace(V=np.zeros((3, 4, 4)))
    assert isinstance(heads.heads, DenseHeads)
    np.testing.assert_array_equal(heads.B, model.B)
    with pytest.raises(ShapeError, match="k: expected shape"):
        model.replace(k=np.ones(4))
    with pytest.raises(ShapeError, match="A: expected a 4 x 4 matrix"):
        model.replace(A=np.eye(3))


def test_pickling_keeps_every_factor():
    model = from_weights(**weights(), dt=0.5, name="x")
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert hash(again) == hash(model)
    for mine, theirs in zip(model.heads.arrays, again.heads.arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert not theirs.flags.writeable


@law
@given(st.fixed_dictionaries(sizes))
def test_coordinates_change_factors_as_they_change_matrices(size):
    rng = np.random.default_rng(size["seed"])
    R = np.eye(size["dim"]) + 0.1 * rng.uniform(-1, 1, size=(size["dim"],) * 2)
    model = from_weights(**weights(**size))
    plain = GaussianTransformer(model.A, model.B, model.V, model.b, k=model.k)
    moved, expected = model.transform(R), plain.transform(R)
    assert isinstance(moved.heads, FactoredHeads)
    for key in ("A", "B", "V", "b", "k"):
        np.testing.assert_allclose(getattr(moved, key), getattr(expected, key), 1e-10, 1e-10)


def test_arguments_are_copied_and_results_read_only():
    given_weights = weights()
    before = {key: value.copy() for key, value in given_weights.items()}
    model = from_weights(**given_weights)
    for key, value in given_weights.items():
        np.testing.assert_array_equal(value, before[key])
        value[...] = 0
    assert model == from_weights(**before)
    for array in (*model.heads.arrays, model.A, model.b, model.k, model.V, model.B):
        assert not array.flags.writeable


# Bad input


@pytest.mark.parametrize(
    ("key", "shape", "words"),
    [
        ("W_Q", (4,), "W_Q: expected shape (any, any, any), heads first, found (4,); "),
        ("W_Q", (0, 2, 4), "W_Q: expected shape (any, any, any), heads first, found (0, 2, 4); "),
        ("W_K", (3, 2, 5), "W_K: expected shape (3, 2, 4), heads first, found (3, 2, 5); "),
        ("W_K", (1, 2, 4), "W_K: expected shape (3, 2, 4), heads first, found (1, 2, 4); "),
        ("W_V", (3, 5, 3), "W_V: expected shape (3, any, 4), heads first, found (3, 5, 3); "),
        ("W_O", (3, 5, 4), "W_O: expected shape (3, 4, 5), heads first, found (3, 5, 4); "),
        ("W_O", (4, 15), "W_O: expected shape (3, 4, 5), heads first, found (4, 15); "),
        ("b_Q", (6,), "b_Q: expected shape (3, 2), one row per head, found (6,); "),
        ("b_Q", (3, 4), "b_Q: expected shape (3, 2), one row per head, found (3, 4); "),
        ("b_V", (3, 2), "b_V: expected shape (3, 5), one row per head, found (3, 2); "),
        ("b_O", (5,), "b_O: expected a vector of 4 entries, found shape (5,); "),
        ("A", (3, 3), "A: expected a 4 x 4 matrix, found shape (3, 3); "),
        ("b", (3, 4), "b: expected a vector of 4 entries, found shape (3, 4); "),
    ],
)
def test_shapes_that_do_not_agree(key, shape, words):
    with pytest.raises(ShapeError) as caught:
        from_weights(**(weights() | {key: np.ones(shape)}))
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", list(weights()))
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda x: x * np.nan, "expected finite numbers"),
        (lambda x: x * np.inf, "expected finite numbers"),
        (lambda x: x * 1j, "expected real numbers, found complex numbers"),
        (lambda x: x > 0, "expected real numbers, found booleans"),
        (lambda x: x.astype(object), "expected real numbers, found objects"),
        (lambda x: "text", "expected real numbers, found entries of type <U4"),
    ],
)
def test_entries_that_are_no_numbers(key, spoil, words):
    given_weights = weights()
    with pytest.raises(ParameterError, match=f"^{key}: {words}.*; "):
        from_weights(**(given_weights | {key: spoil(given_weights[key])}))


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1j, True, "1"])
def test_scales_that_are_no_numbers(scale):
    with pytest.raises(ParameterError, match=r"^scale: expected "):
        from_weights(**weights(), scale=scale)


@pytest.mark.parametrize("dt", [-1, np.nan, None, True, "1", [1.0]])
def test_layer_depths_that_are_none(dt):
    with pytest.raises(ParameterError, match=r"^dt: expected "):
        from_weights(**weights(), dt=dt)


def test_a_name_is_text():
    with pytest.raises(ParameterError, match=r"^name: expected a string, found 3; "):
        from_weights(**weights(), name=3)


# The readers


def test_read_heads():
    assert read_heads(2, "B", 1).shape == (1, 1, 1)
    assert read_heads(np.eye(2), "B", 2).shape == (1, 2, 2)
    pages = np.arange(12.0).reshape(2, 2, 3).transpose(2, 0, 1)
    heads = read_heads(pages, "B", 2)
    assert heads.flags.c_contiguous
    np.testing.assert_array_equal(heads, pages)
    for wrong in (np.ones(2), np.ones((2, 3)), np.ones((0, 2, 2)), np.ones((1, 1, 2, 2)), 1.0):
        with pytest.raises(ShapeError, match=r"^B: expected shape \(2, 2\) or \(h, 2, 2\)"):
            read_heads(wrong, "B", 2)


def test_read_tilts():
    np.testing.assert_array_equal(read_tilts(None, 2, 3), np.zeros((2, 3)))
    for one in ([1, 2, 3], [[1, 2, 3]], [[1], [2], [3]]):
        np.testing.assert_array_equal(read_tilts(one, 1, 3), [[1, 2, 3]])
    many = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(read_tilts(many, 2, 3), many)
    with pytest.raises(ShapeError, match=r"^k: expected shape \(2, 3\).*found \(3, 2\); "):
        read_tilts(many.T, 2, 3)


def test_read_layer_depth_and_label():
    assert read_layer_depth(np.int64(2)) == read_layer_depth(np.array(2.0)) == 2.0
    assert type(read_layer_depth(0)) is float
    assert read_label(None) is None
    assert read_label("") == ""


def test_read_weights_gives_heads_tilts_and_bias():
    kept = {key: value for key, value in weights().items() if key not in ("A", "b")}
    heads, k, bias = read_weights(**kept, scale=1.0)
    assert isinstance(heads, FactoredHeads)
    assert (heads.n_heads, heads.dim, k.shape, bias.shape) == (3, 4, (3, 4), (4,))


def test_heads_side_by_side_are_split():
    rng = np.random.default_rng(0)
    Q, K, U = rng.normal(size=(3, 6, 4))
    O, b_Q, b_V = rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=6)
    split = gct.GaussianTransformer.from_weights(
        *(W.reshape(3, 2, 4) for W in (Q, K, U)),
        O.reshape(4, 3, 2).transpose(1, 0, 2),
        b_Q=b_Q.reshape(3, 2),
        b_V=b_V.reshape(3, 2),
    )
    assert gct.GaussianTransformer.from_weights(Q, K, U, O, b_Q=b_Q, b_V=b_V, n_heads=3) == split
    with pytest.raises(gct.ShapeError, match=r"W_Q: expected shape \(h dk, d\) with h = 4"):
        gct.GaussianTransformer.from_weights(Q, K, U, O, n_heads=4)
    with pytest.raises(gct.ParameterError, match="n_heads: expected a positive integer, found 0"):
        gct.GaussianTransformer.from_weights(Q, K, U, O, n_heads=0)
