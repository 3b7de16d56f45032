"""Streamed attention against plain softmax from the weights, and its limit of many tokens."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.tokens import attention
from gausscontrol.tokens.attention import effective_fraction, logit_deviation, softmax_attention

few = settings(max_examples=15, deadline=None, derandomize=True)


def random_weights(rng, heads=3, width=2, dim=5, scale=0.6):
    shapes = ((heads, width, dim),) * 3 + ((heads, dim, width),)
    weights = [scale * rng.normal(size=shape) for shape in shapes]
    return [*weights, rng.normal(size=(heads, width))]


def model_of(W_Q, W_K, W_V, W_O, b_Q):
    return gct.GaussianTransformer.from_weights(W_Q, W_K, W_V, W_O, b_Q=b_Q)


def weights_of(model, tokens, causal=False):
    """Softmax weights of every head, (h, N, N), from B and k."""
    logits = np.einsum("hni,mi->hnm", tokens @ model.B.swapaxes(1, 2) + model.k[:, None], tokens)
    if causal:
        logits[:, ~np.tri(len(tokens), dtype=bool)] = -np.inf
    p = np.exp(logits - logits.max(axis=2, keepdims=True))
    return p / p.sum(axis=2, keepdims=True)


def block(tokens, W_Q, W_K, W_V, W_O, b_Q, causal=False, b_K=0.0):
    """The attention block as frameworks write it, head by head."""
    out = np.zeros_like(tokens)
    for Q, K, V, O, b in zip(W_Q, W_K, W_V, W_O, b_Q, strict=True):
        logits = (tokens @ Q.T + b) @ (tokens @ K.T + b_K).T / np.sqrt(len(Q))
        if causal:
            logits[~np.tri(len(tokens), dtype=bool)] = -np.inf
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        out += (p / p.sum(axis=1, keepdims=True)) @ (tokens @ V.T) @ O.T
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.3, 3.0, 20.0])  # logits to 1, to 100, and beyond exp
@pytest.mark.parametrize("count", [2, 255, 1500])
def test_streamed_attention_is_the_attention_block(count, scale, causal):
    rng = np.random.default_rng(count)
    weights = random_weights(rng)
    tokens = scale * rng.normal(size=(count, 5)) + 1
    expected = block(tokens, *weights, causal=causal)
    factored = model_of(*weights)
    dense = gct.GaussianTransformer(factored.A, factored.B, factored.V, k=factored.k)
    for model in (factored, dense):
        found = softmax_attention(model.heads, model.k, tokens, causal=causal)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_wide_factors_and_free_tilts():
    # More hidden than token dimensions, and a k outside the range of the keys.
    rng = np.random.default_rng(1)
    tokens = rng.normal(size=(300, 3))
    wide = model_of(*random_weights(rng, width=7, dim=3))
    free = model_of(*random_weights(rng, heads=2, width=1, dim=3)).replace(
        k=rng.normal(size=(2, 3))
    )
    for model in (wide, free):
        expected = sum(
            p @ tokens @ V.T for p, V in zip(weights_of(model, tokens), model.V, strict=True)
        )
        np.testing.assert_allclose(
            softmax_attention(model.heads, model.k, tokens), expected, rtol=0, atol=1e-12
        )


def test_key_bias_drops_out_of_the_softmax():
    rng = np.random.default_rng(2)
    weights = random_weights(rng)
    tokens = rng.normal(size=(50, 5))
    np.testing.assert_allclose(
        block(tokens, *weights, b_K=rng.normal(size=2)), block(tokens, *weights), atol=1e-13
    )


@few
@given(st.integers(0, 10_000), st.floats(-100, 100))
def test_translation_laws(seed, size):
    # Moving all tokens by c moves logits by <B c, x_j> and averages by c: k -> k - B c undoes it.
    rng = np.random.default_rng(seed)
    model = model_of(*random_weights(rng))
    tokens, c = rng.normal(size=(40, 5)), size * rng.normal(size=5)
    found = softmax_attention(model.heads, model.k - model.B @ c, tokens + c)
    expected = softmax_attention(model.heads, model.k, tokens) + model.heads.total @ c
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * (1 + abs(size)))


@few
@given(st.integers(0, 10_000), st.booleans())
def test_permutation_equivariance(seed, dense):
    rng = np.random.default_rng(seed)
    model = model_of(*random_weights(rng))
    if dense:
        model = gct.GaussianTransformer(model.A, model.B, model.V, k=model.k)
    tokens, order = 2 * rng.normal(size=(400, 5)), rng.permutation(400)
    np.testing.assert_allclose(
        softmax_attention(model.heads, model.k, tokens[order]),
        softmax_attention(model.heads, model.k, tokens)[order],
        rtol=0,
        atol=1e-11,
    )


@few
@given(st.integers(0, 10_000))
def test_coordinate_change(seed):
    rng = np.random.default_rng(seed)
    model = model_of(*random_weights(rng))
    R = np.eye(5) + 0.2 * rng.normal(size=(5, 5))
    tokens = rng.normal(size=(60, 5))
    moved = model.transform(R)
    np.testing.assert_allclose(
        softmax_attention(moved.heads, moved.k, tokens @ R.T),
        softmax_attention(model.heads, model.k, tokens) @ R.T,
        atol=1e-9,
    )


def test_causal_attention_reads_no_later_token():
    rng = np.random.default_rng(3)
    model = model_of(*random_weights(rng))
    tokens = rng.normal(size=(1100, 5))  # more than one block of queries and of keys
    whole = softmax_attention(model.heads, model.k, tokens, causal=True)
    for count in (1, 300, 1050):
        part = softmax_attention(model.heads, model.k, tokens[:count], causal=True)
        np.testing.assert_allclose(whole[:count], part, atol=1e-12)
    np.testing.assert_allclose(whole[0], model.heads.total @ tokens[0], atol=1e-13)


def test_many_tokens_tend_to_the_gaussian_form():
    # sum_h V_h (mu + Sigma (B_h x + k_h)), at five queries among ever more keys.
    rng = np.random.default_rng(4)
    model = model_of(*random_weights(rng, scale=0.4)).replace(k=0.3 * rng.normal(size=(3, 5)))
    L, mu = 0.3 * rng.normal(size=(5, 5)), rng.normal(size=5)
    x = mu + rng.normal(size=(5, 5)) @ L.T
    expected = sum(
        (mu + (x @ B.T + k) @ (L @ L.T)) @ V.T
        for V, B, k in zip(model.V, model.B, model.k, strict=True)
    )
    errors = []
    for count in (1_000, 64_000):
        keys = mu + rng.normal(size=(count, 5)) @ L.T
        found = 0.0
        for V, B, k in zip(model.V, model.B, model.k, strict=True):
            p = np.exp((x @ B.T + k) @ keys.T)
            found = found + (p / p.sum(axis=1, keepdims=True)) @ keys @ V.T
        errors.append(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    assert errors[1] < 0.01
    assert errors[1] < errors[0] / 3


def test_head_without_values_is_skipped():
    rng = np.random.default_rng(5)
    tokens = rng.normal(size=(30, 2))
    one = gct.GaussianTransformer(np.eye(2), np.eye(2), np.eye(2))
    two = gct.GaussianTransformer(
        np.eye(2), [np.eye(2), 90 * np.eye(2)], [np.eye(2), np.zeros((2, 2))]
    )
    np.testing.assert_array_equal(
        softmax_attention(one.heads, one.k, tokens), softmax_attention(two.heads, two.k, tokens)
    )
    fractions = effective_fraction(two.heads, two.k, tokens)
    assert fractions[1] == 1
    assert fractions[0] == effective_fraction(one.heads, one.k, tokens)[0]
    deviations = logit_deviation(two.heads, two.k, np.zeros(2), np.eye(2))
    np.testing.assert_allclose(deviations, [np.sqrt(2), 0])


@pytest.mark.parametrize("causal", [False, True])
def test_effective_fraction_counts_weights(causal, monkeypatch):
    rng = np.random.default_rng(6)
    model = model_of(*random_weights(rng))
    tokens = rng.normal(size=(90, 5))
    p = weights_of(model, tokens, causal)
    keys = np.arange(1, 91) if causal else 90
    expected = (1 / (keys * (p**2).sum(axis=2))).mean(axis=1)
    found = effective_fraction(model.heads, model.k, tokens, causal=causal)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    monkeypatch.setattr(attention, "CHUNK", 200)
    again = effective_fraction(model.heads, model.k, tokens, causal=causal)
    np.testing.assert_allclose(again, expected, rtol=1e-12)


def test_effective_fraction_of_gaussian_tokens():
    # For fixed logit deviation s of one query it is exp(-s^2), Theory 8.3.
    tokens = np.random.default_rng(7).normal(size=(200_000, 1))
    weights = np.exp(0.7 * tokens[:, 0])
    assert weights.mean() ** 2 / (weights**2).mean() == pytest.approx(np.exp(-0.49), rel=0.02)


def test_logit_deviation_is_that_of_the_logits():
    rng = np.random.default_rng(8)
    weights = random_weights(rng)
    tokens = rng.normal(size=(70, 5)) + 0.5
    mean, covariance = tokens.mean(axis=0), np.cov(tokens.T, bias=True)
    for model in (
        model_of(*weights),
        model_of(*weights).replace(k=rng.normal(size=(3, 5))),
        gct.GaussianTransformer(np.eye(5), rng.normal(size=(3, 5, 5)), rng.normal(size=(3, 5, 5))),
    ):
        queries = tokens @ model.B.swapaxes(1, 2) + model.k[:, None]
        logits = queries @ tokens.T
        expected = np.sqrt(logits.var(axis=2).mean(axis=1))
        found = logit_deviation(model.heads, model.k, mean, covariance)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_memory_grows_with_the_number_of_tokens_only():
    # 6,000 tokens would make a matrix of 288 MB.
    tokens = np.random.default_rng(9).normal(size=(6_000, 4))
    model = gct.GaussianTransformer(np.zeros((4, 4)), 0.2 * np.eye(4), np.eye(4))
    tracemalloc.start()
    softmax_attention(model.heads, model.k, tokens)
    effective_fraction(model.heads, model.k, tokens)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_sampled_queries_do_not_keep_step_with_the_tokens():
    # Every other token is elsewhere: a stride over the queries would see one half only.
    rng = np.random.default_rng(3)
    model = gct.GaussianTransformer(0, 3.0, 1.0)
    x = np.where(np.arange(1024) % 2, 3.0, 0.0)[:, None] + 0.3 * rng.normal(size=(1024, 1))
    weights = weights_of(model, x)[0]
    exact = np.mean(1 / np.sum(weights**2, axis=1)) / 1024
    found = effective_fraction(model.heads, model.k, x)[0]
    assert found == pytest.approx(exact, rel=0.1)


def test_masked_deviation_of_each_head():
    rng = np.random.default_rng(4)
    model, x = model_of(*random_weights(rng)), rng.normal(size=(30, 5)) + 1
    found = attention.masked_deviation(model.heads, model.k, x)
    logits = np.einsum("hni,mi->hnm", x @ model.B.swapaxes(1, 2) + model.k[:, None], x)
    for h in range(3):
        variances = [logits[h, i, : i + 1].var() for i in range(30)]
        assert found[h] == pytest.approx(np.sqrt(np.mean(variances)))
    idle = gct.GaussianTransformer(1, 1, 0)
    assert attention.masked_deviation(idle.heads, idle.k, x[:, :1])[0] == 0
