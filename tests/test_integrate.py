"""Single trajectories: solvers, stiffness, samples, and finite escape."""

import numpy as np
import pytest
from problems import (
    attention_blow_up,
    lotka_volterra,
    planted_problem,
    random_covariance,
    reference_solution,
)

import gausscontrol as gct
from gausscontrol.errors import IntegrationError
from gausscontrol.linalg.symmetric import factor, vech
from gausscontrol.model.moments import MomentField
from gausscontrol.systems.escape import EscapeWatch
from gausscontrol.systems.forms import CovarianceFlow, FactorFlow
from gausscontrol.systems.integrate import integrate

TOLERANCES = {"rtol": 1e-9, "atol": 1e-12}
TIGHT = {"rtol": 1e-12, "atol": 1e-14}


def constant(model):
    field = MomentField.of(model)
    return lambda t: field


def covariance_run(model, mean, S, end, times=(), **options):
    flow = CovarianceFlow(constant(model), model.dim)
    state = np.concatenate([mean, vech(S)])
    return flow, integrate(flow, 0.0, state, end, np.array(times), **(TOLERANCES | options))


def factor_run(model, mean, L, end, times=(), gauge=True, transition=False, **options):
    flow = FactorFlow(constant(model), model.dim, L.shape[1], gauge=gauge, transition=transition)
    parts = [mean, L.reshape(-1)] + ([np.eye(model.dim).reshape(-1)] if transition else [])
    state = np.concatenate(parts)
    return flow, integrate(flow, 0.0, state, end, np.array(times), **(TOLERANCES | options))


def scalar(a, b, v):
    return gct.GaussianTransformer(a, b, v)


# -- trajectories ---------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [None, "DOP853", "Radau"])
@pytest.mark.parametrize("form", ["covariance", "factor"])
def test_solvers_reach_the_reference(solver, form):
    rng = np.random.default_rng(4)
    model, _ = planted_problem(rng, 2, 2, 1.0)
    mean, S = rng.standard_normal(2), random_covariance(rng, 2)
    times = np.array([0.1, 0.5, 1.0])
    if form == "covariance":
        flow, leg = covariance_run(model, mean, S, 1.0, times, solver=solver)
    else:
        flow, leg = factor_run(model, mean, factor(S), 1.0, times, solver=solver)
    assert leg.reason == "end"
    assert leg.end_time == 1.0
    means, covariances = reference_solution(model, mean, S, [0, *times])
    for n, state in enumerate(leg.states.T, start=1):
        size = np.abs(covariances[..., n]).max()
        assert np.allclose(flow.covariance(state), covariances[..., n], atol=1e-6 * size)
        assert np.allclose(state[:2], means[:, n], atol=1e-6 * np.abs(means).max())


def test_samples_at_start_end_and_between():
    model = scalar(-0.5, 0, 0)
    times = np.array([0.0, 1e-9, 0.3, 1.0])
    _, leg = covariance_run(model, [1.0], np.eye(1), 1.0, times)
    assert np.array_equal(leg.times, times)
    assert np.allclose(leg.states[1], np.exp(-times), rtol=1e-7)
    _, empty = covariance_run(model, [1.0], np.eye(1), 1.0)
    assert empty.times.size == 0
    assert np.isclose(empty.end_state[1], np.exp(-1))


def test_state_is_not_mutated():
    state = np.array([1.0, 1.0])
    flow = CovarianceFlow(constant(scalar(-1, 0, 0)), 1)
    integrate(flow, 0.0, state, 1.0, np.array([0.0, 1.0]), **TOLERANCES)
    assert np.array_equal(state, [1, 1])


def test_knots_are_not_crossed():
    # mu' = sign: the exact solution has a kink at 1/3, met to rounding.
    up, down = (MomentField.of(scalar(0, 0, 0).replace(b=[b])) for b in (1.0, -1.0))
    kink = 1 / 3
    flow = CovarianceFlow(lambda t: up if t < kink else down, 1)
    knots = np.array([0.0, kink, 1.0])
    leg = integrate(flow, 0.0, np.zeros(2), 1.0, np.array([1.0]), knots=knots, **TOLERANCES)
    assert np.isclose(leg.states[0, 0], 2 * kink - 1, atol=1e-14)


def test_stop_ends_the_leg():
    flow = CovarianceFlow(constant(scalar(-1, 0, 0)), 1)
    leg = integrate(
        flow, 0.0, np.ones(2), 50.0, np.empty(0), stop=lambda t, y: y[1] < 1e-3, **TOLERANCES
    )
    assert leg.reason == "end"
    assert 0 < leg.end_time < 50
    assert leg.end_state[1] < 1e-3


@pytest.mark.parametrize(
    ("form", "rate"),
    [("covariance", 1e4), ("covariance", 1e6), ("covariance", 1e8), ("factor", 1e4)],
)
def test_stiff_problems_take_few_steps(form, rate):
    fast = np.diag([rate, 1.0])
    model = gct.GaussianTransformer(fast, np.eye(2) + 0.1, -fast)
    if form == "covariance":
        flow, leg = covariance_run(model, [1, 0], np.eye(2), 100.0, max_steps=1000)
    else:
        flow, leg = factor_run(model, [1, 0], np.eye(2), 100.0, max_steps=1000)
    assert np.allclose(flow.covariance(leg.end_state), np.linalg.inv(np.eye(2) + 0.1), rtol=1e-7)


@pytest.mark.parametrize("rate", [1.0, 1e4, 1e6, 1e8])
def test_logistic_growth_of_any_rate(rate):
    flow, leg = covariance_run(scalar(rate, 1, -rate), [0], [[1e-3]], 100.0, max_steps=1000)
    assert np.isclose(flow.trace(leg.end_state), 1, rtol=1e-8)


def test_oscillation_is_left_to_the_explicit_solver():
    # 640 radians; an implicit solver of order five would need many times the steps.
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    model = gct.GaussianTransformer(32 * J, 0 * J, 0 * J)
    flow, leg = covariance_run(model, [0, 0], np.diag([1.0, 2.0]), 10.0, max_steps=5000)
    R = np.array([[np.cos(320), np.sin(320)], [-np.sin(320), np.cos(320)]])
    assert np.allclose(flow.covariance(leg.end_state), R @ np.diag([1, 2]) @ R.T, atol=1e-5)


def test_steps_run_out():
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    model = gct.GaussianTransformer(1e3 * J, 0 * J, 0 * J)
    with pytest.raises(IntegrationError, match="used up 50 steps, 0 of them of a stiff solver"):
        covariance_run(model, [0, 0], np.diag([1.0, 2.0]), 1e3, max_steps=50)


def test_a_stiff_solver_that_creeps_is_given_up(monkeypatch):
    """One direction grows beside one that attention holds, ever faster."""
    monkeypatch.setattr("gausscontrol.systems.integrate.MAX_STIFF_STEPS", 60)
    B = np.array([[[1.0, 0.0], [2.0, 0.0]], [[0.2, 0.8], [0.4, 1.6]]])
    V = np.array([[[-0.5, 0.0], [-0.5, 0.0]], [[-0.1, -0.6], [-0.1, -0.6]]])
    model = gct.GaussianTransformer(np.eye(2), B, V)
    with pytest.raises(IntegrationError, match="60 of them of a stiff solver"):
        gct.moment_response(model, [0, 9], (np.zeros(2), np.eye(2)))


@pytest.mark.parametrize("grow", ["covariance", "mean"])
def test_exponential_growth_to_overflow_is_no_escape(grow):
    model = scalar(10, 0, 0) if grow == "covariance" else scalar(0, 0, 10)
    with pytest.raises(IntegrationError, match="not a finite escape"):
        covariance_run(model, [1.0], np.eye(1), 1e3)


def test_zero_covariance_may_not_hide_overflow():
    model = gct.GaussianTransformer(10 * np.eye(2), np.eye(2), np.eye(2))
    with pytest.raises(IntegrationError, match="not a finite escape"):
        factor_run(model, np.ones(2), np.zeros((2, 0)), 1e3)


def test_overflow_at_the_start():
    with pytest.raises(IntegrationError, match="initial: the right side overflows"):
        covariance_run(scalar(0, 1, 1), [0], [[1e200]], 1.0)


# -- handover -------------------------------------------------------------------------------------


def test_covariance_form_ends_before_it_degenerates():
    model = gct.GaussianTransformer(np.diag([0.0, -3.0]), np.zeros((2, 2)), np.zeros((2, 2)))
    flow, leg = covariance_run(
        model, [0, 0], np.eye(2), 10.0, np.linspace(0, 10, 101), stop_when_degenerate=True
    )
    assert leg.reason == "degenerate"
    assert 0 < leg.end_time < np.log(1e5) / 6
    assert not flow.is_degenerate(leg.end_state)
    assert leg.times[-1] <= leg.end_time
    covariances = np.array([flow.covariance(y) for y in leg.states.T])
    assert np.linalg.eigvalsh(covariances)[:, 0].min() > 0


def test_covariance_form_ends_above_its_absolute_tolerance():
    flow = CovarianceFlow(constant(scalar(-1, 0, 0)), 1, floor=1e-12)
    leg = integrate(
        flow, 0.0, np.ones(2), 100.0, np.empty(0), stop_when_degenerate=True, **TOLERANCES
    )
    assert leg.reason == "degenerate"
    assert leg.end_state[1] > 1e-9


# -- escape ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["covariance", "factor"])
@pytest.mark.parametrize("seed", range(12))
def test_escape_depth_of_scalar_problems(form, seed):
    rng = np.random.default_rng(seed)
    a, v = rng.standard_normal(), 10 ** rng.uniform(-2, 2)
    start = 10 ** rng.uniform(-2, 2) + max(-a / v, 0) * 1.1
    exact = np.log1p(a / (v * start)) / (2 * a)
    times = np.linspace(0, 3 * exact, 50)
    if form == "covariance":
        _, leg = covariance_run(scalar(a, 1, v), [0], [[start]], 3 * exact, times)
    else:
        _, leg = factor_run(scalar(a, 1, v), [0], np.sqrt([[start]]), 3 * exact, times)
    assert leg.reason == "escape"
    assert abs(leg.escape.depth - exact) < 1e-6 * exact
    assert np.array_equal(leg.times, times[times < exact])
    sigma = leg.states[1] ** (2 if form == "factor" else 1)
    growth = np.exp(2 * a * leg.times)
    assert np.allclose(sigma, growth * start / (1 - v * start * (growth - 1) / a), rtol=1e-5)


def test_samples_next_to_the_escape():
    times = 1 - 10.0 ** -np.arange(1, 9)
    _, leg = covariance_run(scalar(0, 1, 0.5), [0], [[1.0]], 5.0, times, **TIGHT)
    assert leg.reason == "escape"
    assert leg.times.size == 8
    assert np.allclose(leg.states[1] * (1 - times), 1, rtol=1e-3)


def test_escape_beyond_the_end_is_not_reported():
    _, leg = covariance_run(scalar(0, 1, 0.5), [0], [[1.0]], 1 - 1e-6)
    assert leg.reason == "end"
    assert leg.escape is None
    assert np.isclose(leg.end_state[1], 1e6, rtol=1e-2)


def test_escape_of_a_matrix():
    problem = attention_blow_up()
    B = problem.model.B[0]
    exact = 2 / np.linalg.eigvalsh(B + B.T)[-1]
    _, leg = factor_run(problem.model, np.zeros(2), np.sqrt(0.5) * np.eye(2), 5.0, **TIGHT)
    assert abs(leg.escape.depth - exact) < 1e-9


def test_escape_at_once():
    _, leg = covariance_run(scalar(0.5, 1, 1), [0], [[1e100]], 5.0)
    assert np.isclose(leg.escape.depth, 0.5e-100, rtol=1e-8)


@pytest.mark.parametrize(
    ("saturation", "start"), [(1e-7, 1e-6), (1e-9, 1e-3), (1e-4, 1e-8)], ids=str
)
def test_quadratic_growth_that_saturates_is_no_escape(saturation, start):
    # x' = x (y - saturation x) with y constant: growth is quadratic to the letter, by 1e3 to 1e9.
    model = lotka_volterra((0, 0), ((-saturation, 1.0), (0.0, -1e-14))).model
    flow, leg = covariance_run(model, [0, 0], np.diag([start, 1.0]), 80.0)
    assert leg.reason == "end"
    assert np.isclose(flow.trace(leg.end_state), 1 / saturation, rtol=1e-4)


def test_transient_growth_is_no_escape():
    A = np.array([[-1.0, 1e4], [0.0, -1.0]])
    model = gct.GaussianTransformer(A, 1e-9 * np.eye(2), 1e-3 * np.eye(2))
    times = np.linspace(0, 40, 401)
    flow, leg = factor_run(model, [0, 0], np.eye(2), 40.0, times)
    traces = np.array([flow.trace(y) for y in leg.states.T])
    assert leg.reason == "end"
    assert traces.max() > 1e6 * traces[0]
    assert traces[-1] < 1e-6


def test_watch_looks_only_at_growth():
    flow = CovarianceFlow(constant(scalar(0, 1, 0.5)), 1)
    watch = EscapeWatch(flow, 0.0, 10.0, 1e-9, 1e-12)
    assert watch.look(0.0, np.array([0.0, 1.0]), force=False) is None
    assert watch.look(0.5, np.array([0.0, 2.0]), force=False) is None
    escape = watch.look(0.999, np.array([0.0, 1e3]), force=False)
    assert np.isclose(escape.depth, 1.0, atol=1e-12)
    assert 0 < escape.remaining < 1e-9
    shrinking = EscapeWatch(CovarianceFlow(constant(scalar(-1, 1, -1)), 1), 0.0, 10.0, 1e-9, 0.0)
    assert shrinking.look(1.0, np.array([0.0, 1.0]), force=True) is None
