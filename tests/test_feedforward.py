"""Feed-forward parts and their closures: sampling, algebraic laws, the gap, bad input."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermegauss
from problems import random_covariance, random_model

import gausscontrol as gct
from gausscontrol.tokens import FeedForward
from gausscontrol.tokens.activations import ACTIVATIONS
from gausscontrol.tokens.gap import _kinks

few = settings(derandomize=True, deadline=None, max_examples=8)
seeds = st.integers(0, 10**6)
every = pytest.mark.parametrize("activation", ACTIVATIONS)
both = pytest.mark.parametrize("gated", [False, True])


def draw(rng, activation, gated, dim=3, width=6, scale=1.0):
    gate = None
    if gated:
        gate = (scale * rng.standard_normal((width, dim)), rng.standard_normal(width))
    return FeedForward(
        scale * rng.standard_normal((width, dim)),
        rng.standard_normal(width),
        rng.standard_normal((dim, width)) / np.sqrt(width),
        rng.standard_normal(dim),
        activation,
        gate=gate,
    )


def gaussian(rng, dim=3, **options):
    return rng.standard_normal(dim), random_covariance(rng, dim, **options)


def within(samples, expected, errors=4.0):
    """Whether every mean over the first axis is within some standard errors of what is expected."""
    error = samples.std(axis=0) / np.sqrt(len(samples))
    return (np.abs(samples.mean(axis=0) - expected) <= errors * error + 1e-12).all()


# -- against sampling -----------------------------------------------------------------------------


@every
@both
def test_closure_agrees_with_sampling(activation, gated):
    rng = np.random.default_rng(11)
    part, (mean, S) = draw(rng, activation, gated), gaussian(rng)
    A_eq, b_eq, gap = part.closure(mean, S)
    tokens = mean + rng.standard_normal((100_000, 3)) @ np.linalg.cholesky(S).T
    values = part(tokens)
    assert within(values, A_eq @ mean + b_eq)
    assert within(values[:, :, None] * (tokens - mean)[:, None], A_eq @ S)  # Stein: Cov(f, x)
    rest = values - tokens @ A_eq.T - b_eq
    assert within((rest**2).sum(axis=1), gap**2)


@both
def test_value_is_the_formula(gated):
    rng = np.random.default_rng(3)
    part, x = draw(rng, "silu", gated), rng.standard_normal((5, 3))
    hidden = x @ part.W1.T + part.c1
    g = hidden if not gated else x @ part.gate[0].T + part.gate[1]
    h = g / (1 + np.exp(-g)) * (hidden if gated else 1)
    np.testing.assert_allclose(part(x), h @ part.W2.T + part.c2)
    np.testing.assert_allclose(part(x[0]), part(x)[0])


def test_many_tokens_are_taken_in_blocks(monkeypatch):
    rng = np.random.default_rng(4)
    part, x = draw(rng, "gelu", True), rng.standard_normal((50, 3))
    whole = part(x)
    monkeypatch.setattr("gausscontrol.tokens.feedforward.CHUNK", 20)
    np.testing.assert_allclose(part(x), whole, rtol=1e-14)


# -- laws -----------------------------------------------------------------------------------------


@few
@given(seeds)
def test_identity_is_its_own_closure(seed):
    rng = np.random.default_rng(seed)
    part, (mean, S) = draw(rng, "identity", False), gaussian(rng)
    A_eq, b_eq, gap = part.closure(mean, S)
    np.testing.assert_allclose(A_eq, part.W2 @ part.W1, atol=1e-13)
    np.testing.assert_allclose(b_eq, part.W2 @ part.c1 + part.c2, atol=1e-12)
    assert gap == 0


@few
@given(seeds, st.sampled_from(list(ACTIVATIONS)), st.booleans())
def test_closure_in_other_coordinates(seed, activation, gated):
    rng = np.random.default_rng(seed)
    part, (mean, S) = draw(rng, activation, gated), gaussian(rng)
    R = np.eye(3) + 0.3 * rng.standard_normal((3, 3))
    Q = np.linalg.qr(R)[0]
    A_eq, b_eq, gap = part.closure(mean, S)
    moved = part.transform(R).closure(R @ mean, R @ S @ R.T)
    scale = np.linalg.cond(R) * (1 + np.abs(A_eq).max() + np.abs(b_eq).max())
    np.testing.assert_allclose(moved.A_eq @ R, R @ A_eq, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(moved.b_eq, R @ b_eq, rtol=0, atol=1e-10 * scale)
    turned = part.transform(Q).gap(Q @ mean, Q @ S @ Q.T)
    here = part.gap(mean, S)
    assert here.value == gap
    assert abs(turned.value - gap) <= turned.error + here.error + 1e-10 * gap


@few
@given(seeds, st.sampled_from(list(ACTIVATIONS)), st.booleans(), st.booleans())
def test_gap_against_quadrature_in_token_space(seed, activation, gated, singular):
    # Two tokens dimensions, where E|f - affine|^2 can be integrated as it stands.
    rng = np.random.default_rng(seed)
    part = draw(rng, activation, gated, dim=2, width=5, scale=0.4)
    mean, S = gaussian(rng, 2, condition=3.0)
    S = S / np.trace(S)
    L = np.linalg.cholesky(S) * (np.array([1.0, 0.0]) if singular else 1.0)
    S = L @ L.T
    A_eq, b_eq, gap = part.closure(mean, S)
    e, w = hermegauss(100)
    x = mean + np.stack(np.meshgrid(e, e, indexing="ij"), axis=-1).reshape(-1, 2) @ L.T
    weight = np.outer(w, w).reshape(-1) / (2 * np.pi)
    square = weight @ ((part(x) - x @ A_eq.T - b_eq) ** 2).sum(axis=1)
    tolerance = 2e-2 if activation == "relu" else 1e-7  # a kink slows plain quadrature down
    np.testing.assert_allclose(gap, np.sqrt(square), rtol=tolerance, atol=1e-9)


@few
@given(seeds, st.sampled_from(list(ACTIVATIONS)))
def test_constant_gate_is_no_gate(seed, activation):
    # act(c) * (W1 x + c1) is affine; and u = 1 leaves act(g).
    rng = np.random.default_rng(seed)
    mean, S = gaussian(rng)
    zero, W1, W2 = np.zeros((6, 3)), rng.standard_normal((6, 3)), rng.standard_normal((3, 6))
    affine = FeedForward(W1, None, W2, None, activation, gate=(zero, np.ones(6)))
    value = ACTIVATIONS[activation](np.ones(1))
    closure = affine.closure(mean, S)
    np.testing.assert_allclose(closure.A_eq, value * W2 @ W1, atol=1e-12)
    assert closure.gap == 0
    plain = FeedForward(W1, None, W2, None, activation)
    gated = FeedForward(zero, np.ones(6), W2, None, activation, gate=(W1, None))
    first, second = plain.gap(mean, S), gated.gap(mean, S)
    assert abs(first.value - second.value) <= first.error + second.error + 1e-12
    for one, two in zip(plain.closure(mean, S)[:2], gated.closure(mean, S)[:2], strict=True):
        np.testing.assert_allclose(one, two, atol=1e-11)


# -- edges ----------------------------------------------------------------------------------------


@every
@both
def test_point_mass_is_exact(activation, gated):
    rng = np.random.default_rng(5)
    part, mean = draw(rng, activation, gated), rng.standard_normal(3)
    A_eq, b_eq, gap = part.closure(mean, np.zeros((3, 3)))
    np.testing.assert_allclose(A_eq @ mean + b_eq, part(mean), atol=1e-13)
    slopes = [(part(mean + h) - part(mean - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(A_eq, np.stack(slopes, axis=1), atol=1e-7)
    assert gap == 0


def test_relu_on_its_kink_without_variance():
    part = FeedForward(np.eye(2), None, np.eye(2), None)
    A_eq, b_eq, gap = part.closure(np.zeros(2), np.diag([1.0, 0.0]))
    np.testing.assert_allclose(A_eq, np.eye(2) / 2)
    np.testing.assert_allclose(b_eq, [1 / np.sqrt(2 * np.pi), 0])
    np.testing.assert_allclose(gap, np.sqrt(0.25 - 0.5 / np.pi))


@pytest.mark.parametrize("correlation", [-1.0, -0.7, 0.0, 0.3, 0.5, 0.51, 0.9, 1.0])
def test_relu_pair_is_the_arc_cosine_kernel(correlation):
    # Known at mean zero: E relu relu = (sqrt(1 - r^2) + r (pi - arccos r)) / (2 pi).
    r = np.array([correlation])
    second = (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r))) / (2 * np.pi)
    found = _kinks(r, np.zeros(1), np.zeros(1))
    np.testing.assert_allclose(found, second - 1 / (2 * np.pi) - r / 4, atol=1e-15)


def test_gap_of_a_quadratic_part():
    # x^2 has variance 2 s^4 beyond its affine part.
    part = FeedForward([[1.0]], None, [[1.0]], None, "identity", gate=([[1.0]], None))
    gap = part.gap([3.0], [[4.0]])
    np.testing.assert_allclose(gap.value, np.sqrt(2) * 4)
    assert gap.error < 1e-13
    np.testing.assert_allclose(part.closure([3.0], [[4.0]]).A_eq, 6)


def test_gap_of_a_nearly_linear_part_keeps_its_digits():
    # The gap of tanh at a small spread s is s^3 / 3 sqrt(6) E-third-derivative: no cancellation.
    part = FeedForward([[1.0]], None, [[1.0]], None, "tanh")
    s = 1e-4
    np.testing.assert_allclose(part.gap([0.0], [[s * s]]).value, 2 * s**3 / np.sqrt(6), rtol=1e-4)


@pytest.mark.parametrize("mean", [0.3, 1e6 + 0.3, 1e8, 1e10])
def test_gap_of_a_gated_unit_far_from_the_bend(mean):
    # silu(g) is g there, and g u with independent factors of deviation 1 has a gap of 1.
    part = FeedForward([[0, 1.0]], None, [[1.0], [0]], None, "silu", gate=([[1.0, 0]], None))
    gap = part.gap([mean, mean], np.eye(2))
    if mean > 1:
        assert abs(gap.value - 1) <= gap.error + 1e-15
        assert gap.error < 1e-13
    else:
        e, w = hermegauss(80)
        x = mean + np.stack(np.meshgrid(e, e, indexing="ij"), axis=-1).reshape(-1, 2)
        weight = np.outer(w, w).reshape(-1) / (2 * np.pi)
        A_eq, b_eq, _ = part.closure([mean, mean], np.eye(2))
        square = weight @ ((part(x) - x @ A_eq.T - b_eq) ** 2).sum(axis=1)
        assert gap.value == pytest.approx(np.sqrt(square), rel=1e-9)


@every
@pytest.mark.parametrize("mean", [1e12, -1e12])
def test_gap_far_from_the_bend_is_zero(activation, mean):
    part = FeedForward([[1.0]], None, [[1.0]], None, activation)
    gap = part.gap([mean], [[1.0]])
    assert gap.value <= gap.error <= 1e-300


@pytest.mark.parametrize("activation", ["tanh", "gelu", "silu", "sigmoid", "gelu_tanh"])
@pytest.mark.parametrize("s", [1e-8, 1e-6, 1e-3])
def test_gap_of_a_narrow_unit(activation, s):
    # s^2 act''(m) / sqrt(2) to first order.
    part = FeedForward([[1.0]], None, [[1.0]], None, activation)
    bend = ACTIVATIONS[activation].derivatives(np.array([0.7]), 2)[2][0]
    gap = part.gap([0.7], [[s * s]])
    assert gap.value == pytest.approx(s * s * abs(bend) / np.sqrt(2), rel=1e-9 + 10 * s * s)
    assert gap.error < 1e-13 * gap.value


def test_narrow_and_wide_units_agree_where_they_meet():
    part = FeedForward([[1.0]], None, [[1.0]], None, "silu", gate=([[1.0]], None))
    low, high = (part.gap([0.7], [[s * s]]).value / s**2 for s in (0.05 - 1e-9, 0.05 + 1e-9))
    assert low == pytest.approx(high, rel=1e-9)


def test_gap_does_not_depend_on_units():
    scaled = FeedForward(np.diag([1, 1e8]), None, np.eye(2), None)
    plain = FeedForward(np.eye(2), None, np.eye(2), None)
    found = scaled.gap([0, 0], np.diag([1, 1e-16])).value
    assert found == pytest.approx(plain.gap([0, 0], np.eye(2)).value, rel=1e-12)


def test_kink_without_variance_in_turned_coordinates():
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    S = Q @ np.diag([1.0, 2.0, 0.0]) @ Q.T
    part = FeedForward(Q.T, None, np.eye(3), None)  # the third unit sees no variance
    A_eq, b_eq, _ = part.closure(np.zeros(3), (S + S.T) / 2)
    np.testing.assert_allclose(b_eq[2], 0, atol=1e-15)
    np.testing.assert_allclose(A_eq[2], Q[:, 2] / 2, atol=1e-15)


def test_opposite_units_cancel():
    # relu(x) - relu(-x) = x
    part = FeedForward([[1.0], [-1.0]], None, [[1.0, -1.0]], None)
    gap = part.gap([0.2], [[1.0]])
    assert gap.value <= gap.error
    assert gap.error < 1e-4
    np.testing.assert_allclose(part.closure([0.2], [[1.0]]).A_eq, 1)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@both
def test_gap_does_not_depend_on_blocks(activation, gated, monkeypatch):
    rng = np.random.default_rng(8)
    part, (mean, S) = draw(rng, activation, gated, width=9), gaussian(rng)
    whole = part.gap(mean, S)
    monkeypatch.setattr("gausscontrol.tokens.gap.CHUNK", 20)
    small = part.gap(mean, S)
    assert abs(whole.value - small.value) <= whole.error + small.error
    assert str(whole).startswith("Gap ")


def test_frozen_model_moves_as_the_closure():
    rng = np.random.default_rng(6)
    part, (mean, S) = draw(rng, "gelu", False), gaussian(rng)
    model = random_model(rng, 3, 2, tilted=True)
    frozen = part.frozen(model, mean, S)
    A_eq, b_eq, _ = part.closure(mean, S)
    np.testing.assert_array_equal(frozen.A, model.A + A_eq)
    np.testing.assert_array_equal(frozen.b, model.b + b_eq)
    np.testing.assert_array_equal(frozen.V, model.V)


# -- the object -----------------------------------------------------------------------------------


@both
def test_immutable_equal_and_pickled(gated):
    part = draw(np.random.default_rng(0), "silu", gated)
    with pytest.raises(AttributeError, match="immutable"):
        part.W1 = np.eye(3)
    with pytest.raises(AttributeError, match="immutable"):
        del part.W1
    with pytest.raises(ValueError, match="read-only"):
        part.W1[0, 0] = 1.0
    copy = pickle.loads(pickle.dumps(part))
    assert copy == part
    assert hash(copy) == hash(part)
    assert part != draw(np.random.default_rng(0), "tanh", gated)
    assert part != draw(np.random.default_rng(0), "silu", not gated)
    assert part != 1
    expected = "FeedForward(d = 3, width = 6, silu" + (", gated)" if gated else ")")
    assert repr(part) == expected


def test_arguments_are_not_changed():
    W1, W2 = np.ones((4, 2)), np.ones((2, 4))
    FeedForward(W1, None, W2, None)
    assert W1.flags.writeable
    assert W2.flags.writeable


def bad_calls():
    W1, W2 = np.ones((4, 2)), np.ones((2, 4))
    good = FeedForward(W1, None, W2, None)
    model = gct.GaussianTransformer(np.eye(3), np.eye(3), np.eye(3))
    return {
        "W2": lambda: FeedForward(W1, None, W2.T, None),
        "W1": lambda: FeedForward(np.ones(4), None, W2, None),
        "c1": lambda: FeedForward(W1, np.ones(2), W2, None),
        "c2": lambda: FeedForward(W1, None, W2, np.ones(4)),
        "activation": lambda: FeedForward(W1, None, W2, None, "swish"),
        "gate": lambda: FeedForward(W1, None, W2, None, gate=W1),
        "gate W_g": lambda: FeedForward(W1, None, W2, None, gate=(W1.T, None)),
        "gate c_g": lambda: FeedForward(W1, None, W2, None, gate=(W1, np.ones(2))),
        "tokens": lambda: good(np.ones((5, 3))),
        "Gaussian mean": lambda: good.closure(np.ones(3), np.eye(2)),
        "Gaussian covariance": lambda: good.closure(np.ones(2), -np.eye(2)),
        "R": lambda: good.transform(np.ones((2, 2))),
        "feedforward": lambda: good.frozen(model, np.zeros(3), np.eye(3)),
        "model": lambda: good.frozen(np.eye(2), np.zeros(2), np.eye(2)),
    }


@pytest.mark.parametrize("argument", bad_calls())
def test_bad_input_is_named(argument):
    with pytest.raises((gct.ShapeError, gct.ParameterError), match=f"^{argument}: expected"):
        bad_calls()[argument]()
