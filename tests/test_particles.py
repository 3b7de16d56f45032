"""Tokens through layers: against a plain integrator, and against the Gaussian system."""

import control as ct
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import gausscontrol as gct
from gausscontrol.errors import IntegrationError, ParameterError, ShapeError
from gausscontrol.tokens.attention import logit_deviation
from gausscontrol.tokens.closure import closure_system
from gausscontrol.tokens.companion import gaussian_companion
from gausscontrol.tokens.feedforward import FeedForward
from gausscontrol.tokens.particles import TokenTransformer
from gausscontrol.tokens.response import TokenResponse

few = settings(max_examples=10, deadline=None, derandomize=True)


def layer(dim=3, heads=2, dt=0.0, seed=0):
    rng = np.random.default_rng(seed)
    A, *rest = 0.4 * rng.normal(size=(1 + 2 * heads, dim, dim))
    return gct.GaussianTransformer(
        A - 0.3 * np.eye(dim),
        rest[:heads],
        rest[heads:],
        rng.normal(size=dim),
        k=0.3 * rng.normal(size=(heads, dim)),
        dt=dt,
    )


def tokens_of(count, dim=3, seed=1):
    return 0.7 * np.random.default_rng(seed).normal(size=(count, dim))


def plain_field(model, x, part=None, causal=False):
    """x_i' by the definition, token by token."""
    out = np.empty_like(x)
    for i, token in enumerate(x):
        seen = x[: i + 1] if causal else x
        out[i] = model.A @ token + model.b
        for V, B, k in zip(model.V, model.B, model.k, strict=True):
            p = np.exp(seen @ (B @ token + k))
            out[i] += V @ (p @ seen) / p.sum()
    return out if part is None else out + part(x)


def relu_part(dim=3, seed=3):
    rng = np.random.default_rng(seed)
    W1, W2 = 0.4 * rng.normal(size=(6, dim)), 0.4 * rng.normal(size=(dim, 6))
    return FeedForward(W1, rng.normal(size=6), W2, rng.normal(size=dim), "relu")


# -- the field and the march ----------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_field_is_the_definition(causal):
    model, part, x = layer(), relu_part(), tokens_of(40)
    found = TokenTransformer(model, part, causal=causal).field(x)
    np.testing.assert_allclose(found, plain_field(model, x, part, causal), atol=1e-13)


def test_continuous_depth_is_the_flow():
    model, x = layer(), tokens_of(12)
    depths = np.array([1.0, 1.3, 2.5])
    response = TokenTransformer(model, causal=True).simulate(x, depths, keep=depths, rtol=1e-10)
    exact = solve_ivp(
        lambda t, y: plain_field(model, y.reshape(12, 3), causal=True).ravel(),
        (1.0, 2.5),
        x.ravel(),
        t_eval=depths,
        rtol=1e-11,
        atol=1e-12,
    ).y.reshape(12, 3, 3)
    np.testing.assert_allclose(response.tokens, exact, atol=1e-8)
    np.testing.assert_allclose(response.mean, exact.mean(axis=0), atol=1e-8)
    for n in range(3):
        covariance = np.cov(exact[:, :, n].T, bias=True)
        np.testing.assert_allclose(response.covariance[:, :, n], covariance, atol=1e-8)


def test_many_tokens_are_marched_within_tolerance():
    # Beyond 2,000 numbers another integrator is used.
    model, x = layer(heads=1), tokens_of(700)
    coarse, fine = (
        TokenTransformer(model).simulate(x, [0, 0.4, 0.8], keep=[0.4, 0.8], rtol=rtol)
        for rtol in (1e-4, 1e-7)
    )
    np.testing.assert_allclose(coarse.tokens, fine.tokens, atol=1e-3)
    np.testing.assert_array_equal(coarse.token_depths, [0.4, 0.8])


def test_residual_layers_are_steps():
    model, part, x = layer(dt=0.25), relu_part(), tokens_of(15)
    response = TokenTransformer(model, part).simulate(x, [0.5, 1.0, 1.75], keep=[0.5, 1.75])
    np.testing.assert_array_equal(response.tokens[:, :, 0], x)
    for _ in range(5):
        x = x + 0.25 * plain_field(model, x, part)
    np.testing.assert_allclose(response.tokens[:, :, 1], x, atol=1e-12)


def test_stack_is_its_layers_one_after_another():
    flow, step = layer(seed=5), layer(heads=1, dt=0.5, seed=6)
    stack = gct.LayerStack([step, flow, step], [0.5, 0.8, 0.5])
    parts = [relu_part(), None, np.tanh]
    x = tokens_of(30)
    whole = TokenTransformer(stack, parts).simulate(
        x, [0, 0.5, 0.9, 1.8], keep=[0.9, 1.8], rtol=1e-9
    )
    x = x + 0.5 * plain_field(step, x, parts[0])
    middle = TokenTransformer(flow).simulate(x, [0, 0.4, 0.8], keep=[0.4, 0.8], rtol=1e-9)
    np.testing.assert_allclose(whole.tokens[:, :, 0], middle.tokens[:, :, 0], atol=1e-7)
    x = middle.tokens[:, :, 1]
    x = x + 0.5 * plain_field(step, x, parts[2])
    np.testing.assert_allclose(whole.tokens[:, :, 1], x, atol=1e-7)
    assert whole.gaussian is whole.gap is whole.relative_gap is None
    assert "no closure" in str(whole)


def test_stack_may_be_entered_and_left_between():
    stack = gct.LayerStack([layer(seed=5), layer(seed=6)], [1.0, 1.0])
    x = tokens_of(30)
    part = TokenTransformer(stack).simulate(x, [0.4, 1.0, 1.5], rtol=1e-9)
    x = TokenTransformer(stack[0]).simulate(x, [0.4, 1.0], rtol=1e-9).tokens[:, :, 0]
    x = TokenTransformer(stack[1]).simulate(x, [1.0, 1.5], rtol=1e-9).tokens[:, :, 0]
    np.testing.assert_allclose(part.tokens[:, :, 0], x, atol=1e-7)


def test_logits_of_a_stack_are_those_of_the_next_layer():
    stack = gct.LayerStack([layer(dt=1.0), layer(dt=1.0).replace(B=np.zeros((2, 3, 3)))])
    response = TokenTransformer(stack).simulate(tokens_of(20), [0, 1, 2])
    for n, i in enumerate((0, 1, 1)):
        moments = response.mean[:, n], response.covariance[:, :, n]
        expected = logit_deviation(stack[i].heads, stack[i].k, *moments).max()
        assert response.logit_std[n] == pytest.approx(expected)


# -- laws -----------------------------------------------------------------------------------------


@few
@given(st.integers(0, 10_000))
def test_permuting_tokens_permutes_the_response(seed):
    rng = np.random.default_rng(seed)
    model, x, order = layer(dt=0.2, seed=seed), tokens_of(60, seed=seed), rng.permutation(60)
    one, two = (TokenTransformer(model).simulate(y, [0, 1]) for y in (x, x[order]))
    np.testing.assert_allclose(two.tokens, one.tokens[order], atol=1e-11)
    np.testing.assert_allclose(two.covariance, one.covariance, atol=1e-11)


@few
@given(st.integers(0, 10_000))
def test_moving_the_origin(seed):
    # x -> x + c with k -> k - B c and b -> b - (A + Vbar) c moves every token by c, at all depths.
    c = np.random.default_rng(seed).normal(size=3)
    model, x = layer(seed=seed), tokens_of(20, seed=seed)
    moved = model.replace(k=model.k - model.B @ c, b=model.b - (model.A + model.V.sum(axis=0)) @ c)
    one = TokenTransformer(model).simulate(x, [0, 1.0], rtol=1e-10)
    two = TokenTransformer(moved).simulate(x + c, [0, 1.0], rtol=1e-10)
    np.testing.assert_allclose(two.tokens[..., 0], one.tokens[..., 0] + c, atol=1e-7)
    np.testing.assert_allclose(two.gap, one.gap, atol=1e-6)


@few
@given(st.integers(0, 10_000))
def test_other_coordinates(seed):
    R = np.eye(3) + 0.2 * np.random.default_rng(seed).normal(size=(3, 3))
    model, x = layer(dt=0.5, seed=seed), tokens_of(20, seed=seed)
    one = TokenTransformer(model).simulate(x, [0, 1.0])
    two = TokenTransformer(model.transform(R)).simulate(x @ R.T, [0, 1.0])
    np.testing.assert_allclose(two.tokens[..., 0], one.tokens[..., 0] @ R.T, atol=1e-8)


def test_causal_response_of_the_first_tokens():
    model, x = layer(dt=0.3), tokens_of(50)
    whole = TokenTransformer(model, causal=True).simulate(x, [0, 0.9])
    part = TokenTransformer(model, causal=True).simulate(x[:20], [0, 0.9])
    np.testing.assert_allclose(whole.tokens[:20], part.tokens, atol=1e-12)
    assert whole.causal
    assert "50 tokens (causal)" in str(whole)


# -- beside the Gaussian system -------------------------------------------------------------------


def test_affine_layers_move_sample_moments_exactly():
    model = layer(heads=1).replace(V=np.zeros((1, 3, 3)))
    response = TokenTransformer(model).simulate(tokens_of(200), [0, 1, 2], rtol=1e-9)
    assert response.gap.max() < 1e-7
    np.testing.assert_allclose(
        response.gaussianity.skewness, response.gaussianity.skewness[0], rtol=1e-6
    )
    np.testing.assert_array_equal(response.effective_fraction, 1)
    np.testing.assert_array_equal(response.logit_std, 0)


def test_uniform_attention_is_gaussian_for_any_tokens():
    # B = 0: attention is the mean, for every number of tokens.
    model = layer().replace(B=np.zeros((2, 3, 3)), k=np.zeros((2, 3)))
    response = TokenTransformer(model).simulate(tokens_of(5), [0, 1.5], rtol=1e-10)
    assert response.gap.max() < 1e-7


def test_gap_falls_as_one_over_root_n():
    model = layer(dim=2, heads=1, dt=0.25, seed=8)
    sizes, seeds = (100, 400, 1600), range(8)
    gaps = np.array(
        [
            [
                TokenTransformer(model).simulate(tokens_of(n, 2, seed=100 * s + n), [0, 1]).gap[-1]
                for s in seeds
            ]
            for n in sizes
        ]
    )
    X = np.c_[np.ones(gaps.size), np.repeat(np.log(sizes), len(seeds))]
    y = np.log(gaps).ravel()
    slope = np.linalg.lstsq(X, y)[0]
    error = np.sqrt(np.sum((y - X @ slope) ** 2) / (y.size - 2) * np.linalg.inv(X.T @ X)[1, 1])
    assert abs(slope[1] + 0.5) < 3 * error
    assert error < 0.12


def test_update_of_a_layer_is_that_of_the_gaussian_system():
    # d = 16, logit deviation 0.3: within 1% at N = 4,000, and in proportion to 1/sqrt(N).
    rng = np.random.default_rng(9)
    d, n = 16, 1000
    B = np.eye(d) + 0.5 * d**-0.5 * rng.normal(size=(d, d))
    x = rng.normal(size=(n, d))
    mean, S = x.mean(axis=0), np.cov(x.T, bias=True)
    model = gct.GaussianTransformer(np.eye(d), B, -np.eye(d), dt=0.1)
    sd = logit_deviation(model.heads, model.k, mean, S)[0]
    model = model.replace(B=0.3 / sd * B)
    response = TokenTransformer(model).simulate(x, [0, 0.1])
    assert response.logit_std[0] == pytest.approx(0.3)
    moved, expected = (r.covariance[:, :, -1] - S for r in (response, response.gaussian))
    assert np.linalg.norm(moved - expected) < 0.01 * np.linalg.norm(expected)


def test_gaussian_escapes_and_tokens_do_not():
    model = gct.GaussianTransformer(np.zeros((2, 2)), np.eye(2), np.eye(2))
    response = TokenTransformer(model).simulate(tokens_of(60, 2), np.linspace(0, 3, 7), rtol=1e-5)
    escape = response.gaussian.blow_up_time
    assert escape < gct.certify_blow_up(model).time_bound(response.covariance[:, :, 0]) < 3
    np.testing.assert_array_equal(np.isinf(response.gap), response.t > escape)
    assert np.isfinite(response.covariance).all()
    assert "escapes at depth" in str(response)
    # Averages lie within the tokens: these grow at most as fast as exp(|V| t).
    assert response.spread[-1] < response.spread[0] * 60**0.5 * np.exp(3)


def test_report_says_from_where_the_gap_is_infinite():
    model = gct.GaussianTransformer(np.zeros((2, 2)), np.eye(2), np.eye(2))
    response = TokenTransformer(model).simulate(tokens_of(60, 2), np.linspace(0, 3, 7), rtol=1e-4)
    escape = response.gaussian.blow_up_time
    rows = [line for line in str(response).splitlines() if "gap" in line]
    assert len(rows) == 2
    for row in rows:
        assert f"infinite from depth {escape:.4g} on" in row
        assert "at last" not in row


def test_masked_logits_are_those_that_a_query_may_see():
    model, x = layer(heads=1), tokens_of(40)
    response = TokenTransformer(model, causal=True).simulate(x, [0, 0.1])
    logits = (x @ model.B[0].T + model.k[0]) @ x.T
    seen = [logits[i, : i + 1] for i in range(40)]
    expected = np.sqrt(np.mean([row.var() for row in seen]))
    assert response.logit_std[0] == pytest.approx(expected, rel=1e-10)
    shares = [np.exp(row).sum() ** 2 / (row.size * np.exp(2 * row).sum()) for row in seen]
    assert response.effective_fraction[0] == pytest.approx(np.mean(shares), rel=1e-10)
    unmasked = TokenTransformer(model).simulate(x, [0, 0.1])
    assert abs(unmasked.logit_std[0] - expected) > 0.01


def test_report_says_what_the_gaussian_system_leaves_out():
    response = TokenTransformer(layer(dt=0.5), causal=True).simulate(tokens_of(20), [0, 0.5])
    assert "neither mask nor layer norm" in str(response)
    assert repr(response).startswith("<TokenResponse of 20 tokens (causal): d = 3, 2 depths")
    plain = TokenTransformer(layer(dt=0.5)).simulate(tokens_of(20), [0, 0.5])
    assert "neither" not in str(plain)
    [row] = [line for line in str(plain).splitlines() if "gap over spread" in line]
    assert "0 at first" in row  # rounding is no distance


@pytest.mark.parametrize("dt", [0.0, 1.0])
def test_tokens_in_one_point_are_no_distance_apart(dt):
    A = 0.2 * np.ones((3, 3)) + 0.1 * np.diag([1, 2, 3])
    model = gct.GaussianTransformer(A, 0.1 * np.eye(3), 0.3 * np.eye(3), dt=dt)
    response = TokenTransformer(model).simulate(np.ones((5, 3)), [0, 1, 2])
    np.testing.assert_array_equal(response.relative_gap, 0)
    np.testing.assert_array_equal(response.effective_rank, 0)
    np.testing.assert_array_equal(response.gaussianity.pvalue, 1)
    assert "one point, to what they are resolved, at depth 0" in str(response)


def test_tokens_that_contract_to_a_point():
    model = gct.GaussianTransformer(-np.eye(2), np.zeros((2, 2)), np.zeros((2, 2)), b=[1 / 3, 0.7])
    response = TokenTransformer(model).simulate(tokens_of(50, 2), [0, 10, 30, 40, 60])
    assert response.relative_gap.max() < 1e-3
    # A Gaussian system that is elsewhere is infinitely many spreads away.
    response.gap[-1] = 1.0
    assert np.isinf(response.relative_gap[-1])


def test_tokens_go_on_where_their_moments_cannot():
    model = gct.GaussianTransformer(1, 1, -1)
    x = 1e100 * tokens_of(20, 1)
    response = TokenTransformer(model).simulate(x, [0, 1e-3])
    assert response.gaussian is None
    assert response.no_gaussian.startswith("it cannot be integrated")
    assert "no Gaussian system: it cannot be integrated" in str(response)


def test_parts_may_not_change_the_tokens():
    def doubled(x):
        x *= 2
        return x

    with pytest.raises(ValueError, match="read-only"):
        TokenTransformer(layer(dt=1.0), doubled).simulate(tokens_of(5), [0, 1])
    same = TokenTransformer(layer(dt=1.0), lambda x: x).simulate(tokens_of(5), [0, 1])
    assert np.isfinite(same.tokens).all()


@pytest.mark.parametrize("dt", [0.0, 1.0])
def test_parts_have_to_be_finite(dt):
    for part in (lambda x: x * np.nan, lambda x: np.where(x > 1, np.inf, 1.0)):
        with pytest.raises(ParameterError, match="feedforward: expected finite values"):
            TokenTransformer(layer(dt=dt), part).simulate(tokens_of(30) + 1, [0, 5])


def test_fields_beyond_the_floating_point_range():
    model = gct.GaussianTransformer(np.eye(2), 1e200 * np.eye(2), -np.eye(2))
    with pytest.raises(IntegrationError, match="timepts: expected a finite rate of change"):
        TokenTransformer(model).simulate(1e60 * tokens_of(20, 2), [0, 0.1])
    with pytest.raises(ParameterError, match="tokens: expected logits and values within"):
        TokenTransformer(model).field(1e60 * tokens_of(20, 2))
    with pytest.raises(ParameterError, match=r"tokens: expected entries up to 1e\+140"):
        TokenTransformer(layer()).field(1e160 * tokens_of(20))


def test_steps_that_get_nowhere_are_counted(monkeypatch):
    monkeypatch.setattr("gausscontrol.tokens.march.MOST_STEPS", 5)
    with pytest.raises(IntegrationError, match=r"5 steps from depth 0 got to .* short of 9"):
        TokenTransformer(layer()).simulate(tokens_of(20), [0, 9])


def test_layer_norm_breaks_the_gaussian_picture():
    model, x = layer(dim=6, heads=1, dt=0.5, seed=2), tokens_of(400, 6)
    normal = TokenTransformer(model, layer_norm=True)
    np.testing.assert_allclose(normal.field(1e3 * x), normal.field(x), atol=1e-3)
    np.testing.assert_allclose(normal.field(x + 5), normal.field(x), atol=1e-11)
    read = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normal.field(x), plain_field(model, read), atol=1e-12)
    response, plain = (t.simulate(x, [0, 0.5]) for t in (normal, TokenTransformer(model)))
    assert response.gap[-1] > 5 * plain.gap[-1]
    assert "layer norm" in str(response)


@pytest.mark.parametrize("dt", [0.0, 0.25])
def test_companion_of_a_feedforward_part_is_the_closure_system(dt):
    model, part, depths = layer(dt=dt), relu_part(), np.array([0, 0.5, 1.0])
    mean, covariance = np.ones(3), np.diag([1.0, 0.5, 0.2])
    found = gaussian_companion(model, (part,), depths, mean, covariance)
    system = closure_system(model, part)
    grid = np.arange(0, 1.1, 0.25)
    options = {} if dt else {"solve_ivp_kwargs": {"rtol": 1e-10, "atol": 1e-10}}
    x = ct.input_output_response(
        system, grid, 0, system.state_vector(mean, covariance), **options
    ).states[:, ::2]
    np.testing.assert_allclose(found.states, x, atol=1e-7)
    assert found.blow_up_time is None
    assert isinstance(found, gct.MomentResponse)


def test_companion_of_a_stack_with_parts():
    stack = gct.LayerStack([layer(dt=0.5), layer(dt=0.5, seed=4)])
    part, mean, covariance = relu_part(), np.ones(3), np.diag([1.0, 0.5, 0.2])
    found = gaussian_companion(stack, (part, None), stack.boundaries, mean, covariance)
    frozen = gct.LayerStack([part.frozen(stack[0], mean, covariance), stack[1]])
    expected = gct.moment_response(frozen, stack.boundaries, (mean, covariance))
    np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)


def test_companion_with_a_part_ends_before_its_escape():
    # The identity as a nonlinear part: x' = x + attention escapes where the model A = 1 does.
    part = FeedForward([[1.0]], None, [[1.0]], None, "identity")
    depths = np.linspace(0, 2, 21)
    found = gaussian_companion(
        gct.GaussianTransformer(0, 1, 1), (part,), depths, np.zeros(1), np.eye(1)
    )
    plain = gaussian_companion(
        gct.GaussianTransformer(1, 1, 1), (None,), depths, np.zeros(1), np.eye(1)
    )
    assert found.blow_up_time == pytest.approx(plain.blow_up_time, abs=1e-6)
    assert abs(found.blow_up_time - np.log(2) / 2) <= max(found.blow_up_error, 1e-7)
    np.testing.assert_allclose(found.covariance, plain.covariance, rtol=1e-6)


def test_nonlinear_part_follows_its_closure():
    rng = np.random.default_rng(10)
    part = FeedForward(0.5 * np.eye(2), None, -0.5 * np.eye(2), None, "tanh")
    model = gct.GaussianTransformer(0.2 * np.eye(2), 0.3 * np.eye(2), -np.eye(2))
    response = TokenTransformer(model, part).simulate(rng.normal(size=(1000, 2)), [0, 1], rtol=1e-4)
    assert response.relative_gap.max() < 0.03


# -- the response, and what is refused ------------------------------------------------------------


def test_response_is_a_time_response():
    response = TokenTransformer(layer()).simulate(tokens_of(30), [0, 0.5, 1])
    assert isinstance(response, TokenResponse)
    assert isinstance(response, ct.TimeResponseData)
    mean, covariance = gct.unpack(response.states)
    np.testing.assert_array_equal(mean, response.mean)
    np.testing.assert_allclose(covariance, response.covariance, atol=1e-15)
    assert response.state_labels[3:5] == ["Sigma[0]", "Sigma[1]"]
    assert response.count == 30
    assert response.tokens.shape == (30, 3, 1)
    for name in ("logit_std", "effective_rank", "cosine_similarity", "clusters", "gap", "spread"):
        assert getattr(response, name).shape == (3,), name
    assert response.gaussianity.pvalue.shape == (3,)
    assert response.gap[0] < 1e-12


def test_collapse_is_seen():
    # Uniform attention that pulls every token to the mean.
    model = gct.GaussianTransformer(-2 * np.eye(2), np.zeros((2, 2)), 2 * np.eye(2))
    response = TokenTransformer(model).simulate(tokens_of(50, 2) + 3, [0, 6])
    assert response.spread[-1] < 1e-4
    assert response.cosine_similarity[-1] > 1 - 1e-8
    point = TokenTransformer(model).simulate(np.ones((5, 2)), [0, 1])
    np.testing.assert_array_equal(point.clusters, 1)
    np.testing.assert_array_equal(point.effective_rank, 0)
    np.testing.assert_allclose(point.relative_gap, 0, atol=1e-6)


@pytest.mark.parametrize("dt", [0.0, 0.5])
def test_tokens_in_one_point_and_on_a_line_with_a_part(dt):
    x = np.zeros((8, 3))
    point = TokenTransformer(layer(dt=dt), relu_part()).simulate(x, [0, 0.5, 1])
    np.testing.assert_allclose(point.gap, 0, atol=1e-5)
    assert point.gaussian.rank == 0
    x[:, 1] = np.arange(8)
    line = TokenTransformer(layer(dt=dt), relu_part()).simulate(x, [0, 0.5, 1])
    assert line.gaussian.rank == 1
    assert np.isfinite(line.gap).all()


def test_inputs_are_not_changed():
    x = tokens_of(10)
    x.flags.writeable = False
    TokenTransformer(layer(dt=0.5)).simulate(x, [0, 1])


def test_tokens_that_leave_the_floating_point_range():
    grows = gct.GaussianTransformer(300 * np.eye(2), np.zeros((2, 2)), np.zeros((2, 2)))
    for model in (grows, grows.replace(dt=1.0)):
        with pytest.raises(IntegrationError, match="timepts: the state grows beyond"):
            TokenTransformer(model).simulate(tokens_of(5, 2), [0, 400])


def test_repr_names_what_is_there():
    assert "causal, layer norm" in repr(TokenTransformer(layer(), causal=True, layer_norm=True))
    assert "feed-forward part" in repr(TokenTransformer(layer(), np.tanh))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.eye(2),), ParameterError, "model: expected a GaussianTransformer or a LayerStack"),
        ((layer(), 3.0), ParameterError, "feedforward: expected a FeedForward or a function"),
        ((layer(), [None, None]), ParameterError, r"one part for each of 1 layer\(s\), found 2"),
        ((layer(), relu_part(2)), ShapeError, "feedforward: expected token dimension 3"),
    ],
)
def test_bad_layers(arguments, error, message):
    with pytest.raises(error, match=message):
        TokenTransformer(*arguments)


def test_bad_flags_and_arguments():
    with pytest.raises(ParameterError, match="causal: expected True or False, found 1"):
        TokenTransformer(layer(), causal=1)
    with pytest.raises(ParameterError, match="layer_norm: expected True or False"):
        TokenTransformer(layer(), layer_norm="pre")
    transformer, x = TokenTransformer(layer(dt=0.5)), tokens_of(10)
    for wrong in (1, 0.5, True):
        with pytest.raises(ParameterError, match="layer: expected one of 1 layers"):
            transformer.field(x, wrong)
    for tolerance in ("rtol", "atol"):
        with pytest.raises(ParameterError, match=f"{tolerance}: expected a .*number"):
            transformer.simulate(x, [0, 0.5], **{tolerance: "small"})
    with pytest.raises(ShapeError, match=r"tokens: expected shape \(N, 3\), found \(10, 2\)"):
        transformer.simulate(x[:, :2], [0, 1])
    with pytest.raises(ParameterError, match="timepts: expected depths a whole number of layers"):
        transformer.simulate(x, [0, 0.7])
    with pytest.raises(ParameterError, match="keep: expected depths among timepts, found"):
        transformer.simulate(x, [0, 0.5], keep=0.7)
    with pytest.raises(ShapeError, match="keep: expected depths in a vector"):
        transformer.simulate(x, [0, 0.5], keep=[])
    with pytest.raises(ParameterError, match="rtol: expected a number between 0 and 1"):
        transformer.simulate(x, [0, 0.5], rtol=0)
    with pytest.raises(ParameterError, match="atol: expected a positive number"):
        transformer.simulate(x, [0, 0.5], atol=-1.0)
    with pytest.raises(ShapeError, match=r"feedforward: expected real values of shape \(10, 3\)"):
        TokenTransformer(layer(), lambda y: y[:, :1]).field(x)
    stack = gct.LayerStack([layer(dt=0.5)])
    with pytest.raises(ParameterError, match="depth of the stack"):
        TokenTransformer(stack).simulate(x, [0, 1])
