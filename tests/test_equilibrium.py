"""What is said of an equilibrium: mean, radius, isolation, bounds; place_mean; bad input."""

import control as ct
import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, relative, seeds
from problems import (
    plain_rates,
    planted_problem,
    random_covariance,
    random_model,
)

import gausscontrol as gct
from gausscontrol.errors import ParameterError, ShapeError

# A + V = 0 along the first axis: the mean drifts or is free there.
SINGULAR = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))


def singular_mean(b):
    # M(I) = 0 and Vbar = diag(0, -1).
    V = np.stack([np.diag([-1.0, -1.0]), np.diag([1.0, 0.0])])
    B = np.stack([np.eye(2), np.zeros((2, 2))])
    return gct.GaussianTransformer(np.eye(2), B, V, b)


@LAWS
@given(dims, seeds)
def test_mean_solves_its_equation(dim, seed):
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, dim, 2, 1.0)
    model = model.replace(k=rng.standard_normal((2, dim)))
    found = gct.find_equilibrium(model, S)
    mean_rate, _ = plain_rates(model, found.mean, found.covariance)
    size = np.linalg.norm(model.b) + np.linalg.norm(found.mean) * np.linalg.norm(model.V)
    assert np.linalg.norm(mean_rate) < 1e-9 * size
    M = model.drift(found.covariance) + model.V.sum(axis=0)
    assert found.mean_abscissa == pytest.approx(np.linalg.eigvals(M).real.max(), abs=1e-8)
    assert found.is_stable == (found.mean_is_stable and found.covariance_is_stable)


def test_a_mean_equation_without_solution():
    model = singular_mean([1.0, 0.0])
    found = gct.find_equilibrium(model, np.eye(2))
    assert found.mean is None
    assert not found.mean_is_unique
    assert not found.mean_is_stable
    assert "no solution" in str(found)
    with pytest.raises(ParameterError, match="mean"):
        found.operating_point(gct.moment_system(model))
    with pytest.raises(ParameterError, match="mean"):
        gct.analyze(model, found)


def test_a_mean_that_is_not_unique():
    found = gct.find_equilibrium(singular_mean([0.0, 2.0]), np.eye(2))
    assert np.allclose(found.mean, [0.0, 2.0])
    assert not found.mean_is_unique
    assert gct.find_equilibrium(SINGULAR, np.eye(2)).mean_is_unique


def test_units_do_not_make_the_mean_singular():
    rng = np.random.default_rng(0)
    model, S = planted_problem(rng, 3, 1, 1.0)
    plain = gct.find_equilibrium(model, S)
    R = np.diag([1e-2, 1.0, 10.0])
    found = gct.find_equilibrium(model.transform(R), R @ S @ R)
    assert found.mean_is_unique
    assert relative(found.mean / R.diagonal(), plain.mean) < 1e-6


def test_operating_point_is_a_state_of_rest():
    model, S = planted_problem(np.random.default_rng(1), 3, 2, 1.5)
    found = gct.find_equilibrium(model, S)
    system = gct.moment_system(model, inputs=("b", "A"))
    point = found.operating_point(system)
    assert isinstance(point, ct.OperatingPoint)
    rate = system.dynamics(0, point.states, point.inputs)
    assert np.abs(rate).max() < 1e-8 * np.abs(point.states).max() * np.linalg.norm(model.A)
    with pytest.raises(ParameterError, match="factor form"):
        found.operating_point(gct.moment_system(model, form="factor"))
    with pytest.raises(ParameterError, match="expected d = 3"):
        found.operating_point(gct.moment_system(SINGULAR))


# -- existence radius -----------------------------------------------------------------------------


def test_existence_radius_is_honest():
    rng = np.random.default_rng(2)
    proven = 0
    for _ in range(200):
        dim = int(rng.integers(1, 5))
        model, S = planted_problem(rng, dim, int(rng.integers(1, 4)), 1.0)
        exact = gct.find_equilibrium(model, S)
        lowest = np.linalg.eigvalsh(S)[0]
        E = random_covariance(rng, dim) * rng.choice([-1, 1])
        moved = exact.covariance + E / np.linalg.norm(E) * lowest * 10 ** rng.uniform(-10, -1)
        radius = radius_at(model, moved)
        if np.isfinite(radius):
            proven += 1
            distance = np.linalg.norm(moved - exact.covariance)
            assert distance <= radius + exact.existence_radius
    assert proven >= 100


def radius_at(model, covariance):
    from gausscontrol.analysis.enclosure import WhitenedPoint

    point = WhitenedPoint(model, covariance)
    return point.distance(point.radius)


@pytest.mark.parametrize("condition", [1e6, 1e8])
def test_ill_conditioned_equilibria_are_described_honestly(condition):
    rng = np.random.default_rng(3)
    model, S = planted_problem(rng, 3, 2, 1.0)
    axes = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    root = axes * np.sqrt(np.geomspace(1, condition, 3)) @ axes.T
    wide = model.whiten(S).transform(root)
    found = gct.find_equilibrium(wide, root @ root)
    assert np.linalg.norm(found.covariance - root @ root) <= found.existence_radius
    assert found.covariance_is_stable


# -- existence bounds -----------------------------------------------------------------------------


def bounded_problem(rng, dim, heads):
    """A > 0 and V < 0 in the coordinates of B > 0, with strong skew parts, shared key."""
    key = random_covariance(rng, dim, condition=10.0)
    root = np.linalg.cholesky(key).T
    inverse = np.linalg.inv(root)
    Z, Y = rng.standard_normal((2, dim, dim))
    A = inverse @ (random_covariance(rng, dim, condition=10.0) + Z - Z.T) @ root
    V = -inverse @ (random_covariance(rng, dim, condition=10.0) + Y - Y.T) @ root
    factors = rng.uniform(0.5, 2, heads) * rng.choice([-1, 1], heads)
    spread = rng.standard_normal((heads, dim, dim))
    spread -= spread.mean(axis=0)
    values = (V / heads + spread) / factors[:, None, None]
    return gct.GaussianTransformer(A, factors[:, None, None] * key, values), key


@pytest.mark.parametrize("seed", range(30))
def test_bounds_hold_an_equilibrium_and_attract(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 4))
    model, key = bounded_problem(rng, dim, 1 + seed % 3)
    lower, upper = gct.existence_bounds(model)
    found = gct.find_equilibria(model, rank=dim, starts=1)
    assert found
    for equilibrium in found:
        assert_between(lower, equilibrium.covariance, upper)
    if seed < 8:
        for scale in (1e-2, 1e2):
            start = np.zeros(dim), scale * np.linalg.inv(key)
            path = gct.moment_response(model.replace(b=None), [0.0, 30.0], start).covariance
            assert_between(lower, path[:, :, -1], upper)


def assert_between(lower, middle, upper):
    slack = 1e-6 * np.linalg.norm(upper)
    assert np.linalg.eigvalsh(middle - lower)[0] > -slack
    assert np.linalg.eigvalsh(upper - middle)[0] > -slack


@pytest.mark.parametrize(
    "model",
    [
        gct.GaussianTransformer(1, 1, 1),
        gct.GaussianTransformer(-1, 1, -1),
        gct.GaussianTransformer(1, 1, -1, dt=0.1),
        gct.GaussianTransformer(1, 0, -1),
        gct.GaussianTransformer(np.eye(2), [[1.0, 1.0], [0.0, 1.0]], -np.eye(2)),
        gct.GaussianTransformer(np.eye(2), np.diag([1.0, 1e-14]), -np.eye(2)),
        gct.GaussianTransformer(np.eye(2), np.diag([1.0, -1.0]), -np.eye(2)),
        gct.GaussianTransformer(np.eye(2), [np.eye(2), np.diag([1, 2])], [-np.eye(2)] * 2),
        gct.GaussianTransformer([[1.0, 1e-16], [1e-16, 0.0]], np.eye(2), -np.eye(2)),
    ],
)
def test_no_bounds_otherwise(model):
    assert gct.existence_bounds(model) is None


def test_both_signs_of_a_head_give_the_same_bounds():
    plus = gct.existence_bounds(gct.GaussianTransformer(0.5, 1, -0.25))
    minus = gct.existence_bounds(gct.GaussianTransformer(0.5, -1, 0.25))
    assert plus == minus


# -- place_mean -----------------------------------------------------------------------------------


@LAWS
@given(dims, seeds)
def test_place_mean_puts_it_there(dim, seed):
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, dim, 2, 1.0)
    model = model.replace(k=rng.standard_normal((2, dim)))
    target = rng.standard_normal(dim)
    found = gct.find_equilibrium(model, S)
    for value in (found, found.covariance):
        placed = gct.place_mean(model, value, target)
        mean_rate, _ = plain_rates(placed, target, found.covariance)
        assert np.linalg.norm(mean_rate) < 1e-12 * (
            np.linalg.norm(placed.b) + np.linalg.norm(placed.A) + np.linalg.norm(placed.V)
        )
    assert np.array_equal(placed.A, model.A)
    assert placed.dt == model.dt


def test_place_mean_cures_a_singular_mean():
    model = singular_mean([1.0, 0.0])
    placed = gct.place_mean(model, np.eye(2), [3.0, 4.0])
    assert gct.find_equilibrium(placed, np.eye(2)).mean is not None


# -- words and bad input --------------------------------------------------------------------------


def test_report():
    text = str(gct.find_equilibrium(SINGULAR))
    for word in ("d = 2", "residual", "proven", "[x]", "[x]^2", "per unit depth", "stable"):
        assert word in text
    rotation = gct.GaussianTransformer([[0.0, 1.0], [-1.0, 0.0]], 0 * np.eye(2), 0 * np.eye(2))
    assert "not proven" in str(gct.find_equilibrium(rotation, np.eye(2)))


@pytest.mark.parametrize(
    ("call", "name", "kind"),
    [
        (lambda: gct.existence_bounds("model"), "model", ParameterError),
        (lambda: gct.place_mean(1, np.eye(2), [0, 0]), "model", ParameterError),
        (lambda: gct.place_mean(SINGULAR, np.eye(3), [0, 0]), "equilibrium", ShapeError),
        (lambda: gct.place_mean(SINGULAR, -np.eye(2), [0, 0]), "equilibrium", ParameterError),
        (lambda: gct.place_mean(SINGULAR, np.eye(2), [0, 0, 0]), "mean", ShapeError),
        (lambda: gct.place_mean(SINGULAR, np.eye(2), [0, np.inf]), "mean", ParameterError),
        (lambda: gct.place_mean(SINGULAR, np.eye(2), None), "mean", ParameterError),
    ],
)
def test_bad_input_is_named(call, name, kind):
    with pytest.raises(kind, match=f"^{name}") as raised:
        call()
    assert "\n" not in str(raised.value)


def test_results_are_frozen():
    found = gct.find_equilibrium(SINGULAR)
    with pytest.raises(AttributeError):
        found.covariance = np.eye(2)


def test_random_models_are_described_without_the_mean_getting_in_the_way():
    rng = np.random.default_rng(4)
    for _ in range(20):
        model = random_model(rng, 2, 1)
        A = -model.attention(np.eye(2))
        found = gct.find_equilibrium(model.replace(A=A), np.eye(2))
        assert np.allclose(found.covariance, np.eye(2), atol=1e-6)
