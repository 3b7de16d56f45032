"""Paths of Gaussians: geodesics, waypoints and functions of depth."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import LAWS, dims, seeds

from gausscontrol.errors import ParameterError, ShapeError, UnreachableError
from gausscontrol.linalg.bures import bures_wasserstein
from gausscontrol.synthesis.steering import steer


def gaussian(rng, d, r):
    L = rng.standard_normal((d, r))
    return rng.standard_normal(d), L @ L.T


def turning(t):
    """A path that turns and stretches, with its derivative."""
    c, s = np.cos(t), np.sin(t)
    R, D = np.array([[c, -s], [s, c]]), np.diag([1 + t, 1 / (1 + t)])
    return np.array([s, t * t]), R @ D @ R.T


def turning_rate(t):
    c, s = np.cos(t), np.sin(t)
    R, R_rate = np.array([[c, -s], [s, c]]), np.array([[-s, -c], [c, -s]])
    D, D_rate = np.diag([1 + t, 1 / (1 + t)]), np.diag([1, -1 / (1 + t) ** 2])
    product = R_rate @ D @ R.T
    return np.array([c, 2 * t]), product + product.T + R @ D_rate @ R.T


@LAWS
@given(dims, seeds, st.floats(1e-3, 1e3))
def test_energy_is_the_squared_distance_over_the_duration(d, seed, duration):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(0, d + 1))
    start, goal = gaussian(rng, d, r), gaussian(rng, d, r)
    energy = steer(start, goal, duration).energy
    assert energy == pytest.approx(bures_wasserstein(start, goal) ** 2 / duration, rel=1e-10)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([4.0, 1.0], [1.0, 9.0]),
        ([4.0, 1.0, 0.0], [1.0, 9.0, 0.0]),
        ([4.0, 1.0, 0.0], [0.0, 9.0, 2.0]),
        ([1.0, 0.0], [0.0, 1.0]),
        ([3.0, 2.0], [3.0, 2.0]),
    ],
)
def test_energy_of_commuting_and_singular_covariances(a, b):
    expected = np.sum((np.sqrt(a) - np.sqrt(b)) ** 2) / 2
    plan = steer(np.diag(a), np.diag(b), 2.0)
    assert plan.energy == pytest.approx(expected, abs=1e-15)


@LAWS
@given(dims, seeds)
def test_geodesic_moves_at_constant_speed(d, seed):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, d + 1))
    start, goal = gaussian(rng, d, r), gaussian(rng, d, r)
    plan, whole = steer(start, goal, 3.0), bures_wasserstein(start, goal)
    quarter = plan.mean(0.75), plan.covariance(0.75)
    assert bures_wasserstein(start, quarter) == pytest.approx(whole / 4, rel=1e-7)
    assert bures_wasserstein(quarter, goal) == pytest.approx(3 * whole / 4, rel=1e-7)
    assert np.linalg.matrix_rank(quarter[1]) == r


def test_moments_of_a_plan_have_depth_last():
    plan = steer(np.eye(2), 4 * np.eye(2), 2.0)
    assert plan.mean(1.0).shape == (2,)
    assert plan.mean([0, 1, 2]).shape == (2, 3)
    np.testing.assert_allclose(plan.covariance([0, 1, 2])[0, 0], [1, 2.25, 4], rtol=1e-15)
    for wrong in (-0.1, 2.1, [0, 3]):
        with pytest.raises(ParameterError, match="t: expected depths from 0 to 2"):
            plan.covariance(wrong)
    with pytest.raises(ShapeError, match="t: expected a depth"):
        plan.mean([[0.0]])


# -- waypoints ------------------------------------------------------------------------------------


def test_waypoints_are_passed_at_constant_speed():
    rng = np.random.default_rng(0)
    stops = [gaussian(rng, 3, 2) for _ in range(4)]
    plan = steer(stops[0], stops[-1], 2.0, path=stops[1:-1])
    legs = [bures_wasserstein(P, Q) for P, Q in pairwise(stops)]
    np.testing.assert_allclose(plan.knots, 2 * np.cumsum(legs)[:-1] / sum(legs), rtol=1e-12)
    for t, (mean, covariance) in zip(plan.knots, stops[1:-1], strict=True):
        np.testing.assert_allclose(plan.mean(t), mean, atol=1e-13)
        np.testing.assert_allclose(plan.covariance(t), covariance, atol=1e-12)
    assert plan.energy == pytest.approx(sum(legs) ** 2 / 2, rel=1e-12)
    assert plan.energy > steer(stops[0], stops[-1], 2.0).energy


def test_parameters_jump_at_a_waypoint_and_the_response_follows():
    start, goal = (np.zeros(2), np.eye(2)), (np.zeros(2), 3 * np.eye(2))
    plan = steer(start, goal, 2.0, path=[(np.ones(2), np.diag([2.0, 0.5]))])
    (knot,) = plan.knots
    before, after = plan.parameters(knot - 1e-9), plan.parameters(knot)
    assert np.abs(before.A - after.A).max() > 0.1
    for closed_loop in (True, False):
        response = plan.response([0, knot, 2.0], closed_loop=closed_loop)
        np.testing.assert_allclose(response.covariance[:, :, 1], np.diag([2.0, 0.5]), atol=1e-10)
        np.testing.assert_allclose(response.covariance[:, :, 2], goal[1], atol=1e-10)
    # a grid that knows nothing of the knot
    response = plan.response(np.linspace(0, 2, 6), closed_loop=False)
    np.testing.assert_allclose(response.covariance[:, :, -1], goal[1], atol=1e-10)
    assert response.t.size == response.mean.shape[1] == 6


def test_waypoints_that_do_not_move_take_no_depth():
    start, goal = np.eye(2), 4 * np.eye(2)
    plan = steer(start, goal, 1.0, path=[start, goal])
    assert plan.knots.shape == (0,)
    assert plan.energy == pytest.approx(steer(start, goal, 1.0).energy, rel=1e-14)
    rng = np.random.default_rng(0)
    for r in (1, 3):
        same = gaussian(rng, 3, r)
        assert steer(same, same, 1.0).energy == 0
    still = steer(start, start, 1.0, path=[start])
    assert still.energy == 0
    np.testing.assert_array_equal(still.parameters(0.5).A, np.zeros((2, 2)))


# -- functions of depth ---------------------------------------------------------------------------


def test_velocity_of_a_function_is_accurate():
    plan = steer(turning(0), turning(2), 2.0, path=turning)
    for t in np.linspace(0, 2, 9):
        point = plan.path.point(t)
        mean_rate, covariance_rate = turning_rate(t)
        np.testing.assert_allclose(point.mean_rate, mean_rate, atol=1e-11)
        np.testing.assert_allclose(point.covariance_rate, covariance_rate, atol=1e-11)
        np.testing.assert_allclose(point.covariance, turning(t)[1], atol=1e-13)
        product = point.factor.T @ point.factor_rate  # the shortest velocity of a factor
        np.testing.assert_allclose(product, product.T, atol=1e-10)


def test_derivative_of_the_user_gives_the_same_plan():
    computed = steer(turning(0), turning(2), 2.0, path=turning)
    given_rate = steer(turning(0), turning(2), 2.0, path=turning, derivative=turning_rate)
    assert computed.energy == pytest.approx(given_rate.energy, rel=1e-11)
    for t in (0.0, 0.7, 2.0):
        A, expected = computed.parameters(t).A, given_rate.parameters(t).A
        np.testing.assert_allclose(A, expected, atol=1e-10)


@pytest.mark.parametrize("actuators", ["feedforward", "attention", "keys"])
def test_a_function_is_followed(actuators):
    plan = steer(turning(0), turning(2), 2.0, path=turning, actuators=actuators)
    assert plan.residual < 1e-12
    response = plan.response([0, 1, 2])
    for n, t in enumerate((0, 1, 2)):
        np.testing.assert_allclose(response.covariance[:, :, n], turning(t)[1], atol=1e-9)
        np.testing.assert_allclose(response.mean[:, n], turning(t)[0], atol=1e-9)
    assert plan.energy > steer(turning(0), turning(2), 2.0).energy
    assert "given by the user" in str(plan)


def test_a_geodesic_given_as_a_function_has_its_energy():
    rng = np.random.default_rng(4)
    start, goal = gaussian(rng, 3, 3), gaussian(rng, 3, 3)
    plan = steer(start, goal, 1.5)
    same = steer(start, goal, 1.5, path=lambda t: (plan.mean(t), plan.covariance(t)))
    assert same.energy == pytest.approx(plan.energy, rel=1e-9)
    np.testing.assert_allclose(same.parameters(0.4).A, plan.parameters(0.4).A, rtol=1e-8)


def test_a_singular_path_given_by_its_factor():
    def path(t):
        return np.zeros(3), np.array([[np.cos(t)], [np.sin(t)], [t]])

    (mean, L0), (_, L1) = path(0), path(1)
    plan = steer((mean, L0 @ L0.T), (mean, L1 @ L1.T), 1.0, path=path)
    assert plan.rank == 1
    assert plan.energy == pytest.approx(2, rel=1e-12)
    assert plan.residual < 1e-12
    end = plan.response([0, 1.0]).covariance[:, :, -1]
    np.testing.assert_allclose(end, L1 @ L1.T, atol=1e-9)


FLAT = np.zeros(2)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (lambda t: (FLAT, np.eye(2) * (1.7 - 1.4 * abs(t - 0.5))), "path: expected a smooth"),
        (lambda t: (FLAT, np.diag([1.0, 1 - 4 * t * (1 - t)])), "path: expected rank 2 throughout"),
        (lambda t: (FLAT, np.diag([1.0, 1 - 6 * t * (1 - t)])), "path covariance: expected a pos"),
        (lambda t: (FLAT, np.eye(2) * np.nan), "path covariance: expected finite"),
        (lambda t: np.eye(2), "path: expected a pair"),
        (lambda t: (FLAT, np.eye(2) * (2 + t)), "path: expected the start at depth 0"),
        (lambda t: (FLAT, np.eye(2) * (1 + t)), "path: expected the goal at depth 1"),
    ],
)
def test_bad_functions(path, message):
    with pytest.raises(ParameterError, match=message):
        steer(np.eye(2), np.eye(2), 1.0, path=path)


def test_a_singular_path_must_keep_its_rank():
    def path(t):
        return np.zeros(2), np.diag([1.0, 0.0]) + t * (1 - t) * np.diag([0.0, 1.0])

    with pytest.raises(ParameterError, match="path: expected rank 1 throughout"):
        steer(path(0)[1], path(1)[1], 1.0, path=path)


def test_a_wrong_derivative_is_noticed():
    with pytest.raises(ParameterError, match="derivative: expected the rate of change of path"):
        steer(turning(0), turning(1), 1.0, path=turning, derivative=lambda t: (FLAT, np.eye(2)))


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"path": 3}, ParameterError, "path: expected a function of depth or a list"),
        ({"path": (np.zeros(2), np.eye(2))}, ParameterError, "path: .* wrap it in a list"),
        ({"path": [np.diag([1.0, 0.0])]}, UnreachableError, r"path\[0\]: expected rank 2"),
        ({"path": [np.eye(3)]}, ShapeError, r"path\[0\]: expected a 2 x 2"),
        ({"derivative": turning_rate}, ParameterError, "derivative: expected only beside"),
        ({"path": turning, "derivative": 1}, ParameterError, "derivative: expected a function"),
        (
            {"path": turning, "derivative": lambda t: (FLAT, np.eye(3))},
            ShapeError,
            "derivative: expected a 2 x 2 matrix",
        ),
    ],
)
def test_bad_paths(keywords, error, message):
    with pytest.raises(error, match=message):
        steer(turning(0), turning(1), 1.0, **keywords)
