"""Responses: tolerances met, rank kept, blow-up located, arguments read as python-control does."""

import copy
import warnings

import control as ct
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import (
    attention_blow_up,
    attention_collapse,
    cubic_factor,
    planted_problem,
    random_covariance,
    random_model,
    rank_one_problem,
    reference_solution,
    scalar_riccati,
)

import gausscontrol as gct

few = settings(derandomize=True, deadline=None, max_examples=6)
GRID = np.linspace(0, 1, 6)


def relative_error(got, expected):
    """Return the largest error of a time sample, over the size of that sample."""
    axes = tuple(range(got.ndim - 1))
    return (np.abs(got - expected).max(axis=axes) / np.abs(expected).max(axis=axes)).max()


def settled(dim=2, **changes):
    identity = np.eye(dim)
    return gct.GaussianTransformer(0.5 * identity, identity, -0.5 * identity).replace(**changes)


def blown_up(*args, **options):
    """Return the response of a call that must warn exactly once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        response = gct.moment_response(*args, **options)
    assert [item.category for item in caught] == [gct.BlowUpWarning]
    assert caught[0].filename == __file__  # it points at the caller
    for array in (response.mean, response.covariance, response.y, response.x, response.factor):
        assert np.isfinite(array).all()
    assert response.t[-1] < response.blow_up_time
    assert response.blow_up_error > 0
    return response


# -- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "heads", "kappa"), [(1, 1, 0), (2, 3, 1), (2, 1, 10), (4, 2, 1), (8, 1, 2)]
)
def test_agrees_with_the_reference(dim, heads, kappa):
    rng = np.random.default_rng(dim + heads)
    model, _ = planted_problem(rng, dim, heads, kappa)
    mean, S = rng.standard_normal(dim), random_covariance(rng, dim)
    means, covariances = reference_solution(model, mean, S, GRID)
    best = "closed-form" if model.heads.scalar_values() is not None else "covariance"
    for method, expected in (("auto", best), ("covariance", "covariance"), ("factor", "factor")):
        for rtol in (1e-6, 1e-8, 1e-10):
            response = gct.moment_response(model, GRID, (mean, S), method=method, rtol=rtol)
            assert relative_error(response.covariance, covariances) < rtol
            assert relative_error(response.mean, means) < 2 * rtol
            assert response.method == expected


def test_sixteen_dimensions():
    rng = np.random.default_rng(16)
    model, _ = planted_problem(rng, 16, 2, 1.0)
    mean, S = rng.standard_normal(16), random_covariance(rng, 16)
    grid = np.linspace(0, 0.5, 3)
    means, covariances = reference_solution(model, mean, S, grid)
    for method in ("auto", "factor"):
        response = gct.moment_response(model, grid, (mean, S), method=method)
        assert relative_error(response.covariance, covariances) < 1e-8
        assert relative_error(response.mean, means) < 1e-8


@few
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 4), heads=st.integers(1, 3))
def test_tilted_heads(seed, dim, heads):
    rng = np.random.default_rng(seed)
    model, _ = planted_problem(rng, dim, heads, 1.0)
    model = model.replace(k=rng.standard_normal((heads, dim)))
    mean, S = rng.standard_normal(dim), random_covariance(rng, dim)
    means, covariances = reference_solution(model, mean, S, GRID)
    response = gct.moment_response(model, GRID, (mean, S))
    assert relative_error(response.covariance, covariances) < 1e-8
    assert np.abs(response.mean - means).max() < 2e-8 * max(np.abs(means).max(), 1)


def test_samples_between_steps_meet_the_tolerance():
    rng = np.random.default_rng(4)
    model, _ = planted_problem(rng, 4, 1, 1.0)
    S = random_covariance(rng, 4)
    grid = np.linspace(0, 3, 61)
    _, covariances = reference_solution(model, np.ones(4), S, grid)
    for rtol in (1e-6, 1e-8):
        response = gct.moment_response(model, grid, (np.ones(4), S), rtol=rtol)
        assert relative_error(response.covariance, covariances) < 2 * rtol


def test_handover_from_covariance_to_factor():
    # The second direction dies out: Sigma starts well conditioned and ends at condition 1e26.
    model = gct.GaussianTransformer(
        np.diag([0.5, -3.0]), np.eye(2), np.diag([-0.5, -0.1]), [1.0, -1.0]
    )
    S = np.array([[2.0, 0.5], [0.5, 1.0]])
    grid = np.linspace(0, 10, 41)
    means, covariances = reference_solution(model, [1, 1], S, grid)
    for method in ("auto", "covariance"):
        response = gct.moment_response(model, grid, ([1, 1], S), method=method)
        assert response.method == "factor"
        assert response.t.size == 41
        assert relative_error(response.covariance, covariances) < 1e-8
        assert relative_error(response.mean, means) < 1e-8
        assert np.linalg.det(response.factor[..., -1]) != 0
        products = np.einsum("irn,jrn->ijn", response.factor, response.factor)
        assert np.allclose(products, response.covariance, rtol=1e-12)


def test_looser_absolute_tolerance_is_obeyed():
    model = settled()
    _, covariances = reference_solution(model, [0, 0], 4 * np.eye(2), GRID)
    response = gct.moment_response(
        model, GRID, ([0, 0], 4 * np.eye(2)), rtol=1e-12, atol=1e-3, method="factor"
    )
    error = np.abs(response.covariance - covariances).max()
    assert error < 1e-2
    response = gct.moment_response(model, GRID, ([0, 0], 4 * np.eye(2)), rtol=1e-12)
    assert np.abs(response.covariance - covariances).max() < 1e-11


def test_collapse_at_an_algebraic_rate():
    problem = attention_collapse()
    grid = [0, problem.known["depth"]]
    response = gct.moment_response(problem.model, grid, ([0, 0], problem.known["start"]))
    assert np.isclose(np.trace(response.covariance[..., -1]), problem.known["trace"], atol=5e-4)
    assert response.blow_up_time is None


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_collapse_at_an_exponential_rate_stays_a_covariance(dim):
    model = gct.GaussianTransformer(-np.eye(dim), np.eye(dim), -np.eye(dim))
    grid = np.linspace(0, 100, 60)
    response = gct.moment_response(model, grid, (np.zeros(dim), np.eye(dim)))
    spectra = np.linalg.eigvalsh(np.moveaxis(response.covariance, -1, 0))
    assert (spectra >= 0).all()
    exact = 1 / (2 * np.exp(2 * grid) - 1)
    assert np.allclose(response.covariance[0, 0], exact, rtol=1e-8, atol=1e-11)
    assert response.rank == dim


@pytest.mark.parametrize("start", [np.eye(2), np.ones((2, 2))], ids=["full", "rank 1"])
def test_stiff_layers(start):
    fast = np.diag([1e4, 1.0])
    model = gct.GaussianTransformer(fast, np.eye(2) + 0.1, -fast)
    response = gct.moment_response(model, np.linspace(0, 100, 5), ([1, 0], start))
    if response.rank == 2:
        assert np.allclose(response.covariance[..., -1], np.linalg.inv(np.eye(2) + 0.1))
    else:
        # u' = (A + V u u^T B) u stops where A u = s V u, at the eigenvector e_2 of the pencil.
        assert np.allclose(response.covariance[..., -1], np.diag([0, 1 / 1.1]), atol=1e-12)


def test_stiff_layer_with_varying_input():
    fast = np.diag([1e4, 1.0])
    model = gct.GaussianTransformer(fast, np.eye(2) + 0.1, -fast)
    grid = np.linspace(0, 5, 6)
    b = np.array([np.sin(grid), np.cos(grid)])
    response = gct.moment_response(model, grid, ([1, 0], np.eye(2)), b, rtol=1e-6)
    assert np.allclose(response.covariance[..., -1], np.linalg.inv(np.eye(2) + 0.1), rtol=1e-5)
    # The fast mean is slaved to the input: (M + V) mu + b = 0 in its first row, up to 1/rate.
    assert np.isclose(response.mean[0, -1], b[0, -1] / 1e4, rtol=1e-2)


# -- rank -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 4, 8])
def test_rank_one_starts(dim):
    rng = np.random.default_rng(dim)
    grid = np.array([0.0, 0.3, 1.0])
    for _ in range(20):
        model, S = rank_one_problem(rng, dim)
        response = gct.moment_response(model, grid, (np.zeros(dim), S))
        assert (response.rank, response.factor.shape) == (1, (dim, 1, 3))
        for slice_ in np.moveaxis(response.covariance, -1, 0):
            values = np.linalg.svd(slice_, compute_uv=False)
            assert values[1] < 1e-13 * values[0]
        _, covariances = reference_solution(model, np.zeros(dim), S, grid)
        assert relative_error(response.covariance, covariances) < 1e-6


@pytest.mark.parametrize("rank", [2, 3])
def test_higher_rank_starts(rank):
    rng = np.random.default_rng(rank)
    model, _ = planted_problem(rng, 5, 1, 0.5)
    S = random_covariance(rng, 5, rank=rank)
    response = gct.moment_response(model, GRID, (np.zeros(5), S))
    assert response.rank == rank
    assert response.method == "factor"
    _, covariances = reference_solution(model, np.zeros(5), S, GRID)
    assert relative_error(response.covariance, covariances) < 1e-8
    for slice_ in np.moveaxis(response.covariance, -1, 0):
        values = np.linalg.svd(slice_, compute_uv=False)
        assert values[rank] < 1e-13 * values[0]


@pytest.mark.parametrize("method", ["auto", "covariance", "factor"])
@pytest.mark.parametrize("dt", [0, 0.5])
def test_zero_covariance(method, dt):
    model = settled(b=[1.0, 0.0], dt=dt)
    grid = [0, 1, 2]
    response = gct.moment_response(model, grid, ([0, 0], np.zeros((2, 2))), method=method)
    assert not response.covariance.any()
    assert response.rank == 0
    assert response.factor.shape == (2, 0, 3)
    # A + V = 0, so the mean moves along b.
    assert np.allclose(response.mean, [[0, 1, 2], [0, 0, 0]], atol=1e-12)


# -- blow-up --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["covariance", "factor"])
@pytest.mark.parametrize(
    "problem", [scalar_riccati(), cubic_factor(), attention_blow_up()], ids=str
)
def test_blow_up_time_of_known_problems(problem, method):
    start = (np.zeros(problem.model.dim), problem.known["start"])
    response = blown_up(problem.model, np.linspace(0, 5, 51), start, method=method)
    assert abs(response.blow_up_time - problem.known["blow_up_time"]) < 1e-8
    assert response.t.size == np.searchsorted(np.linspace(0, 5, 51), response.blow_up_time)
    assert "Blow-up at depth" in str(response)


def test_below_the_threshold_nothing_blows_up():
    problem = cubic_factor()
    start = ([0.0], problem.known["collapsing_start"])
    response = gct.moment_response(problem.model, [0, 20], start)
    assert response.blow_up_time is response.blow_up_error is None
    assert response.covariance[0, 0, -1] < 1e-15


def test_blow_up_error_is_honest():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(9):
        a, v = rng.standard_normal(), 10 ** rng.uniform(-2, 2)
        start = 10 ** rng.uniform(-1, 2) + max(-a / v, 0) * 1.01
        exact = np.log1p(a / (v * start)) / (2 * a)
        response = blown_up(
            gct.GaussianTransformer(a, 1, v), [0, 2 * exact], ([0], [[start]]), rtol=1e-6
        )
        ratios.append(abs(response.blow_up_time - exact) / response.blow_up_error)
    # Riccati systems, A = a I: lambda_max of Sigma0^1/2 G Sigma0^1/2 takes the place of v start.
    for _ in range(9):
        dim = int(rng.integers(2, 4))
        a, S = rng.standard_normal(), random_covariance(rng, dim, condition=10.0)
        B = rng.standard_normal((dim, dim))
        G = B @ B.T + 2 * max(-2 * a, 1) * np.eye(dim) / np.linalg.eigvalsh(S)[0]
        peak = np.linalg.eigvals(S @ G).real.max() / 2
        exact = np.log1p(a / peak) / (2 * a)
        model = gct.GaussianTransformer(a * np.eye(dim), G / 2, np.eye(dim))
        response = blown_up(model, [0, 2 * exact], (np.zeros(dim), S), rtol=1e-6)
        ratios.append(abs(response.blow_up_time - exact) / response.blow_up_error)
    assert max(ratios) < 3
    assert np.median(ratios) < 1


def test_blow_up_far_from_depth_zero():
    model = gct.GaussianTransformer(0, 1, 1)
    response = blown_up(model, 1e6 + np.linspace(0, 1, 11), ([1], [[1e8]]))
    assert abs(response.blow_up_time - (1e6 + 0.5e-8)) <= response.blow_up_error < 1e-8
    assert response.t.size == 1
    early = blown_up(model, [-1, 0, 5], ([0], [[1.0]]))
    assert np.isclose(early.blow_up_time, -0.5, rtol=1e-9)


def test_blow_up_under_varying_input():
    # sigma' = 2 t sigma^2 from 1: sigma = 1 / (1 - t^2).
    system = gct.moment_system(gct.GaussianTransformer(0, 1, 0), inputs="V")
    grid = np.linspace(0, 2, 9)
    response = blown_up(system, grid, ([0], [[1.0]]), grid)
    assert np.isclose(response.blow_up_time, 1, atol=1e-8)
    assert np.allclose(response.covariance[0, 0], 1 / (1 - response.t**2), rtol=1e-7)


def test_blow_up_after_exponential_growth():
    response = blown_up(gct.GaussianTransformer(10, 1e-30, 1), [0, 100], ([0], [[1.0]]))
    assert np.isclose(response.blow_up_time, np.log1p(1e31) / 20, rtol=1e-8)


def test_growth_without_escape():
    model = gct.GaussianTransformer(10, 0, 0)
    with pytest.raises(gct.GausscontrolError, match="not a finite escape"):
        gct.moment_response(model, [0, 1000], ([0], [[1.0]]))
    A = np.array([[-1.0, 1e4], [0.0, -1.0]])
    model = gct.GaussianTransformer(A, 1e-9 * np.eye(2), 1e-3 * np.eye(2))
    response = gct.moment_response(model, np.linspace(0, 30, 61), ([0, 0], np.eye(2)))
    traces = np.trace(response.covariance)
    assert response.blow_up_time is None
    assert traces.max() > 1e6 * traces[0] > 1e6 * traces[-1]


# -- closed form and stacks -----------------------------------------------------------------------


def test_closed_form_agrees_with_the_integrated_methods():
    rng = np.random.default_rng(6)
    model = gct.GaussianTransformer(
        np.eye(3) + 0.3 * rng.standard_normal((3, 3)), np.eye(3), -0.5 * np.eye(3), b=[1, 2, 3]
    )
    start = (rng.standard_normal(3), random_covariance(rng, 3, condition=10))
    exact = gct.moment_response(model, GRID, start, method="closed-form")
    integrated = gct.moment_response(model, GRID, start, method="covariance", rtol=1e-11)
    assert relative_error(integrated.covariance, exact.covariance) < 1e-10
    assert relative_error(integrated.mean, exact.mean) < 1e-10


@pytest.mark.parametrize(
    ("system", "arguments"),
    [
        (gct.GaussianTransformer(np.eye(2), np.eye(2), np.diag([-1.0, -2.0])), {}),
        (gct.GaussianTransformer(1, 1, -1, dt=0.1), {}),
        (gct.GaussianTransformer(1, 1, -1), {"transition": True}),
        (gct.GaussianTransformer(1, 1, -1), {"inputs": np.array([[0.0, 1.0]])}),
    ],
)
def test_closed_form_says_when_it_does_not_apply(system, arguments):
    start = (np.zeros(system.dim), np.eye(system.dim))
    with pytest.raises(gct.ParameterError, match="method: 'closed-form' needs"):
        gct.moment_response(system, [0, 1], start, method="closed-form", **arguments)


def stacked(rng, count=3, **changes):
    return [planted_problem(rng, 3, 2, 1.0)[0].replace(**changes) for _ in range(count)]


@pytest.mark.parametrize("rank", [1, 3])
def test_stack_goes_through_its_layers(rank):
    rng = np.random.default_rng(9)
    layers, durations = stacked(rng), [0.3, 0.5, 0.2]
    mean, S = rng.standard_normal(3), random_covariance(rng, 3, rank=rank, condition=10)
    stack = gct.LayerStack(layers, durations)
    grid = np.array([0.0, 0.1, 0.3, 0.45, 0.8, 1.0])
    response = gct.moment_response(stack, grid, (mean, S), transition=True)
    assert np.array_equal(response.t, grid)
    assert response.rank == rank
    for layer, duration in zip(layers, durations, strict=True):
        means, covariances = reference_solution(layer, mean, S, np.array([0.0, duration]))
        mean, S = means[:, -1], covariances[:, :, -1]
    assert relative_error(response.covariance[:, :, -1], S) < 1e-8
    assert relative_error(response.mean[:, -1], mean) < 1e-8
    Psi, start = response.transition, response.covariance[:, :, 0]
    moved = np.einsum("ijn,jk,lkn->iln", Psi, start, Psi)
    assert relative_error(moved, response.covariance) < 1e-7


def test_stack_of_residual_layers_is_the_recursion():
    rng = np.random.default_rng(10)
    layers = stacked(rng, dt=0.01)
    mean, S = rng.standard_normal(3), random_covariance(rng, 3, condition=10)
    stack = gct.LayerStack(layers)
    response = gct.moment_response(stack, stack.boundaries, (mean, S))
    for layer in layers:
        M = layer.drift(S)
        mean = mean + 0.01 * ((M + layer.V.sum(axis=0)) @ mean + layer.b)
        D = np.eye(3) + 0.01 * M
        S = D @ S @ D.T
    assert np.allclose(response.mean[:, -1], mean, rtol=1e-12)
    assert np.allclose(response.covariance[:, :, -1], S, rtol=1e-12)


def test_stack_may_start_inside_and_escape_later():
    layers = [gct.GaussianTransformer(0.1, 1, 1), gct.GaussianTransformer(0.5, 1, 1)]
    stack = gct.LayerStack(layers, [0.2, 3.0])
    start = ([0], [[0.25]])
    with pytest.warns(gct.BlowUpWarning, match="escapes"):
        whole = gct.moment_response(stack, np.linspace(0, 3.2, 33), start)
    sigma = gct.moment_response(layers[0], [0, 0.2], start).covariance[0, 0, -1]
    assert abs(whole.blow_up_time - 0.2 - np.log(1 + 0.5 / sigma)) < 1e-10
    assert np.isfinite(whole.covariance).all()
    later = gct.moment_response(stack, [0.1, 0.15], start)
    assert np.array_equal(later.t, [0.1, 0.15])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timepts": [0, 0.005]}, "inside residual layer 0"),
        ({"timepts": [0, 1]}, "the depth of the stack"),
        ({"inputs": 1.0}, "inputs: expected none for a LayerStack"),
        ({"params": {"A": np.eye(3)}}, "inputs: expected none for a LayerStack"),
    ],
)
def test_stack_bad_arguments(changes, message):
    stack = gct.LayerStack(stacked(np.random.default_rng(11), dt=0.01))
    arguments = {"timepts": [0, 0.01], "initial": (np.zeros(3), np.eye(3))} | changes
    with pytest.raises(gct.ParameterError, match=message):
        gct.moment_response(stack, **arguments)


# -- inputs ---------------------------------------------------------------------------------------


def test_varying_inputs_agree_with_python_control():
    rng = np.random.default_rng(8)
    model, _ = planted_problem(rng, 2, 2, 1.0)
    system = gct.moment_system(model, inputs=("b", "A", "V", "B", "k"))
    grid = np.array([0.0, 0.1, 0.4, 0.5, 1.0])
    u = 0.1 * rng.standard_normal((system.ninputs, 5))
    x = gct.pack([1.0, -1.0], random_covariance(rng, 2, condition=10))
    response = gct.moment_response(system, grid, x, u)
    expected = ct.input_output_response(
        system, grid, u, x, solve_ivp_kwargs={"rtol": 1e-10, "atol": 1e-12, "max_step": 0.05}
    )
    assert relative_error(response.x, expected.x) < 1e-8
    assert np.array_equal(response.u, u)
    factored = gct.moment_response(system, grid, x, u, method="factor")
    assert relative_error(factored.x, expected.x) < 1e-8


@pytest.mark.parametrize(
    "inputs",
    [
        0.5,
        [0.5, 0.5, 0.5],
        np.full(3, 0.5),
        np.full((3, 1), 0.5),
        np.full((3, 4), 0.5),
        [0.5, np.full(4, 0.5), 0.5],
        [[0.5, 0.5], 0.5],
        [np.full((2, 4), 0.5), 0.5],
    ],
    ids=str,
)
def test_input_shapes_of_python_control(inputs):
    system = gct.moment_system(settled(3), outputs="mu")
    start = (np.zeros(3), np.eye(3))
    expected = gct.moment_response(settled(3, b=[0.5] * 3), np.arange(4.0), start)
    response = gct.moment_response(system, np.arange(4.0), start, inputs)
    assert np.allclose(response.mean, expected.mean, rtol=1e-9)
    assert np.array_equal(response.u, np.full((3, 4), 0.5))


@pytest.mark.parametrize("inputs", [range(5), np.arange(5.0), np.arange(5.0)[None]], ids=str)
def test_time_series_for_one_input(inputs):
    inputs = list(inputs) if isinstance(inputs, range) else inputs
    response = gct.moment_response(settled(1), np.arange(5), ([0], [[1.0]]), inputs)
    assert np.array_equal(response.u, [[0, 1, 2, 3, 4]])
    # M = 0 and Vbar = -1/2: mu' = -mu/2 + t.
    assert np.allclose(response.mean[0], 2 * np.arange(5) - 4 + 4 * np.exp(-np.arange(5) / 2))


def test_params():
    rng = np.random.default_rng(3)
    A = -np.eye(2)
    start = (rng.standard_normal(2), np.eye(2))
    expected = gct.moment_response(settled(A=A), GRID, start)
    for system in (settled(), gct.moment_system(settled())):
        response = gct.moment_response(system, GRID, start, params={"A": A})
        assert np.array_equal(response.covariance, expected.covariance)
    with pytest.raises(gct.ParameterError, match="params: expected keys among"):
        gct.moment_response(settled(), GRID, start, params={"Q": A})
    with pytest.raises(gct.ParameterError, match="params: expected a dict"):
        gct.moment_response(settled(), GRID, start, params=[A])
    with pytest.raises(gct.ShapeError, match="params: expected A of shape"):
        gct.moment_response(settled(), GRID, start, params={"A": np.eye(3)})


# -- initial states -------------------------------------------------------------------------------


def test_initial_state_forms():
    mean, S = np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    expected = gct.moment_response(settled(), GRID, (mean, S))
    packed = gct.pack(mean, S)
    for initial in ([mean, S], packed, list(packed), (list(mean), S.tolist())):
        response = gct.moment_response(settled(), GRID, initial)
        assert np.array_equal(response.covariance, expected.covariance)
    assert np.array_equal(mean, [1, 2])


def test_initial_state_of_a_factor_system():
    system = gct.moment_system(settled(3), form="factor", rank=2)
    x = np.arange(9.0) / 9
    L = x[3:].reshape(3, 2)
    response = gct.moment_response(system, GRID, x)
    assert np.array_equal(response.x[:, 0], x)
    paired = gct.moment_response(system, GRID, (x[:3], L @ L.T))
    assert relative_error(paired.covariance, response.covariance) < 1e-8
    with pytest.raises(gct.ShapeError, match=r"initial: .* packed state of 9 entries"):
        gct.moment_response(system, GRID, np.ones(8))
    with pytest.raises(gct.ParameterError, match="expected rank at most 2, found 3"):
        gct.moment_response(system, GRID, (np.zeros(3), np.eye(3)))


@pytest.mark.parametrize("dt", [0, 0.1])
def test_factor_system_obeys_its_own_equation(dt):
    rng = np.random.default_rng(6)
    system = gct.moment_system(random_model(rng, 3, 1, dt), form="factor", rank=3)
    x = 0.5 * rng.standard_normal(12)
    grid = np.arange(6) * 0.1
    response = gct.moment_response(system, grid, x)
    expected = ct.input_output_response(
        system, grid, 0, x, solve_ivp_kwargs={"rtol": 1e-10, "atol": 1e-12}
    )
    assert relative_error(response.x, expected.x) < 1e-8
    assert relative_error(response.y, expected.y) < 1e-8
    L = response.x[3:].reshape(3, 3, -1)
    assert np.array_equal(response.factor, L)


def test_rank_of_a_factor_system_is_that_of_its_start():
    system = gct.moment_system(settled(3), form="factor")
    u = np.array([1.0, 2.0, 3.0])
    response = gct.moment_response(system, GRID, (np.zeros(3), np.outer(u, u)))
    assert response.rank == 1
    assert response.factor.shape == (3, 3, GRID.size)


# -- transition matrix ----------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [0, 0.25])
@pytest.mark.parametrize("form", ["covariance", "factor"])
def test_transition_carries_the_covariance(dt, form):
    rng = np.random.default_rng(9)
    model, _ = planted_problem(rng, 3, 2, 1.0)
    system = gct.moment_system(model.replace(dt=dt), form=form)
    S = random_covariance(rng, 3)
    grid = np.arange(5) * 0.25
    response = gct.moment_response(system, grid, (np.zeros(3), S), transition=True)
    Psi = response.transition
    assert np.array_equal(Psi[..., 0], np.eye(3))
    carried = np.einsum("ikn,kl,jln->ijn", Psi, S, Psi)
    assert relative_error(carried, response.covariance) < 1e-7
    plain = gct.moment_response(system, grid, (np.zeros(3), S))
    assert plain.transition is None
    assert relative_error(plain.covariance, response.covariance) < 2e-8


# -- discrete depth -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "covariance", "factor"])
def test_layers_follow_the_recursion(method):
    rng = np.random.default_rng(10)
    model = random_model(rng, 3, 2, 0.05, tilted=True)
    mean, S = rng.standard_normal(3), 0.2 * random_covariance(rng, 3, condition=4)
    response = gct.moment_response(model, 2 + 0.05 * np.arange(21), (mean, S), method=method)
    sparse = gct.moment_response(model, 0.05 * np.array([0, 7, 8, 20]), (mean, S), method=method)
    assert np.array_equal(sparse.covariance, response.covariance[..., [0, 7, 8, 20]])
    for n in range(21):
        assert np.allclose(response.covariance[..., n], S, rtol=1e-11, atol=1e-13)
        assert np.allclose(response.mean[:, n], mean, rtol=1e-11, atol=1e-13)
        M = model.drift(S)
        tilt = np.einsum("hij,jk,hk->i", model.V, S, model.k)
        mean = mean + 0.05 * ((M + model.V.sum(0)) @ mean + tilt + model.b)
        D = np.eye(3) + 0.05 * M
        S = D @ S @ D.T


def test_layers_with_inputs_agree_with_python_control():
    rng = np.random.default_rng(11)
    system = gct.moment_system(random_model(rng, 2, 1, 0.1), inputs=("b", "V"))
    grid = 0.1 * np.arange(8)
    u, x = 0.3 * rng.standard_normal((6, 8)), gct.pack([1.0, 0.0], np.eye(2))
    expected = ct.input_output_response(system, grid, u, x)
    assert np.allclose(gct.moment_response(system, grid, x, u).x, expected.x, rtol=1e-11)


def test_layers_that_overflow():
    model = gct.GaussianTransformer(1, 1, 1, dt=1)
    response = blown_up(model, np.arange(100), ([0], [[1.0]]))
    assert response.blow_up_time == response.t[-1] + 1
    assert response.blow_up_error >= 1
    mean_only = blown_up(gct.GaussianTransformer(0, 0, 10, dt=1), np.arange(400), ([1], [[1.0]]))
    assert np.isclose(mean_only.mean[0, -1], 11.0 ** (mean_only.t.size - 1), rtol=1e-12)


def test_rank_one_layers():
    rng = np.random.default_rng(12)
    model, S = rank_one_problem(rng, 4)
    response = gct.moment_response(model.replace(dt=0.01), np.arange(0, 2, 0.5), (np.zeros(4), S))
    assert response.rank == 1
    values = np.linalg.svd(response.covariance[..., -1], compute_uv=False)
    assert values[1] < 1e-13 * values[0]


# -- grids ----------------------------------------------------------------------------------------


def test_uneven_and_negative_grids():
    start = ([1.0, 0.0], 2 * np.eye(2))
    grid = np.array([0, 0.001, 0.5, 0.7, 3.0])
    even = gct.moment_response(settled(), grid, start)
    shifted = gct.moment_response(settled(), grid - 7, start)
    assert np.array_equal(shifted.t, grid - 7)
    assert relative_error(shifted.covariance, even.covariance) < 1e-9
    pair = gct.moment_response(settled(), grid[[0, -1]], start)
    assert relative_error(pair.covariance[..., 1:], even.covariance[..., -1:]) < 1e-9


@pytest.mark.parametrize(
    ("grid", "dt", "message"),
    [
        ([0], 0, "timepts: expected at least two depths"),
        (5.0, 0, "timepts: expected at least two depths"),
        (np.eye(2), 0, "timepts: expected at least two depths"),
        ([1, 0], 0, "timepts: expected increasing depths, found a step of -1"),
        ([0, 1, 1], 0, "timepts: expected increasing depths, found a step of 0"),
        ([0, np.nan], 0, "timepts: expected finite"),
        ([0, 0.25], 0.1, "timepts: expected depths a whole number of layers"),
        ([0, 0.01], 0.1, "timepts: expected depths a whole number of layers"),
    ],
)
def test_bad_grids(grid, dt, message):
    with pytest.raises(ValueError, match=message):
        gct.moment_response(settled(dt=dt), grid, ([0, 0], np.eye(2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": ct.rss(2)}, "system: expected a GaussianTransformer or a MomentSystem"),
        (
            {"method": "vech"},
            "method: expected one of auto, closed-form, covariance, factor, found 'vech'",
        ),
        ({"method": "covariance", "transition": True}, "method: expected 'factor'"),
        ({"rtol": 0}, "rtol: expected a number between 0 and 1"),
        ({"rtol": np.nan}, "rtol: expected a number between 0 and 1"),
        ({"atol": -1}, "atol: expected a positive number"),
        ({"atol": np.inf}, "atol: expected a positive number"),
        ({"inputs": np.ones(3)}, "inputs: expected a number, 2 values, or shape"),
        ({"inputs": np.ones((3, 6))}, "inputs: expected a number, 2 values, or shape"),
        ({"inputs": [np.ones((2, 5))]}, "inputs: expected elements with 6 points"),
        ({"inputs": [np.nan, 1]}, "inputs: expected finite"),
        ({"inputs": "b"}, "inputs: expected real numbers"),
        ({"initial": np.ones(4)}, r"initial: expected \(mean, covariance\) or a packed state of 5"),
        ({"initial": ([0, 0], np.eye(3))}, "initial covariance: expected a 2 x 2 matrix"),
        ({"initial": ([0], np.eye(2))}, "initial mean: expected a vector of 2 entries"),
        ({"initial": ([0, 0], -np.eye(2))}, "initial covariance: expected a positive semidef"),
        ({"initial": ([0, 0], [[1, 1], [0, 1]])}, "initial covariance: expected a symmetric"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"system": settled(), "timepts": GRID, "initial": ([0, 0], np.eye(2))} | changes
    with pytest.raises(ValueError, match=message) as error:
        gct.moment_response(**arguments)
    assert "\n" not in str(error.value)


def test_covariance_method_of_a_factor_system():
    for dt in (0, 0.5):
        system = gct.moment_system(settled(dt=dt), form="factor")
        with pytest.raises(gct.ParameterError, match="method: expected 'factor'"):
            gct.moment_response(system, [0, 1], ([0, 0], np.eye(2)), method="covariance")


def test_unknown_keyword():
    with pytest.raises(TypeError):
        gct.moment_response(settled(), GRID, ([0, 0], np.eye(2)), tolerance=1)


# -- the result -----------------------------------------------------------------------------------


@pytest.fixture
def response():
    return gct.moment_response(
        settled(name="layer"), GRID, ([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]), [0.1, 0.2]
    )


def test_is_a_time_response(response):
    assert isinstance(response, ct.TimeResponseData)
    t, y = response
    assert np.array_equal(t, GRID)
    assert np.array_equal(y, response.outputs)
    assert np.array_equal(response[1], y)
    assert np.array_equal(response.outputs["mu[1]"], response.mean[1])
    assert np.array_equal(response.states["Sigma[1]"], response.covariance[1, 0])
    assert np.array_equal(response.inputs["b[0]"], np.full(GRID.size, 0.1))
    assert response.outputs[["mu[0]", "Sigma[2]"]].shape == (2, GRID.size)
    assert (response.sysname, response.issiso) == ("layer", False)
    assert np.array_equal(response.x, gct.pack(response.mean, response.covariance))


def test_changed_and_copied_responses_keep_the_moments(response):
    changed = response(transpose=True, return_x=True)
    assert changed.outputs.shape == (GRID.size, 5)
    assert len(changed) == 3
    for twin in (changed, copy.deepcopy(response)):
        assert np.array_equal(twin.covariance, response.covariance)
        assert np.array_equal(twin.factor, response.factor)


def test_one_input_one_output():
    system = gct.moment_system(settled(1), outputs="mu")
    response = gct.moment_response(system, GRID, ([1.0], [[1.0]]), 1)
    assert response.issiso
    assert response.outputs.shape == GRID.shape
    assert response.covariance.shape == (1, 1, GRID.size)


def test_no_inputs():
    system = gct.moment_system(settled(), inputs=())
    response = gct.moment_response(system, GRID, ([1.0, 0.0], np.eye(2)))
    assert response.u.shape == (0, GRID.size)


def test_plot(response):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plot = response.plot(plot_inputs=False)
    assert isinstance(plot, ct.ControlPlot)
    assert plot.axes.shape[0] == 5
    plt.close("all")


def test_to_pandas(response):
    pytest.importorskip("pandas")
    frame = response.to_pandas()
    assert np.array_equal(frame["mu[0]"], response.mean[0])


def test_factor_of_a_covariance_run():
    response = gct.moment_response(settled(), GRID, ([0, 0], np.eye(2)), method="covariance")
    assert response.method == "covariance"
    assert response.factor.shape == (2, 2, GRID.size)
    products = np.einsum("irn,jrn->ijn", response.factor, response.factor)
    assert np.allclose(products, response.covariance, rtol=1e-13)


def test_text(response):
    assert str(response) == (
        "Moment response of layer: d = 2, rank 2, 6 depths from 0 to 1, method closed-form"
    )
    dotted = gct.moment_response(settled(name="encoder.3"), GRID, ([0, 0], np.eye(2)))
    assert "encoder_3" in str(dotted)


@pytest.mark.parametrize("unit", [1.0, 1e4, 1e8, 1e-8])
def test_units_do_not_matter(unit):
    A, B = np.array([[1, 0.2], [0.3, 0.8]]), np.array([[1, 0.3], [0.1, 0.7]])
    V, S = np.array([[1, 0.5], [0.5, 1.2]]), np.array([[0.3, 0.1], [0.1, 0.2]])
    model = gct.GaussianTransformer(A, B / unit**2, V)
    with pytest.warns(gct.BlowUpWarning):
        response = gct.moment_response(model, [0, 1, 5], ([0, 0], S * unit**2))
    assert abs(response.blow_up_time - 0.460502637) < 1e-8


def test_a_nearly_singular_factor_takes_steps():
    # Columns of L that carry rounding only must not be magnified by the gauge.
    rng = np.random.default_rng(2)
    model = gct.GaussianTransformer(np.eye(3), *(0.5 * rng.standard_normal((2, 3, 3))))
    L = np.diag([1.0, 1e-9, 1e-10])
    system = gct.moment_system(model)
    reference = gct.moment_response(system, [0, 0.2], (np.zeros(3), L @ L), method="factor")
    assert np.isfinite(reference.covariance).all()
