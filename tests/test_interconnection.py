"""Exact linearisation of interconnections: hand-derived matrices, plain algebra, python-control."""

import math

import control as ct
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import random_covariance, random_model

import gausscontrol as gct
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.systems.interconnection import exact_linearize
from gausscontrol.systems.subsystems import differenced_subsystems

few = settings(derandomize=True, deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)


class Known(ct.NonlinearIOSystem):
    """A nonlinear system that knows its own Jacobian (A, B, C, D)."""

    def __init__(self, update, output, jacobian, **kwargs):
        super().__init__(update, output, **kwargs)
        self.jacobian = jacobian

    def linearize(self, x0, u0=None, t=0, params=None, **kwargs):
        # An exact linearisation takes no step, so eps must not arrive here.
        assert kwargs == {}
        return ct.StateSpace(
            *self.jacobian(t, x0, u0, self.params | (params or {})),
            self.dt,
            remove_useless_states=False,
        )


def matrices(linear):
    return linear.A, linear.B, linear.C, linear.D


def assert_matrices(linear, expected, rtol=1e-12, atol=1e-14):
    for name, found, wanted in zip("ABCD", matrices(linear), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, err_msg=name)


def random_state_space(rng, name, dt=0, static=False):
    states, inputs, outputs = rng.integers(0 if static else 1, 4), *rng.integers(1, 4, 2)
    sizes = ((states, states), (states, inputs), (outputs, states), (outputs, inputs))
    return ct.StateSpace(*(rng.standard_normal(size) for size in sizes), dt, name=name)


def square(name="square"):
    """Y = u^2, with its derivative."""
    return Known(
        None,
        lambda t, x, u, params: u**2,
        lambda t, x, u, params: ([], [], [], np.diag(2 * u)),
        inputs=1,
        outputs=1,
        name=name,
    )


def pendulum():
    """x1' = x2, x2' = -sin x1 + x1 u, y = x1."""
    return Known(
        lambda t, x, u, params: [x[1], -np.sin(x[0]) + x[0] * u[0]],
        lambda t, x, u, params: x[:1],
        lambda t, x, u, params: (
            [[0, 1], [-np.cos(x[0]) + u[0], 0]],
            [[0], [x[0]]],
            [[1, 0]],
            [[0]],
        ),
        states=2,
        inputs=1,
        outputs=1,
        name="pendulum",
    )


# -- matrices derived by hand ---------------------------------------------------------------------

SCALE = 1e-7


def regulated_near_collapse(gain=1 / SCALE):
    """Feedback dA = -gain (Sigma - Sigma*) around Sigma* = 1e-7 I; state, input at rest."""
    V = np.array([[1.0, -4.0], [4.0, -3.0]])
    model = gct.GaussianTransformer(-SCALE * V, np.eye(2), V)
    layer = gct.moment_system(model, inputs=("A",), outputs="Sigma", name="layer")
    # Sigma = (S11, S21, S22) to A = (a11, a12, a21, a22)
    spread = gain * np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    loop = layer.feedback(ct.ss([], [], [], spread, name="regulator"))
    return loop, gct.pack(np.zeros(2), SCALE * np.eye(2)), gain * SCALE * np.array([1, 0, 0, 1])


def test_covariance_feedback_near_collapse():
    # mu' = V mu. M(Sigma*) = 0, so L(E) = s (V E + E V^T), and dA = da adds s (da + da^T); with
    # da = -E / s the loop adds -2 E.
    A = np.zeros((5, 5))
    A[:2, :2] = [[1, -4], [4, -3]]
    A[2:, 2:] = SCALE * np.array([[2, -8, 0], [4, -2, -4], [0, 8, -6]]) - 2 * np.eye(3)
    B = np.zeros((5, 4))
    B[2:] = SCALE * np.array([[2, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 2]])
    C = np.eye(5)[2:]
    loop, x, u = regulated_near_collapse()
    exact = exact_linearize(loop, x, u, require_exact=True)
    assert_matrices(exact, (A, B, C, np.zeros((3, 4))), atol=1e-18)
    # The finite difference is off by 20 in the same entries: its step is ten times Sigma*.
    assert np.abs(ct.linearize(loop, x, u).A - A).max() > 10


def test_slow_layer_behind_a_filter_keeps_its_sign():
    V = np.array([[1.0, -4.0], [4.0, -3.0]])
    model = gct.GaussianTransformer(-SCALE * V, np.eye(2), V)
    layer = gct.moment_system(model, outputs="Sigma", name="layer")
    chain = ct.ss(-np.eye(3), np.eye(3), np.eye(3), np.zeros((3, 3)), name="filter")
    system = ct.interconnect(
        [layer, chain],
        connections=[[f"filter.u[{i}]", f"layer.Sigma[{i}]"] for i in range(3)],
        inplist="layer.b",
        outlist="filter",
    )
    x = [gct.pack(np.zeros(2), SCALE * np.eye(2)), 0]
    block = SCALE * np.array([[2.0, -8, 0], [4, -2, -4], [0, 8, -6]])
    linear = exact_linearize(system, x)
    np.testing.assert_allclose(linear.A[2:5, 2:5], block, rtol=1e-12, atol=1e-20)
    assert np.linalg.eigvals(linear.A[2:5, 2:5]).real.max() < -1.9 * SCALE
    differenced = ct.linearize(system, x).A[2:5, 2:5]
    assert np.linalg.eigvals(differenced).real.max() > 10 * SCALE


def nested_pendulum(ki=0.7, kp=1.3):
    """A pendulum under u = v^2, v = ki xi + kp e, xi' = e, e = r - x1; the drive is nested."""
    law = ct.ss([[0.0]], [[1.0]], [[ki]], [[kp]], name="law")
    drive = square() * law
    drive.name = "drive"
    return ct.interconnect(
        [pendulum(), drive],
        connections=[["pendulum.u[0]", "drive.y[0]"], ["drive.u[0]", "-pendulum.y[0]"]],
        inplist="drive.u[0]",
        inputs="r",
        outlist=["pendulum.y[0]", [(0, 0, 0.5), "-drive.y[0]"], "pendulum.u[0]"],
        outputs=["angle", "mixed", "torque"],
        name="loop",
    )


def test_nested_loop_with_a_nonlinear_actuator():
    ki, kp, a, c, r = 0.7, 1.3, 0.4, -0.8, 0.9
    v = ki * c + kp * (r - a)
    # du = 2 v (ki dc + kp (dr - da))
    s = 2 * v
    A = [[0, 1, 0], [-np.cos(a) + v**2 - a * s * kp, 0, a * s * ki], [-1, 0, 0]]
    B = [[0], [a * s * kp], [1]]
    C = [[1, 0, 0], [0.5 + s * kp, 0, -s * ki], [-s * kp, 0, s * ki]]
    D = [[0], [-s * kp], [s * kp]]
    linear = exact_linearize(nested_pendulum(), [a, 0.3, c], r, require_exact=True)
    assert_matrices(linear, (A, B, C, D))


def cubic_loop():
    """x' = -x + u, y = x + 2 u, u = e + e^3, e = w - y: an algebraic loop."""
    plant = ct.ss([[-1.0]], [[1.0]], [[1.0]], [[2.0]], name="plant")
    cubic = Known(
        None,
        lambda t, x, u, params: u + u**3,
        lambda t, x, u, params: ([], [], [], np.diag(1 + 3 * u**2)),
        inputs=1,
        outputs=1,
        name="cubic",
    )
    return ct.interconnect(
        [plant, cubic],
        connections=[["plant.u[0]", "cubic.y[0]"], ["cubic.u[0]", "-plant.y[0]"]],
        inplist="cubic.u[0]",
        outlist=["plant.y[0]", "cubic.u[0]"],
    )


def test_algebraic_loop():
    # At x = 0, w = 5: e = 1, u = 2, y = 4. The slope is 4, so du = 4 (dw - dx - 2 du).
    loop = cubic_loop()
    expected = ([[-13 / 9]], [[4 / 9]], [[1 / 9], [-1 / 9]], [[8 / 9], [1 / 9]])
    assert_matrices(exact_linearize(loop, 0, 5), expected)
    with pytest.raises(RuntimeError, match="algebraic loop"):
        ct.linearize(loop, 0, 5)


def test_algebraic_loop_inside_a_subsystem():
    chain = cubic_loop() * ct.tf([3.0], [1.0])
    linear = exact_linearize(chain, 0, 5 / 3)
    expected = ([[-13 / 9]], [[4 / 3]], [[1 / 9], [-1 / 9]], [[8 / 3], [1 / 3]])
    assert_matrices(linear, expected)


def test_residual_layer_with_delayed_feedback():
    # mu+ = (1 + tau (m + v)) mu, sigma+ = (1 + tau m)^2 sigma, m = a + u + v beta sigma, u = -g q,
    # q+ = sigma
    a, beta, v, tau, g = 0.5, 0.8, -0.3, 0.1, 0.6
    mean, sigma, q = 0.7, 1.9, 1.1
    layer = gct.moment_system(
        gct.GaussianTransformer(a, beta, v, dt=tau), inputs=("A",), name="layer"
    )
    delay = ct.ss([[0.0]], [[1.0]], [[-g]], [[0.0]], tau, name="delay")
    loop = ct.interconnect(
        [layer, delay],
        connections=[["layer.A[0]", "delay.y[0]"], ["delay.u[0]", "layer.Sigma[0]"]],
        inplist="layer.A[0]",
        outlist=["layer.mu[0]"],
    )
    m = a - g * q + v * beta * sigma
    D = 1 + tau * m
    push = 2 * D * tau * sigma
    A = [
        [1 + tau * (m + v), tau * v * beta * mean, -tau * g * mean],
        [0, D**2 + push * v * beta, -g * push],
        [0, 1, 0],
    ]
    linear = exact_linearize(loop, [mean, sigma, q])
    assert linear.dt == tau
    assert_matrices(linear, (A, [[tau * mean], [push], [0]], [[1, 0, 0]], [[0]]))


# -- linear systems: plain algebra ----------------------------------------------------------------


@few
@given(seeds)
def test_random_state_space_interconnections(seed):
    rng = np.random.default_rng(seed)
    parts = [random_state_space(rng, f"part{i}", static=i > 0) for i in range(rng.integers(1, 5))]
    system = ct.InterconnectedSystem(parts, inputs=0, outputs=0)
    inputs, outputs = (sum(getattr(p, key) for p in parts) for key in ("ninputs", "noutputs"))
    K = rng.standard_normal((inputs, outputs))  # full, so that there are algebraic loops
    M, P = rng.standard_normal((inputs, 2)), rng.standard_normal((3, outputs + inputs))
    system.set_connect_map(K)
    system.set_input_map(M)
    system.set_output_map(P)
    blocks = ct.append(*parts)
    x, w = rng.standard_normal(system.nstates), rng.standard_normal(2)
    linear = exact_linearize(system, x, w, require_exact=True)

    # All signals as unknowns at once: u = K y + M w, y = C x + D u.
    whole = np.block([[np.eye(inputs), -K], [-blocks.D, np.eye(outputs)]])
    known = np.block([[np.zeros((inputs, len(x))), M], [blocks.C, np.zeros((outputs, 2))]])
    solved = np.linalg.solve(whole, known)
    rates = np.hstack([blocks.A, np.zeros((len(x), 2))]) + blocks.B @ solved[:inputs]
    reads = P @ np.vstack([solved[inputs:], solved[:inputs]])
    n = len(x)
    tolerance = 1e-12 * np.linalg.cond(whole)
    expected = (rates[:, :n], rates[:, n:], reads[:, :n], reads[:, n:])
    assert_matrices(linear, expected, rtol=tolerance, atol=tolerance)


@few
@given(seeds, st.sampled_from([0, 0.5]))
def test_operators_agree_with_state_space_algebra(seed, dt):
    rng = np.random.default_rng(seed)
    one, two = (
        ct.StateSpace(*rng.standard_normal((4, 2, 2)), dt, name=name) for name in ("one", "two")
    )
    plain = ct.NonlinearIOSystem
    pairs = [
        (plain.__mul__(one, two), one * two),
        (plain.__add__(one, two), one + two),
        (plain.__sub__(one, two), one - two),
        (plain.__neg__(one), -one),
        (plain.__mul__(one, np.eye(2)), one * np.eye(2)),
        (plain.feedback(one, two), ct.feedback(one, two)),
        (plain.feedback(one, np.diag([0.3, -0.2]), 1), ct.feedback(one, np.diag([0.3, -0.2]), 1)),
    ]
    for system, expected in pairs:
        assert isinstance(system, ct.InterconnectedSystem)
        linear = exact_linearize(system, 0.3, 0.1, require_exact=True)
        assert linear.dt == expected.dt
        for s in (0.3 + 1j, -2j, 5):
            np.testing.assert_allclose(linear(s), expected(s), rtol=1e-8, atol=1e-8)


def test_state_space_far_from_zero_keeps_its_matrices():
    system = ct.ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]], name="plant")
    chain = ct.interconnect(
        [system, ct.ss([[-3.0]], [[1.0]], [[1.0]], [[0.0]], name="lag")],
        connections=[["lag.u[0]", "plant.y[0]"]],
        inplist="plant.u[0]",
        outlist="lag.y[0]",
    )
    assert isinstance(chain, ct.StateSpace)
    expected = ([[-1, 0], [1, -3]], [[1], [0]], [[0, 1]], [[0]])
    assert_matrices(exact_linearize(chain, 1e12, 1e12), expected, rtol=0, atol=0)
    assert np.abs(ct.linearize(chain, 1e12, 1e12).A - expected[0]).max() > 1


def test_maps_changed_after_construction_count():
    one, two = (ct.ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]], name=name) for name in ("one", "two"))
    chain = ct.interconnect(
        [one, two], connections=[["two.u[0]", "one.y[0]"]], inplist="one.u", outlist="two.y"
    )
    chain.set_connect_map(np.array([[0.0, 0.0], [5.0, 0.0]]))
    assert exact_linearize(chain, 0).A[1, 0] == 5


def test_transfer_functions():
    tf = ct.tf([1.0, 2.0], [1.0, 3.0, 4.0], name="plant", inputs="u", outputs="y")
    linear = exact_linearize(tf, 0)
    assert (linear.input_labels, linear.output_labels, linear.nstates) == (["u"], ["y"], 2)
    assert abs(linear(1j) - tf(1j)) < 1e-14
    loop = ct.interconnect([tf, square()], [["square.u[0]", "plant.y"]], "plant.u", "square.y")
    assert exact_linearize(loop, [0.3, -0.4], 0, require_exact=True).nstates == 2


# -- beside python-control ------------------------------------------------------------------------


@few
@given(seeds, st.sampled_from([0.0, 0.1]), st.sampled_from(["covariance", "factor"]))
def test_agrees_with_finite_differences(seed, dt, form):
    rng = np.random.default_rng(seed)
    layer = gct.moment_system(
        random_model(rng, 2, 2, dt, tilted=True), inputs=("b", "A"), form=form, name="layer"
    )
    law = ct.StateSpace(
        *(0.2 * rng.standard_normal(size) for size in ((2, 2), (2, 5), (6, 2), (6, 5))),
        dt,
        name="law",
    )
    bend = ct.nlsys(
        None, lambda t, x, u, params: np.tanh(u), inputs=6, outputs=6, dt=dt, name="bend"
    )
    inner = bend * law
    inner.name = "inner"
    loop = layer.feedback(inner)
    x = [layer.state_vector(rng.standard_normal(2), random_covariance(rng, 2)), np.zeros(2)]
    u = 0.3 * rng.standard_normal(6)
    exact, differenced = exact_linearize(loop, x, u), ct.linearize(loop, x, u)
    assert exact.dt == differenced.dt == dt
    for one, other in zip(matrices(exact), matrices(differenced), strict=True):
        # Forward differences of step 1e-6: half the second derivative times the step.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * (1 + np.abs(one).max()))
    assert differenced_subsystems(loop) == ("inner.bend",)


@few
@given(seeds)
def test_grouping_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    law = ct.StateSpace(*rng.standard_normal((4, 1, 1)), name="law")
    parts = law, square(), ct.StateSpace(*rng.standard_normal((4, 1, 1)), name="lag")
    times = ct.NonlinearIOSystem.__mul__
    left = times(times(parts[0], parts[1]), parts[2])
    right = times(parts[0], times(parts[1], parts[2]))
    x, u = rng.standard_normal(2), rng.standard_normal(1)
    assert_matrices(exact_linearize(left, x, u), matrices(exact_linearize(right, x, u)))


@few
@given(seeds)
def test_feedback_twice_is_feedback_of_the_sum(seed):
    rng = np.random.default_rng(seed)
    plant, first, second = pendulum(), rng.standard_normal(), rng.standard_normal()
    x, u = rng.standard_normal(2), rng.standard_normal(1)
    twice = exact_linearize(plant.feedback(first).feedback(second), x, u)
    once = exact_linearize(plant.feedback(first + second), x, u)
    assert_matrices(twice, matrices(once), rtol=1e-10, atol=1e-12)


def test_one_system_is_its_own_linearisation():
    layer = gct.moment_system(random_model(np.random.default_rng(4), 2, 1), name="layer")
    x = gct.pack([0.3, -0.2], np.eye(2))
    linear = exact_linearize(layer, x, require_exact=True)
    assert_matrices(linear, matrices(layer.linearize(x)), rtol=0, atol=0)
    assert linear.state_labels == layer.state_labels


def test_parameters_reach_subsystems_as_in_python_control():
    def scaled(name, **params):
        return Known(
            lambda t, x, u, params: -params["k"] * x**2 + params["c"] * u + t,
            lambda t, x, u, params: x,
            lambda t, x, u, params: (
                [[-2 * params["k"] * x[0]]],
                [[params["c"]]],
                [[1]],
                [[0]],
            ),
            inputs=1,
            outputs=1,
            states=1,
            name=name,
            params=params,
        )

    inner = ct.interconnect(
        [scaled("first", k=1.0, c=2.0), scaled("second", k=3.0, c=4.0)],
        connections=[["second.u[0]", "first.y[0]"]],
        inplist="first.u[0]",
        outlist="second.y[0]",
        params={"c": 5.0},
        name="inner",
    )
    outer = ct.interconnect(
        [inner, scaled("third", k=6.0, c=7.0)],
        connections=[["third.u[0]", "inner.y[0]"]],
        inplist="inner.u[0]",
        outlist="third.y[0]",
    )
    for system in (inner, outer):
        for params in (None, {"k": 11.0}, {"c": 12.0}, {"k": 0.5, "c": -1.0}):
            found = exact_linearize(system, 0.5, params=params)
            assert_matrices(found, matrices(ct.linearize(system, 0.5, params=params)), 1e-4, 1e-4)
    assert np.array_equal(exact_linearize(inner, 1.0).B, [[5], [0]])
    assert inner.params == {"c": 5.0}


def test_parameters_of_a_layer_inside():
    layer = gct.moment_system(gct.GaussianTransformer(0.5, 1, -0.25), name="layer")
    loop = layer * ct.ss([], [], [], [[2.0]], name="gain")
    linear = exact_linearize(loop, [0, 2], params={"A": 0.7})
    np.testing.assert_allclose(linear.A, [[0.7 - 0.5 - 0.25, 0], [0, 1.4 - 2.0]], rtol=1e-14)
    # sensitivity to A of the nominal model is untouched
    np.testing.assert_allclose(exact_linearize(loop, [0, 2]).A[1, 1], -1, rtol=1e-14)


def test_time_reaches_the_subsystems():
    clock = Known(
        lambda t, x, u, params: t * x * u,
        lambda t, x, u, params: x,
        lambda t, x, u, params: ([[t * u[0]]], [[t * x[0]]], [[1]], [[0]]),
        inputs=1,
        outputs=1,
        states=1,
        name="clock",
    )
    linear = exact_linearize(2 * clock, 3, 5, t=7)
    assert_matrices(linear, ([[35]], [[21]], [[2]], [[0]]), rtol=0, atol=0)


# -- what is exact --------------------------------------------------------------------------------


def test_differenced_subsystems_are_named_and_refused():
    clip = ct.nlsys(None, lambda t, x, u, params: np.sin(u), inputs=1, outputs=1, name="clip")
    inner = clip * ct.ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]], name="lag")
    inner.name = "inner"
    outer = 3 * inner
    assert differenced_subsystems(outer) == ("inner.clip",)
    assert differenced_subsystems(clip) == ("clip",)
    with pytest.raises(ParameterError, match=r"found inner\.clip to difference"):
        exact_linearize(outer, 0, require_exact=True)
    np.testing.assert_allclose(exact_linearize(outer, 0.5).C, [[3 * np.cos(0.5)]], rtol=1e-5)
    # eps is for them alone: with a coarse step the secant shows
    coarse = exact_linearize(outer, 0.5, eps=0.1).C
    np.testing.assert_allclose(coarse, [[30 * (np.sin(0.6) - np.sin(0.5))]], rtol=1e-12)


def test_many_differenced_subsystems_fit_on_a_line():
    parts = [
        ct.nlsys(None, lambda t, x, u, params: u, inputs=1, outputs=1, name=f"part{i}")
        for i in range(8)
    ]
    system = ct.InterconnectedSystem(parts, inplist=[(0, 0)], outlist=[(7, 0)])
    with pytest.raises(ParameterError, match="part4 and 3 more to difference"):
        exact_linearize(system, 0, require_exact=True)


@pytest.mark.parametrize("gain", [2, 0.3, -1.5, np.array([[0.7]])])
def test_numbers_in_the_arithmetic_are_exact(gain):
    lag = ct.NonlinearIOSystem.__mul__(
        ct.ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]], name="lag"), square()
    )
    for system in (lag * gain, gain * lag, lag.feedback(gain), lag + gain):
        assert differenced_subsystems(system) == ()
    value = float(np.squeeze(gain))
    # Also far out, where the difference of 0.3 * u has lost its digits.
    assert exact_linearize(gain * lag, 0, 1e9).C[0, 0] == value
    assert exact_linearize(lag.feedback(gain), 1.0, 0).A[0, 0] == pytest.approx(
        -1 + 2 * value**2, rel=1e-14
    )


def test_a_linearize_method_of_the_object_itself_counts():
    sine = ct.nlsys(None, lambda t, x, u, params: np.sin(u), inputs=1, outputs=1, name="sine")
    sine.linearize = lambda x0, u0=None, t=0, params=None: ct.ss([], [], [], [[np.cos(u0[0])]])
    assert exact_linearize(sine * 2, 0, 0.2, require_exact=True).D[0, 0] == 2 * np.cos(0.4)


def test_an_interconnection_with_its_own_linearisation_is_asked():
    class Rounded(ct.InterconnectedSystem):
        def linearize(self, x0, u0=None, t=0, params=None, **kwargs):
            return ct.ss([[-7.0]], [[1.0]], [[1.0]], [[0.0]])

    lag = ct.ss([[-1.0]], [[1.0]], [[1.0]], [[0.0]], name="lag")
    inner = Rounded([lag], inplist=[(0, 0)], outlist=[(0, 0)], name="inner")
    assert exact_linearize(inner, 0).A[0, 0] == -7
    assert exact_linearize(-inner, 0).A[0, 0] == -7


# -- operating points, names ----------------------------------------------------------------------


def test_forms_of_the_operating_point():
    loop, x, u = nested_pendulum(), [0.4, 0.3, -0.8], 0.9
    expected = matrices(exact_linearize(loop, x, u))
    states = np.array(x)
    for x0, u0 in (
        (states, [0.9]),
        ([[0.4, 0.3], -0.8], u),
        ([[0.4, 0.3], [[-0.8]]], np.array([0.9])),
        (tuple(x), (u,)),
        (ct.OperatingPoint(states, np.array([0.9])), None),
        (ct.OperatingPoint(states, np.array([5.0])), 0.9),
        (ct.OperatingPoint(x, 0.9), None),
    ):
        assert_matrices(exact_linearize(loop, x0, u0), expected, rtol=0, atol=0)
    assert np.array_equal(states, x)
    zero = matrices(exact_linearize(loop, [0.4, 0.3, 0.0]))
    assert_matrices(exact_linearize(loop, [[0.4, 0.3], 0], 0), zero, rtol=0, atol=0)
    assert_matrices(exact_linearize(loop, ct.OperatingPoint([0.4, 0.3, 0], None)), zero)
    all_equal = matrices(exact_linearize(loop, [0.2, 0.2, 0.2], 0.2))
    assert_matrices(exact_linearize(loop, 0.2, 0.2), all_equal, rtol=0, atol=0)


def test_found_operating_point():
    loop = nested_pendulum()
    point = ct.find_operating_point(loop, [0.3, 0, 0.8], 0.3)
    linear = exact_linearize(loop, point)
    differenced = ct.linearize(loop, point)
    assert_matrices(linear, matrices(differenced), rtol=1e-5, atol=1e-5)


def test_names_are_those_of_python_control():
    loop = nested_pendulum()
    expected = ct.linearize(loop, [0.4, 0.3, -0.8], 0.9, copy_names=True)
    linear = exact_linearize(loop, [0.4, 0.3, -0.8], 0.9)
    assert linear.name == expected.name == "loop$linearized"
    for key in ("input_labels", "output_labels", "state_labels"):
        assert getattr(linear, key) == getattr(expected, key)
    assert linear.input_labels == ["r"]
    assert linear.state_labels[0] == "pendulum_x[0]"


def test_names_of_the_users_own():
    loop = nested_pendulum()
    linear = exact_linearize(loop, 0.1, name="near", inputs=["ref"], states=["a", "b", "c"])
    assert (linear.name, linear.input_labels) == ("near", ["ref"])
    assert linear.state_labels == ["a", "b", "c"]
    assert linear.output_labels == ["angle", "mixed", "torque"]
    generic = exact_linearize(loop, 0.1, copy_names=False)
    assert generic.input_labels == ["u[0]"]
    assert generic.name != "loop$linearized"
    with pytest.raises(TypeError, match="unrecognized"):
        exact_linearize(loop, 0.1, colour="red")


def test_states_without_effect_are_kept():
    system = ct.ss(np.zeros((2, 2)), np.zeros((2, 1)), [[1, 0]], [[0]], remove_useless_states=False)
    assert exact_linearize(-ct.NonlinearIOSystem.__mul__(system, square()), 0).nstates == 2


def test_sizes_found_at_the_point():
    lazy = ct.NonlinearIOSystem(lambda t, x, u, params: -(x**2) + u)
    np.testing.assert_allclose(
        exact_linearize(lazy, [1.0, 2.0], [0.0, 0.0]).A, np.diag([-2, -4]), rtol=1e-5
    )


# -- refusals -------------------------------------------------------------------------------------


def loop_of_gains(first, second):
    one = ct.ss([[-1.0]], [[1.0]], [[1.0]], [[first]], name="one")
    return ct.NonlinearIOSystem.feedback(one, ct.ss([], [], [], [[second]], name="two"), sign=1)


def test_singular_loop():
    with pytest.raises(ParameterError, match=r"I - K D singular at one\.u\[0\], two\.u\[0\]"):
        exact_linearize(loop_of_gains(0.5, 2.0), 1.0)
    # without a signal in it the loop still has no unique solution
    with pytest.raises(ParameterError, match="well-posed"):
        exact_linearize(loop_of_gains(0.5, 2.0), 0.0)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_units_of_the_signals_do_not_matter(scale):
    linear = exact_linearize(loop_of_gains(0.5 * scale, 1.0 / scale), 1.0)
    # du = dw + (1/scale) dy, dy = dx + 0.5 scale du
    assert_matrices(linear, ([[-1 + 2 / scale]], [[2]], [[2]], [[scale]]), rtol=1e-12, atol=0)
    with pytest.raises(ParameterError, match="well-posed"):
        exact_linearize(loop_of_gains(0.5 * scale, 2.0 / scale), 1.0)


def test_huge_gains_without_a_loop_are_no_singularity():
    parts = [ct.ss([], [], [], [[1e15]], name=f"part{i}") for i in range(3)]
    system = ct.InterconnectedSystem(
        parts, [[(1, 0), (0, 0)], [(2, 0), (1, 0)]], inplist=[(0, 0)], outlist=[(2, 0)]
    )
    np.testing.assert_allclose(exact_linearize(system, 0).D, [[1e45]], rtol=1e-14)


def test_loop_without_a_solution():
    # u = 1 + u^2 has no real solution
    system = square().feedback(1, sign=1)
    with pytest.raises(ParameterError, match="to have a solution at x0, u0, found none in 50"):
        exact_linearize(system, 0, 1.0)
    # u = -1 + u^2 has; Newton's method from -1 ends in the lesser one, u = (1 - sqrt 5) / 2
    slope = 1 - np.sqrt(5)
    found = exact_linearize(system, 0, -1.0).D[0, 0]
    assert found == pytest.approx(slope / (1 - slope), rel=1e-12)


def test_loop_whose_sweeps_overflow():
    # u = w - y, y = exp(40 u) - 1: python-control's sweeps overflow, Newton's method settles.
    steep = Known(
        None,
        lambda t, x, u, params: np.exp(40 * u) - 1,
        lambda t, x, u, params: ([], [], [], np.diag(40 * np.exp(40 * u))),
        inputs=1,
        outputs=1,
        name="steep",
    )
    # With u = log(1 + y) / 40, y + log(1 + y) / 40 = w
    found = exact_linearize(steep.feedback(1), 0, 0.5 + math.log(1.5) / 40).D[0, 0]
    slope = 40 * 1.5
    assert found == pytest.approx(slope / (1 + slope), rel=1e-12)


def test_outputs_that_are_not_finite():
    root = Known(
        None,
        lambda t, x, u, params: np.where(u > 0, u, math.nan),
        lambda t, x, u, params: ([], [], [], [[1.0]]),
        inputs=1,
        outputs=1,
        name="root",
    )
    with pytest.raises(ParameterError, match="expected finite outputs of the subsystems"):
        exact_linearize(2 * root, 0, -1.0)


def test_affine_loop_far_from_its_start():
    linear = exact_linearize(loop_of_gains(3.0, 5.0), 1e8, -1e8)
    assert_matrices(linear, ([[-1 - 5 / 14]], [[-1 / 14]], [[-1 / 14]], [[-3 / 14]]))


@pytest.mark.parametrize(
    ("x0", "u0", "error", "match"),
    [
        ([1.0, 2.0], 0, ShapeError, "x0: expected 3 entries, found 2"),
        (np.zeros(2), 0, ShapeError, "x0: expected 3 entries, found 2"),
        ([[0.1, 0.2, 0.3], 0.4], 0, ShapeError, "x0: expected 3 entries, found 4"),
        ([[0.1, 0.2, 0.3], 0], 0, ShapeError, "x0: expected 3 entries, found 4"),
        (0, [1, 2], ShapeError, "u0: expected 1 entry, found 2"),
        ([0.1, math.nan, 0.3], 0, ParameterError, "x0: expected finite"),
        (0, math.inf, ParameterError, "u0: expected finite"),
        (1j, 0, ParameterError, "x0: expected real"),
        (ct.OperatingPoint(None, None), None, ParameterError, "x0: expected an operating point"),
    ],
)
def test_bad_operating_points(x0, u0, error, match):
    with pytest.raises(error, match=match):
        exact_linearize(nested_pendulum(), x0, u0)


@pytest.mark.parametrize("sys", [3, np.eye(2), ct.frd([1, 1], [1, 2]), None])
def test_what_has_no_states(sys):
    with pytest.raises(ParameterError, match="sys: expected a python-control system with states"):
        exact_linearize(sys, 0)


def test_linearize_method_that_loses_a_state():
    wrong = pendulum()
    wrong.jacobian = lambda t, x, u, params: ([[0.0]], [[1.0]], [[1.0]], [[0.0]])
    with pytest.raises(ShapeError, match="pendulum: expected a linearisation with"):
        exact_linearize(-wrong, 0)


def test_map_of_the_wrong_shape():
    loop = nested_pendulum()
    loop.set_connect_map(np.zeros((2, 2)))  # python-control takes any shape
    exact_linearize(loop, 0)
    loop.set_connect_map(np.zeros((3, 2)))
    with pytest.raises(ShapeError, match=r"connect_map: expected shape \(2, 2\) in loop"):
        exact_linearize(loop, 0)


# -- what is not finite ---------------------------------------------------------------------------


def test_a_derivative_that_does_not_exist_names_the_subsystem():
    root = ct.nlsys(
        lambda t, x, u, params: -x + u,
        lambda t, x, u, params: np.sqrt(1 - x),
        inputs=1,
        outputs=1,
        states=1,
        name="root",
    )
    after = ct.ss(-1, 1, 1, 0, name="after")
    for system, x0 in ((root, [1.0]), (after * root, [1.0, 0.0]), (root * after, [0.0, 1.0])):
        with pytest.raises(ParameterError, match=r"finite linearisation of root, found NaN .* C"):
            exact_linearize(system, x0, [0.0])


def test_gains_in_series_that_overflow_are_refused():
    gains = [
        ct.nlsys(None, lambda t, x, u, p: 1e200 * u, inputs=1, outputs=1, name=f"g{i}")
        for i in range(3)
    ]
    joined = ct.interconnect(
        gains,
        [["g1.u[0]", "g0.y[0]"], ["g2.u[0]", "g1.y[0]"]],
        inplist="g0.u[0]",
        outlist="g2.y[0]",
        name="whole",
    )
    with pytest.raises(ParameterError, match=r"signals in whole, found NaN .* at g2.u\[0\]"):
        exact_linearize(joined, [], [0.0])
    with pytest.raises(ParameterError, match="found NaN or infinite entries in D; its gains"):
        exact_linearize(gains[0] * gains[1] * gains[2], [], [0.0])
