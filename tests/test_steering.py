"""Plans: parameters, replays, closed loops, and what actuators can and cannot do."""

import re

import control as ct
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.moments import MomentField
from gausscontrol.synthesis.actuators import Actuation
from gausscontrol.synthesis.steering import SteeringPlan, steer

LAWS = settings(derandomize=True, deadline=None, max_examples=8)
ACTUATORS = ("feedforward", "attention", "keys")


def covariance(rng, d, r):
    Q = np.linalg.qr(rng.standard_normal((d, r)))[0]
    return (Q * np.exp(rng.uniform(-1, 1, r))) @ Q.T


def pair(rng, d, r):
    return [(rng.standard_normal(d), covariance(rng, d, r)) for _ in range(2)]


def nominal(rng, d, heads, duration=1.0):
    def near_identity():
        return np.eye(d) + 0.3 * rng.standard_normal((heads, d, d)) / np.sqrt(d)

    A = 0.3 * rng.standard_normal((d, d)) / duration
    V = near_identity() / duration
    return gct.GaussianTransformer(A, near_identity(), V, k=0.1 * rng.standard_normal((heads, d)))


def relative(X, Y):
    return np.linalg.norm(X - Y) / np.linalg.norm(Y)


@pytest.fixture(scope="module", params=ACTUATORS)
def plan(request):
    rng = np.random.default_rng(1)
    return steer(*pair(rng, 3, 3), 1.0, actuators=request.param)


# -- the law of the plan --------------------------------------------------------------------------


@LAWS
@given(st.integers(1, 8), st.integers(0, 10**6), st.sampled_from(ACTUATORS), st.booleans())
def test_plans_satisfy_the_equation_and_end_at_the_goal(d, seed, actuators, gauge):
    rng = np.random.default_rng(seed)
    heads = int(rng.integers(1, 3))
    r = int(rng.integers(-(-d // heads) if actuators == "keys" else 1, d + 1))
    start, goal = pair(rng, d, r)
    duration = float(np.exp(rng.uniform(-2, 2)))
    model = nominal(rng, d, heads, duration)
    plan = steer(start, goal, duration, actuators=actuators, model=model, gauge=gauge)
    assert plan.rank == r
    assert plan.residual < 1e-10
    end = plan.response([0, duration])
    assert relative(end.covariance[:, :, -1], goal[1]) < 1e-8
    assert relative(end.mean[:, -1], goal[0]) < 1e-8


@LAWS
@given(st.integers(2, 6), st.integers(0, 10**6), st.sampled_from(ACTUATORS))
def test_gauge_finds_the_least_offset(d, seed, actuators):
    rng = np.random.default_rng(seed)
    start, goal = pair(rng, d, d)
    model = nominal(rng, d, 2)
    L, L_rate = np.linalg.cholesky(start[1]), rng.standard_normal((d, d))
    key = {"feedforward": "A", "attention": "V", "keys": "B"}[actuators]

    def offset(rate, gauge):
        actuation = Actuation(model, actuators, gauge)
        return actuation.offsets(start[0], L, goal[0], rate)[key]

    least = np.linalg.norm(offset(L_rate, True))
    for _ in range(5):
        X = rng.standard_normal((d, d))
        # any other velocity of the factor with the same Sigma'
        assert np.linalg.norm(offset(L_rate + L @ (X - X.T), False)) >= least * (1 - 1e-12)
    turned = offset(L_rate + L @ (X - X.T), True)
    np.testing.assert_allclose(turned, offset(L_rate, True), atol=1e-9 * least)


def test_only_the_steered_parameter_and_b_change(plan):
    model, changed = plan.parameters(0.3), {"feedforward": "A", "attention": "V", "keys": "B"}
    for key in "ABV":
        same = np.array_equal(getattr(model, key), getattr(plan.model, key))
        assert same == (key != changed[plan.actuators])
    assert plan.channels == ("b", changed[plan.actuators])


def test_plain_feedforward_is_the_transport_map():
    # x' = A x with A = (T - I) / duration at the start, for commuting covariances
    plan = steer(np.diag([1.0, 4.0]), np.diag([4.0, 1.0]), 2.0)
    np.testing.assert_allclose(plan.parameters(0).A, np.diag([0.5, -0.25]), atol=1e-15)
    assert not plan.parameters(0).V.any()


def test_attention_of_several_heads_is_smaller_than_of_one():
    rng = np.random.default_rng(2)
    start, goal = pair(rng, 3, 3)
    model = nominal(rng, 3, 2)
    one = gct.GaussianTransformer(model.A, model.B[:1], 0 * model.V[:1])
    two = model.replace(V=0 * model.V, k=None)
    norms = [
        np.linalg.norm(steer(start, goal, 1.0, actuators="attention", model=m).parameters(0).V)
        for m in (one, two)
    ]
    assert norms[1] < norms[0]


def test_the_plan_scales_with_units():
    rng = np.random.default_rng(3)
    start, goal = pair(rng, 3, 3)
    for actuators in ACTUATORS:
        reference = steer(start, goal, 1.0, actuators=actuators)
        scaled = steer(*((1e6 * m, 1e12 * S) for m, S in (start, goal)), 1e-4, actuators=actuators)
        key, unit = {"feedforward": ("A", 1e4), "attention": ("V", 1e4), "keys": ("B", 1e-12)}[
            actuators
        ]
        expected = unit * reference.peak_norms[key]
        assert scaled.peak_norms[key] == pytest.approx(expected, rel=1e-6)
        assert scaled.energy == pytest.approx(1e16 * reference.energy, rel=1e-10)
        assert scaled.amplification == pytest.approx(reference.amplification, rel=1e-3)


def test_mean_alone_is_steered_at_rank_zero():
    zero = np.zeros((2, 2))
    for actuators in ACTUATORS[:2]:
        plan = steer(([1.0, 2.0], zero), ([0.0, 5.0], zero), 2.0, actuators=actuators)
        assert plan.rank == 0
        assert plan.energy == pytest.approx(5)
        end = plan.response([0, 2.0])
        np.testing.assert_allclose(end.mean[:, -1], [0, 5], atol=1e-10)
        assert not end.covariance.any()


@pytest.mark.parametrize("condition", [1e4, 1e8])
def test_ill_conditioned_feedforward(condition):
    rng = np.random.default_rng(int(np.log10(condition)))
    scale = np.logspace(0, -np.log10(condition), 4)
    start, goal = (
        (rng.standard_normal(4), (Q * scale) @ Q.T)
        for Q in (np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(2))
    )
    plan = steer(start, goal, 1.0)
    assert plan.residual < 1e-13
    assert relative(plan.response([0, 1.0]).covariance[:, :, -1], goal[1]) < 1e-11


# -- replay in python-control ---------------------------------------------------------------------


def test_replay_converges_with_the_square_of_the_spacing(plan):
    # The only difference is the linear interpolation of inputs between the points of the grid.
    system = gct.moment_system(plan.model, inputs=plan.channels)
    target, errors = gct.pack(*plan.goal), []
    for n in (41, 81):
        t = np.linspace(0, plan.duration, n)
        response = ct.input_output_response(
            system,
            t,
            plan.inputs(t),
            gct.pack(*plan.start),
            solve_ivp_kwargs={"rtol": 1e-10, "atol": 1e-12},
        )
        errors.append(relative(np.asarray(response.states)[:, -1], target))
    assert errors[1] < 2e-3
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)


def test_inputs_are_the_offsets(plan):
    system = gct.moment_system(plan.model, inputs=plan.channels)
    U, model = plan.inputs([0.0, 0.4]), plan.parameters(0.4)
    offsets = {key: getattr(model, key) - getattr(plan.model, key) for key in plan.channels}
    np.testing.assert_allclose(U[:, 1], system.input_vector(**offsets), atol=1e-12)
    response = plan.response([0.0, 0.4], closed_loop=False)
    np.testing.assert_allclose(response.inputs, U, atol=1e-12)
    assert list(response.input_labels) == system.input_labels


# -- open and closed loop -------------------------------------------------------------------------


def test_open_loop_follows_the_plan_where_it_may(plan):
    assert plan.amplification < 1e3
    response = plan.response(np.linspace(0, 1, 5), closed_loop=False)
    for n, t in enumerate(response.t):
        assert relative(response.covariance[:, :, n], plan.covariance(t)) < 1e-6


def test_amplification_is_that_of_small_errors(plan):
    # No error of the start may grow more than the estimate allows, to first order.
    rng, size = np.random.default_rng(0), 1e-6
    mean, S = plan.start
    token0, token1 = (np.sqrt(np.trace(C)) for _, C in (plan.start, plan.goal))
    largest = 0.0
    for _ in range(4):
        E = rng.standard_normal((3, 3))
        m, E = rng.standard_normal(3), E + E.T
        norm = np.hypot(np.linalg.norm(m) / token0, np.linalg.norm(E) / token0**2)
        moved = (mean + size * m / norm, S + size * E / norm)
        end = plan.response([0, 1.0], moved, closed_loop=False)
        gaps = (
            np.linalg.norm(end.mean[:, -1] - plan.goal[0]) / token1,
            np.linalg.norm(end.covariance[:, :, -1] - plan.goal[1]) / token1**2,
        )
        largest = max(largest, np.hypot(*gaps) / size)
    assert largest <= 1.05 * plan.amplification
    assert plan.amplification >= 1


def test_closed_loop_survives_what_the_open_loop_does_not():
    c, s = np.cos(1.5), np.sin(1.5)
    R = np.array([[c, -s], [s, c]])
    goal = R @ np.diag([1.0, 0.01]) @ R.T
    plan = steer(np.diag([1.0, 0.01]), goal, 1.0, actuators="attention")
    assert plan.amplification > 1e15
    assert "use the closed loop" in str(plan)
    assert relative(plan.response([0, 1.0]).covariance[:, :, -1], goal) < 1e-11


def test_closed_loop_forgets_a_wrong_start(plan):
    mean, S = plan.start
    moved = mean + 0.1, 1.1 * S
    errors = []
    for gain in (5.0, 10.0):
        end = plan.response([0, 1.0], moved, gain=gain)
        errors.append(np.linalg.norm(end.mean[:, -1] - plan.goal[0]))
        assert relative(end.covariance[:, :, -1], plan.goal[1]) < 3 * 0.1 * np.exp(-gain)
    np.testing.assert_allclose(errors, 0.1 * np.sqrt(3) * np.exp([-5.0, -10.0]), rtol=1e-4)


def test_feedback_on_the_plan_is_the_plan(plan):
    here = plan.feedback(0.4, plan.mean(0.4), plan.covariance(0.4))
    expected = plan.parameters(0.4)
    for key in ("A", "B", "V", "b"):
        np.testing.assert_allclose(getattr(here, key), getattr(expected, key), atol=1e-9)


@pytest.mark.parametrize(
    ("t", "error", "message"),
    [
        (np.nan, ParameterError, "t: expected finite"),
        ("a", ParameterError, "t: expected real numbers"),
        (None, ParameterError, "t: expected real numbers"),
        ([], ShapeError, "t: expected one depth"),
        ([0.5], ShapeError, "t: expected one depth"),
        (-0.1, ParameterError, "t: expected a depth of at least 0, found -0.1"),
    ],
)
def test_feedback_reads_its_depth(plan, t, error, message):
    with pytest.raises(error, match=message):
        plan.feedback(t, *plan.start)


def test_feedback_refuses_a_lower_rank(plan):
    message = "covariance: expected rank 3, that of the plan, found rank 1"
    with pytest.raises(ParameterError, match=message):
        plan.feedback(0.1, np.zeros(3), np.diag([1.0, 0, 0]))


def test_a_gain_that_is_too_stiff_is_named(plan):
    with pytest.raises(ParameterError, match="gain: expected a rate that the integration"):
        plan.response([0, 1.0], gain=1e8)


def test_feedback_holds_the_goal_afterwards(plan):
    mean, S = plan.goal
    field = MomentField.of(plan.feedback(2.0, mean, S))
    np.testing.assert_allclose(field.covariance_rate(S), 0, atol=1e-10)
    np.testing.assert_allclose(field.mean_rate(mean, S, field.drift(S)), 0, atol=1e-10)


def test_controller_closes_the_loop_in_python_control(plan):
    layer = gct.moment_system(plan.model, inputs=plan.channels, name="layer")
    loop = ct.interconnect(
        [layer, plan.controller(gain=20.0)], inputs=[], outputs=layer.output_labels
    )
    mean, S = plan.start
    response = ct.input_output_response(
        loop,
        [0.0, 0.5, 1.0],
        0,
        gct.pack(mean + 0.01, 1.01 * S),
        solve_ivp_kwargs={"rtol": 1e-8, "atol": 1e-10},
    )
    assert relative(np.asarray(response.outputs)[:, -1], gct.pack(*plan.goal)) < 1e-7


def test_response_starts_anywhere_on_the_plan(plan):
    response = plan.response([0.3, 1.0])
    np.testing.assert_allclose(response.covariance[:, :, 0], plan.covariance(0.3), atol=1e-12)
    assert relative(response.covariance[:, :, -1], plan.goal[1]) < 1e-8
    with pytest.raises(ParameterError, match="initial: expected rank 3, that of the plan"):
        plan.response([0, 1.0], (np.zeros(3), np.diag([1.0, 0, 0])))
    with pytest.raises(ParameterError, match="t: expected depths from 0 to 1"):
        plan.response([0, 2.0])
    with pytest.raises(ParameterError, match="gain: expected a rate"):
        plan.response([0, 1.0], gain=-1)


# -- actuators that cannot ------------------------------------------------------------------------

SKEW = [[0.0, 1.0], [-1.0, 0.0]]
LINE = np.diag([1.0, 0.0])


def with_matrices(B, V):
    return gct.GaussianTransformer(np.zeros((2, 2)), B, V)


@pytest.mark.parametrize(
    ("start", "goal", "actuators", "model", "message"),
    [
        (np.eye(2), np.eye(2), "attention", with_matrices(np.zeros((2, 2)), np.eye(2)), "L^T B L"),
        (np.eye(2), np.eye(2), "attention", with_matrices(LINE, np.eye(2)), "L^T B L"),
        (LINE, LINE, "attention", with_matrices(SKEW, np.eye(2)), "singular at depth 0"),
        (np.eye(2), np.eye(2), "keys", with_matrices(np.eye(2), LINE), "V invertible"),
        (LINE, LINE, "keys", None, "keys need full rank r = d = 2 with one head"),
    ],
)
def test_singular_actuators_are_refused(start, goal, actuators, model, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        steer(start, goal, 1.0, actuators=actuators, model=model)


def test_a_sign_change_between_samples_is_refused():
    # x^T B x = x1^2 - 1.3 x2^2 passes through zero as the line turns, at no sampled depth.
    model = with_matrices(np.diag([1.0, -1.3]), np.eye(2))
    with pytest.raises(ParameterError, match=r"found it singular before depth 0\.47"):
        steer(LINE, np.diag([0.0, 1.0]), 1.0, actuators="attention", model=model)


def test_a_double_crossing_between_samples_is_refused():
    # 1 - (1 + e) cos^2 of the angle to v is negative only within 3e-3 of the middle of two samples.
    v = np.array([0.495, 0.505]) / np.hypot(0.495, 0.505)

    def model(excess):
        return with_matrices(np.eye(2) - (1 + excess) * np.outer(v, v), np.eye(2))

    ends = LINE, np.diag([0.0, 1.0]), 1.0
    with pytest.raises(ParameterError, match=r"found it singular at depth 0\.50"):
        steer(*ends, actuators="attention", model=model(1e-5))
    plan = steer(*ends, actuators="attention", model=model(-1e-5))
    sampled = max(np.linalg.norm(plan.parameters(t).V[0], 2) for t in plan.samples)
    assert plan.peak_norms["V"] > 5 * sampled
    np.testing.assert_allclose(
        plan.peak_norms["V"],
        max(np.linalg.norm(plan.parameters(t).V[0], 2) for t in np.linspace(0.5, 0.51, 4001)),
        rtol=1e-4,
    )


def test_a_crossing_where_the_path_turns_at_once_is_refused():
    # The line turns within 1e-8 of the depth, between the last two samples.
    v = np.array([1.0, 1.0]) / np.sqrt(2)
    model = with_matrices(np.eye(2) - 1.01 * np.outer(v, v), np.eye(2))
    ends = 1e8 * LINE, 1e-8 * np.diag([0.0, 1.0])
    with pytest.raises(ParameterError, match="found it singular"):
        steer(*ends, 1.0, actuators="attention", model=model)


def test_keys_reach_lower_ranks_with_enough_heads():
    rng = np.random.default_rng(5)
    start, goal = pair(rng, 4, 2)
    plan = steer(start, goal, 1.0, actuators="keys", model=nominal(rng, 4, 2))
    assert plan.residual < 1e-11
    assert relative(plan.response([0, 1.0]).covariance[:, :, -1], goal[1]) < 1e-8


# -- the object -----------------------------------------------------------------------------------


def test_report(plan):
    lines = str(plan).splitlines()
    assert lines[0] == f"Steering plan, d = 3, rank 3, by {plan.actuators}, depth 1 [t]"
    assert "geodesic" in lines[1]
    for word in ("energy", "[x^2/t]", "peak norms", "|b|", "residual", "amplification"):
        assert word in str(plan)


def test_repr_is_one_line(plan):
    text = repr(plan)
    assert text.startswith(f"<SteeringPlan by {plan.actuators}, d = 3, rank 3, depth 1, energy ")
    assert "\n" not in text
    assert "1 residual layer, d = 3, 1 head, depth 1>" in repr(plan.layers(1))
    assert "2 residual layers, d = 3, 1 head, depth 1>" in repr(plan.layers(2))


def test_plans_are_frozen_and_inputs_left_alone():
    S = np.eye(2)
    plan = steer(S, 4 * S, 1.0)
    assert isinstance(plan, SteeringPlan)
    with pytest.raises(AttributeError):
        plan.duration = 3.0
    np.testing.assert_array_equal(S, np.eye(2))
    np.testing.assert_array_equal(plan.start[1], S)


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "message"),
    [
        ((np.eye(2), np.eye(2), 0.0), {}, ParameterError, "duration: expected a positive depth"),
        ((np.eye(2), np.eye(2), [1.0]), {}, ParameterError, "duration: expected a positive depth"),
        ((np.eye(2), 2 * np.eye(2), 1e-320), {}, ParameterError, "duration: .* short that it is"),
        ((np.eye(2), 2 * np.eye(2), 1e-310), {}, ParameterError, "duration: .* short that it is"),
        ((1e-30, 4e-30, 1e300), {}, ParameterError, "duration: .* so long that it is 0"),
        ((np.eye(2), np.eye(3), 1.0), {}, ShapeError, "goal: expected a 2 x 2"),
        ((np.eye(2), np.eye(2), 1.0), {"actuators": "A"}, ParameterError, "actuators: expected"),
        ((np.eye(2), np.eye(2), 1.0), {"model": 3}, ParameterError, "model: expected a Gaussian"),
        (
            (np.eye(2), np.eye(2), 1.0),
            {"model": gct.GaussianTransformer(1, 1, 1)},
            ShapeError,
            "model: expected dimension 2",
        ),
        (
            (1.0, 4.0, 1.0),
            {"model": gct.GaussianTransformer(1, 1, 1, dt=0.1)},
            ParameterError,
            "model: expected continuous depth, found dt = 0.1",
        ),
    ],
)
def test_bad_arguments(arguments, keywords, error, message):
    with pytest.raises(error, match=message):
        steer(*arguments, **keywords)
