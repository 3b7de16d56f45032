"""The closed moment system inside python-control, its exact Jacobian, and the distance estimate."""

import copy

import control as ct
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import random_covariance, random_model
from scipy.special import ndtri
from test_feedforward import both, draw, every

import gausscontrol as gct
from gausscontrol.tokens import (
    ClosureSystem,
    FeedForward,
    TokenTransformer,
    closure_system,
    gap_estimate,
)

few = settings(derandomize=True, deadline=None, max_examples=10)
TIGHT = {"rtol": 1e-10, "atol": 1e-12}
CHANNELS = ("b", "A", "V", "B", "k")
forms = pytest.mark.parametrize("form", ["covariance", "factor"])
depths = pytest.mark.parametrize("dt", [0.0, 0.1])


def example(activation="tanh", gated=False, dt=0.0, dim=3, seed=0, **keywords):
    rng = np.random.default_rng(seed)
    model = random_model(rng, dim, 2, dt, tilted=True)
    part = draw(rng, activation, gated, dim)
    system = closure_system(model, part, **keywords)
    return system, system.state_vector(rng.standard_normal(dim), random_covariance(rng, dim))


def settled(dim=2):
    """A model and part whose closure has an attracting equilibrium."""
    identity = np.eye(dim)
    part = FeedForward(2 * identity, None, identity, None, "tanh")
    return gct.GaussianTransformer(0 * identity, identity, -0.5 * identity, name="layer"), part


def differences(function, x, step=2e-3):
    """Central differences, extrapolated twice."""

    def central(h):
        return np.stack([(function(x + e) - function(x - e)) / (2 * h) for e in h * np.eye(x.size)])

    first, second, third = (central(step * 2**j) for j in range(3))
    once = (4 * first - second) / 3, (4 * second - third) / 3
    return ((16 * once[0] - once[1]) / 15).T


@every
@both
@depths
@forms
def test_jacobian_matches_differences(activation, gated, dt, form):
    system, x = example(activation, gated, dt, form=form, inputs=CHANNELS)
    u = 0.1 * np.random.default_rng(1).standard_normal(system.ninputs)
    linear = ct.linearize(system, x, u)
    by_state = differences(lambda x: system.dynamics(0, x, u), x)
    by_input = differences(lambda u: system.dynamics(0, x, u), u)
    output = differences(lambda x: system.output(0, x, u), x)
    scale = 1 + np.abs(by_state).max()
    np.testing.assert_allclose(linear.A, by_state, rtol=0, atol=1e-7 * scale)
    np.testing.assert_allclose(linear.B, by_input, rtol=0, atol=1e-7 * scale)
    np.testing.assert_allclose(linear.C, output, rtol=0, atol=1e-9)


@every
@both
@depths
def test_right_side_is_that_of_the_frozen_model(activation, gated, dt):
    system, x = example(activation, gated, dt)
    frozen = system.feedforward.frozen(system.model, *gct.unpack(x))
    expected = gct.moment_system(frozen).dynamics(0, x, [1, 2, 3])
    np.testing.assert_allclose(system.dynamics(0, x, [1, 2, 3]), expected, rtol=1e-12)


@few
@given(st.integers(0, 10**6))
def test_identity_part_is_an_affine_model(seed):
    system, x = example("identity", seed=seed)
    model, part = system.model, system.feedforward
    affine = model.replace(A=model.A + part.W2 @ part.W1, b=model.b + part(np.zeros(3)))
    plain = gct.moment_system(affine)
    u = np.zeros(3)
    np.testing.assert_allclose(system.dynamics(0, x, u), plain.dynamics(0, x, u), rtol=1e-12)
    np.testing.assert_allclose(system.linearize(x).A, plain.linearize(x).A, atol=1e-12)


def test_labels_and_names():
    system, _ = example(dim=2, name="closed", inputs=("b", "A"), state_prefix="x_")
    assert isinstance(system, ct.NonlinearIOSystem)
    assert isinstance(system, ClosureSystem)
    assert system.name == "closed"
    assert system.state_labels == [f"x_{n}" for n in ("mu[0]", "mu[1]")] + [
        f"x_Sigma[{k}]" for k in range(3)
    ]
    assert system.input_labels == ["b[0]", "b[1]", *(f"A[{n}]" for n in range(4))]
    assert system.output_labels == ["mu[0]", "mu[1]", "Sigma[0]", "Sigma[1]", "Sigma[2]"]
    assert closure_system(*settled()).name == "layer"
    assert "tanh" in str(system)
    named = system.linearize(np.ones(5), copy_names=True)
    assert named.state_labels == system.state_labels
    np.testing.assert_array_equal(system.input_vector(b=[1, 2])[:2], [1, 2])


def test_works_in_python_control():
    model, part = settled()
    system = closure_system(model, part)
    x0 = gct.pack([0.5, -0.2], 0.3 * np.eye(2))
    response = ct.input_output_response(
        system, np.linspace(0, 40, 81), 0, x0, solve_ivp_kwargs=TIGHT
    )
    point = ct.find_operating_point(system, response.states[:, -1], [0, 0])
    np.testing.assert_allclose(response.states[:, -1], point.states, atol=1e-6)
    linear = ct.linearize(system, point)
    assert linear.poles().real.max() < 0
    # A loop with a feedback gain, linearised part by part.
    gain = ct.ss([], [], [], -0.3 * np.eye(2, 5), name="gain", inputs=5, outputs=2)
    loop = system.feedback(gain, sign=1)
    found = gct.exact_linearize(loop, point.states, [0, 0], require_exact=True)
    np.testing.assert_allclose(found.A, linear.A + linear.B @ gain.D, atol=1e-12)


def test_factor_form_follows_the_covariance_form():
    model, part = settled()
    times = np.linspace(0, 2, 5)
    moments = ([0.5, -0.2], np.diag([0.3, 0.7]))
    runs = []
    for form in ("covariance", "factor"):
        system = closure_system(model, part, form=form)
        start = system.state_vector(*moments)
        runs.append(ct.input_output_response(system, times, 0, start, solve_ivp_kwargs=TIGHT))
    np.testing.assert_allclose(runs[0].outputs, runs[1].outputs, atol=1e-8)


def test_rank_one_start_stays_of_rank_one():
    model, part = settled()
    system = closure_system(model, part, form="factor", rank=1)
    start = system.state_vector([0.5, 0.0], np.outer([1.0, 2.0], [1.0, 2.0]))
    response = ct.input_output_response(system, np.linspace(0, 3, 4), 0, start)
    for column in response.outputs.T:
        values = np.linalg.eigvalsh(gct.unpack(column)[1])
        assert values[0] > -1e-12
        assert values[1] > 0


def test_layers_are_iterated():
    model, part = settled()
    system = closure_system(model.replace(dt=0.5), part)
    assert system.dt == 0.5
    x = x0 = gct.pack([0.5, -0.2], 0.3 * np.eye(2))
    response = ct.input_output_response(system, 0.5 * np.arange(4), 0, x0)
    for _ in range(3):
        x = system.dynamics(0, x, [0, 0])
    np.testing.assert_allclose(response.states[:, -1], x)


def test_parameters_can_be_overridden():
    system, x = example("gelu")
    A = np.diag([1.0, 2.0, 3.0])
    other = closure_system(system.model.replace(A=A), system.feedforward)
    u = np.zeros(3)
    expected = other.dynamics(0, x, u)
    np.testing.assert_allclose(system.dynamics(0, x, u, {"A": A}), expected)
    np.testing.assert_allclose(system.linearize(x, params={"A": A}).A, other.linearize(x).A)
    system.dynamics(0, x, u)  # nothing stays behind
    assert np.abs(system.linearize(x).A - other.linearize(x).A).max() > 0.1
    copied = copy.deepcopy(system)
    np.testing.assert_array_equal(copied.dynamics(0, x, u), system.dynamics(0, x, u))


def test_moment_response_refuses_it():
    system, x = example()
    with pytest.raises(gct.ParameterError, match="input_output_response"):
        gct.moment_response(system, [0, 1], x)


def test_no_derivative_on_a_kink_without_variance():
    part = FeedForward(np.eye(2), None, np.eye(2), None)
    system = closure_system(gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2)), part)
    assert np.isfinite(system.dynamics(0, np.zeros(5), [0, 0])).all()
    with pytest.raises(gct.ParameterError, match="relu unit 1 on its kink"):
        system.linearize(gct.pack([0, 0], np.diag([1.0, 0.0])))
    smooth = system.linearize(gct.pack([0, -1.0], np.diag([1.0, 0.0])))
    assert np.isfinite(smooth.A).all()


def test_bad_input_is_named():
    model, part = settled()
    with pytest.raises(gct.ParameterError, match=r"^model: expected"):
        closure_system(part, part)
    with pytest.raises(gct.ParameterError, match=r"^feedforward: expected"):
        closure_system(model, model)
    with pytest.raises(gct.ShapeError, match=r"^feedforward: expected"):
        closure_system(gct.GaussianTransformer(1, 1, 1), part)
    with pytest.raises(gct.ParameterError, match=r"found the system ClosureSystem; .*find_op"):
        gct.find_equilibrium(closure_system(model, part))
    with pytest.raises(TypeError, match="unrecognized keyword: colour; expected inputs"):
        closure_system(model, part, colour="red")
    system = closure_system(model, part)
    with pytest.raises(gct.ShapeError, match=r"^x0: expected 5"):
        system.linearize([1.0, 2.0])
    with pytest.raises(gct.ParameterError, match="operating point"):
        system.linearize(ct.OperatingPoint(None, None))


# -- the estimate ---------------------------------------------------------------------------------


def respond(model, part, times, **keywords):
    system = closure_system(model, part, **keywords)
    start = system.state_vector([0.5, -0.2], 0.3 * np.eye(2))
    return ct.input_output_response(system, times, 0, start)


def test_estimate_with_a_given_constant():
    model, part = settled()
    response = respond(model, part, np.linspace(0, 1, 101))
    estimate = gap_estimate(model, part, response, 0.7)
    gaps = [part.gap(*gct.unpack(x)).value for x in response.outputs.T]
    np.testing.assert_allclose(estimate.gap, gaps)
    integral = np.trapezoid(np.exp(0.7 * (1 - response.time)) * gaps, response.time)
    np.testing.assert_allclose(estimate.distance[-1], integral, rtol=1e-4)
    assert estimate.lipschitz_is_given
    assert "estimate" in str(estimate)
    assert "given" in str(estimate)


def test_estimate_in_layers():
    model, part = settled()
    model = model.replace(dt=0.25)
    estimate = gap_estimate(model, part, respond(model, part, 0.25 * np.arange(5)), 0.8)
    distance = 0.0
    for gap in estimate.gap[:-1]:
        distance = 1.2 * distance + 0.25 * gap
    np.testing.assert_allclose(estimate.distance[-1], distance)


def test_estimate_is_the_same_in_either_form():
    model, part = settled()
    times = np.linspace(0, 1, 6)
    runs = [
        gap_estimate(model, part, respond(model, part, times, form=form))
        for form in ("covariance", "factor")
    ]
    np.testing.assert_allclose(runs[0].distance, runs[1].distance, rtol=1e-2)
    assert not runs[0].lipschitz_is_given


@both
def test_estimate_covers_the_measured_distance(gated):
    # Without attention tokens are independent, so that the law is sampled exactly; in one dimension
    # the distance is that of sorted samples.
    rng = np.random.default_rng(2)
    part = draw(rng, "tanh", gated, dim=1, width=4, scale=0.7)
    model = gct.GaussianTransformer(-0.5, 0, 0)
    times = np.linspace(0, 1, 11)
    system = closure_system(model, part)
    response = ct.input_output_response(system, times, 0, [0.3, 1.0], solve_ivp_kwargs=TIGHT)
    estimate = gap_estimate(model, part, response)
    normal = ndtri((np.arange(4_000) + 0.5) / 4_000)
    x = 0.3 + normal[:, None]
    for _ in range(100):  # midpoint steps
        half = x + (-0.5 * x + part(x)) / 200
        x = x + (-0.5 * half + part(half)) / 100
    mean, variance = response.states[:, -1]
    measured = np.sqrt(np.mean((np.sort(x[:, 0]) - mean - np.sqrt(variance) * normal) ** 2))
    assert 1e-3 < measured < estimate.distance[-1]


def test_estimate_reads_the_gaussian_system_beside_tokens():
    model, part = settled()
    tokens = np.random.default_rng(0).normal(size=(40, 2))
    response = TokenTransformer(model, part).simulate(tokens, [0, 0.5, 1], rtol=1e-4)
    estimate = gap_estimate(model, part, response.gaussian, 0.0)
    assert estimate.distance.shape == (3,)
    assert estimate.distance[0] == 0
    assert repr(estimate).startswith("<GapEstimate at 3 depths: ")
    with pytest.raises(gct.ParameterError, match=r"pass response\.gaussian"):
        gap_estimate(model, part, response)


def test_estimate_in_layers_covers_overshoot():
    # x + dt f turns around and doubles: the flow contracts, the layers do not.
    model = gct.GaussianTransformer(-3, 0, 0, dt=1)
    part = FeedForward([[1.0]], None, [[0.3]], None, "tanh")
    response = ct.input_output_response(closure_system(model, part), np.arange(9.0), 0, [0, 1])
    estimate = gap_estimate(model, part, response)
    normal = ndtri((np.arange(4000) + 0.5) / 4000)
    x = normal.copy()
    for n, (mean, variance) in enumerate(response.outputs.T):
        measured = np.sqrt(np.mean((np.sort(x) - mean - np.sqrt(variance) * normal) ** 2))
        assert measured < 1.05 * estimate.distance[n] + 0.01
        x = x - 3 * x + part(x[:, None])[:, 0]
    assert estimate.distance[-1] > 10


def test_estimate_overflows_to_infinity():
    model, part = settled()
    estimate = gap_estimate(model, part, respond(model, part, np.linspace(0, 1, 5)), 1e4)
    np.testing.assert_array_equal(estimate.distance, [0, *[np.inf] * 4])


def test_estimate_refuses_the_response_of_another_system():
    model, part = settled()
    flow = respond(model, part, np.linspace(0, 1, 5))
    layers = respond(model.replace(dt=0.1), part, 0.1 * np.arange(11))
    with pytest.raises(gct.ParameterError, match=r"found residual layers of dt = 0\.1"):
        gap_estimate(model, part, layers)
    with pytest.raises(gct.ParameterError, match=r"move as the closure .* in layers of dt = 0\.25"):
        gap_estimate(model.replace(dt=0.25), part, flow)
    with pytest.raises(gct.ParameterError, match="depths whole layers of dt = 1 apart"):
        gap_estimate(model.replace(dt=1), part, flow)
    with pytest.raises(gct.ParameterError, match=r"move as the closure .* in continuous depth"):
        gap_estimate(model.replace(A=0.5 * np.eye(2)), part, flow)
    without = gct.moment_response(model, [0, 0.5, 1], ([0.5, -0.2], 0.3 * np.eye(2)))
    with pytest.raises(gct.ParameterError, match="move as the closure"):
        gap_estimate(model, part, without)


def test_estimate_follows_inputs():
    model, part = settled()
    system, times = closure_system(model, part), np.linspace(0, 2, 21)
    start = system.state_vector([0.5, -0.2], 0.3 * np.eye(2))
    driven = ct.input_output_response(system, times, [np.sin(times), 0], start)
    assert gap_estimate(model, part, driven, 0.0).distance[-1] > 0
    driven.inputs[0, :] += 1  # of other inputs than those that drove it
    with pytest.raises(gct.ParameterError, match="move as the closure"):
        gap_estimate(model, part, driven, 0.0)


def test_estimate_names_bad_input():
    model, part = settled()
    response = respond(model, part, [0, 1])
    with pytest.raises(gct.ParameterError, match=r"^response: expected one"):
        gap_estimate(model, part, [1, 2])
    with pytest.raises(gct.ShapeError, match=r"^response: expected 5 outputs"):
        gap_estimate(model, part, respond(model, part, [0, 1], outputs="mu"))
    with pytest.raises(gct.ShapeError, match=r"^lipschitz: expected one number"):
        gap_estimate(model, part, response, [1.0, 2.0])
    layered = model.replace(dt=1.0)
    with pytest.raises(gct.ParameterError, match=r"^lipschitz: expected at least -1 in layers"):
        gap_estimate(layered, part, respond(layered, part, np.arange(2.0)), -2.0)
