"""Finite layers: exact at every rank, saved, loaded, replayed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import gausscontrol as gct
from gausscontrol.errors import ParameterError
from gausscontrol.synthesis import layers
from gausscontrol.synthesis.layers import _logarithm
from gausscontrol.synthesis.steering import steer

LAWS = settings(derandomize=True, deadline=None, max_examples=8)


def covariance(rng, d, r):
    Q = np.linalg.qr(rng.standard_normal((d, r)))[0]
    return (Q * np.exp(rng.uniform(-1, 1, r))) @ Q.T


def pair(rng, d, r):
    return [(rng.standard_normal(d), covariance(rng, d, r)) for _ in range(2)]


def end_error(stack, plan, **keywords):
    end = gct.moment_response(stack, stack.boundaries, plan.start, **keywords)
    mean, S = plan.goal
    return max(
        np.linalg.norm(end.covariance[:, :, -1] - S) / np.linalg.norm(S),
        np.linalg.norm(end.mean[:, -1] - mean) / np.linalg.norm(mean),
    )


@LAWS
@given(
    st.integers(1, 8),
    st.integers(0, 10**6),
    st.sampled_from(["feedforward", "attention", "keys"]),
    st.integers(1, 6),
)
def test_residual_layers_end_at_the_goal(d, seed, actuators, n):
    rng = np.random.default_rng(seed)
    r = d if actuators == "keys" else int(rng.integers(1, d + 1))
    plan = steer(*pair(rng, d, r), 0.7, actuators=actuators)
    stack = plan.layers(n)
    assert len(stack) == n
    assert all(layer.dt == 0.7 / n for layer in stack)
    assert end_error(stack, plan) < 1e-8


@LAWS
@given(st.integers(1, 8), st.integers(0, 10**6), st.integers(2, 6))
def test_held_layers_end_at_the_goal(d, seed, n):
    rng = np.random.default_rng(seed)
    plan = steer(*pair(rng, d, int(rng.integers(1, d + 1))), 1.3)
    stack = plan.layers(n, "hold")
    assert stack.depth == pytest.approx(1.3)
    assert all(layer.dt == 0 for layer in stack)
    assert end_error(stack, plan, rtol=1e-11) < 1e-9


@pytest.mark.parametrize("kind", ["residual", "hold"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_layers_pass_through_the_path(kind, rank):
    plan = steer(*pair(np.random.default_rng(rank), 3, rank), 2.0)
    stack = plan.layers(4, kind)
    response = gct.moment_response(stack, stack.boundaries, plan.start, rtol=1e-11)
    for n, t in enumerate(stack.boundaries):
        np.testing.assert_allclose(response.covariance[:, :, n], plan.covariance(t), atol=1e-9)
        np.testing.assert_allclose(response.mean[:, n], plan.mean(t), atol=1e-9)
    assert response.rank == rank


@pytest.mark.parametrize("actuators", ["attention", "keys", "feedforward"])
def test_held_layers_with_attention_are_found_by_shooting(actuators):
    rng = np.random.default_rng(0)
    model = gct.GaussianTransformer(
        0.1 * rng.standard_normal((2, 2)), np.eye(2), -np.eye(2), k=[0.1, 0.2]
    )
    plan = steer(*pair(rng, 2, 2), 1.0, actuators=actuators, model=model)
    stack = plan.layers(8, "hold")
    assert end_error(stack, plan, rtol=1e-11) < 1e-8


def test_held_attention_that_does_not_exist_is_told_soon(monkeypatch):
    thin = np.diag([1.0, 0.01])
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    plan = steer(thin, turn @ (thin + 0.1) @ turn.T, 1.0, actuators="attention")
    with pytest.raises(ParameterError, match=r"held layer 0, .* use kind='residual', or more"):
        plan.layers(6, "hold")
    assert end_error_of_covariance(plan.layers(6), plan) < 1e-8
    # However long the search would be, it ends.
    monkeypatch.setattr(layers, "BUDGET", 500)
    plan = steer(*pair(np.random.default_rng(6), 4, 2), 1.0, actuators="attention")
    with pytest.raises(ParameterError, match="n: found no constant parameters for held layer 0"):
        plan.layers(6, "hold")


def end_error_of_covariance(stack, plan):
    end = gct.moment_response(stack, stack.boundaries, plan.start).covariance[:, :, -1]
    return np.linalg.norm(end - plan.goal[1]) / np.linalg.norm(plan.goal[1])


def test_shooting_at_lower_rank():
    plan = steer(*pair(np.random.default_rng(6), 4, 2), 1.0, actuators="attention")
    assert end_error(plan.layers(6, "hold"), plan, rtol=1e-11) < 1e-8


@pytest.mark.parametrize("kind", ["residual", "hold"])
@pytest.mark.parametrize("suffix", ["npz", "mat", "json"])
def test_layers_survive_a_file(kind, suffix, tmp_path):
    plan = steer(*pair(np.random.default_rng(2), 3, 2), 1.0)
    stack = plan.layers(3, kind)
    gct.save_model(tmp_path / f"stack.{suffix}", stack)
    loaded = gct.load_model(tmp_path / f"stack.{suffix}")
    assert loaded == stack
    assert end_error(loaded, plan, rtol=1e-11) < 1e-9


def test_layers_follow_a_user_path():
    def path(t):
        u = np.array([np.cos(t), np.sin(t)])
        return u, np.eye(2) + t * np.outer(u, u)

    plan = steer(path(0), path(1), 1.0, path=path)
    stack = plan.layers(5)
    response = gct.moment_response(stack, stack.boundaries, path(0))
    for n, t in enumerate(stack.boundaries):
        np.testing.assert_allclose(response.covariance[:, :, n], path(t)[1], atol=1e-10)


def test_one_residual_layer_crosses_a_right_angle_and_a_held_one_cannot():
    plan = steer(np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), 1.0)
    one = plan.layers(1)
    end = gct.moment_response(one, [0, 1.0], plan.start).covariance[:, :, -1]
    np.testing.assert_allclose(end, np.diag([0.0, 1.0]), atol=1e-15)
    with pytest.raises(ParameterError, match="n: a held layer cannot turn tokens by a right angle"):
        plan.layers(1, "hold")
    two = plan.layers(2, "hold")
    end = gct.moment_response(two, two.boundaries, plan.start).covariance[:, :, -1]
    np.testing.assert_allclose(end, np.diag([0.0, 1.0]), atol=1e-9)


def test_many_layers_approach_the_plan():
    plan = steer(*pair(np.random.default_rng(8), 3, 3), 1.0, gauge=False)
    gaps = [np.abs(plan.layers(n, "hold")[0].A - plan.parameters(0).A).max() for n in (50, 100)]
    assert gaps[0] < 0.1
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.1)


def test_amplified_rounding_is_refused_and_not_returned():
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    goal, start = (Q * [1.0, 1e-2, 1e-4]) @ Q.T, np.diag([1e-4, 1e-2, 1.0])
    plan = steer(start, goal, 1.0, actuators="attention")
    with pytest.raises(ParameterError, match="n: the 60 layers amplify rounding until"):
        plan.layers(60)


@LAWS
@given(st.integers(1, 6), st.integers(0, 10**6))
def test_logarithm_of_a_layer(d, seed):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, d + 1))
    L = rng.standard_normal((d, r))
    X = rng.standard_normal((r, r))
    # L^T target = L^T L P stays symmetric positive definite for this target
    target = L @ np.linalg.inv(L.T @ L) @ (X @ X.T + np.eye(r))
    D = np.eye(d) + (target - L) @ np.linalg.pinv(L)
    np.testing.assert_allclose(expm(_logarithm(L, target, 0)), D, atol=1e-8 * np.linalg.norm(D))


@pytest.mark.parametrize(
    ("n", "kind", "message"),
    [
        (0, "residual", "n: expected a positive number of layers, found 0"),
        (True, "residual", "n: expected a positive number"),
        (2.0, "residual", "n: expected a positive number"),
        (2, "exact", "kind: expected one of residual, hold"),
    ],
)
def test_bad_arguments(n, kind, message):
    with pytest.raises(ParameterError, match=message):
        steer(1.0, 4.0, 1.0).layers(n, kind)
