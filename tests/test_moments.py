"""The moment system: the field, its exact derivatives, and the zoo's known answers.

Derivatives have two oracles. In continuous depth the covariance form is quadratic, so a central
difference of step 1 is exact up to rounding; everything else is checked by the complex step.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import (
    all_problems,
    attention_blow_up,
    attention_collapse,
    carex_1_2,
    central_difference,
    complex_step_jacobian,
    cubic_factor,
    distance_to_instability,
    generalised_lyapunov,
    lotka_volterra,
    lyapunov_globally_stable,
    mimetic_clean,
    no_equilibrium,
    plain_rates,
    planted_problem,
    random_covariance,
    random_model,
    rank_one_problem,
    reference_solution,
    scalar_riccati,
    stable_not_normal,
)

import gausscontrol as gct
from gausscontrol import pack
from gausscontrol.analysis.form import attention_form
from gausscontrol.linalg.symmetric import symmetrise, unvech, vech
from gausscontrol.model.moments import MomentField

law = settings(derandomize=True, deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)
dims = st.integers(1, 6)
head_counts = st.integers(1, 3)
depths = st.sampled_from([0, 0.1])

INPUTS = ("b", "A", "V", "B", "k")


def random_case(seed, dt=None):
    """A field of one to three heads at a random state: field, mean, covariance, rng."""
    rng = np.random.default_rng(seed)
    dim, heads = int(rng.integers(1, 7)), 1 + seed % 3
    dt = rng.choice([0, 0.1, 0.7]) if dt is None else dt
    model = random_model(rng, dim, heads, dt=float(dt), tilted=bool(rng.integers(2)))
    return MomentField.of(model), rng.standard_normal(dim), random_covariance(rng, dim), rng


def factor_state(mean, rng):
    """A state of the factor form with a random number of columns."""
    L = rng.standard_normal((mean.size, int(rng.integers(1, mean.size + 1))))
    return np.concatenate([mean, L.reshape(-1)])


def assert_close(value, expected, tolerance):
    """Agreement relative to the largest expected entry."""
    assert value.shape == expected.shape
    assert np.abs(value - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


# -- the field ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_field_is_system_one(seed):
    field, mean, S, _ = random_case(seed, dt=0)
    model = gct.GaussianTransformer(field.A, field.heads.B, field.heads.V, field.b, k=field.k)
    expected_mean, expected_covariance = plain_rates(model, mean, S)
    x_rate = field.covariance_form(pack(mean, S))
    assert_close(x_rate, pack(expected_mean, expected_covariance), 1e-14)
    assert_close(field.covariance_rate(S), expected_covariance, 1e-14)
    assert_close(field.drift(S), model.drift(S), 1e-15)


@pytest.mark.parametrize("seed", range(12))
def test_layer_is_a_residual_step(seed):
    field, mean, S, _ = random_case(seed, dt=0.3)
    model = gct.GaussianTransformer(field.A, field.heads.B, field.heads.V, field.b, k=field.k)
    mean_rate, _ = plain_rates(model, mean, S)
    D = np.eye(mean.size) + 0.3 * model.drift(S)
    expected = pack(mean + 0.3 * mean_rate, symmetrise(D @ S @ D.T))
    assert_close(field.covariance_form(pack(mean, S)), expected, 1e-14)


@law
@given(seeds, depths)
def test_factor_form_moves_the_same_gaussian(seed, dt):
    field, mean, _, rng = random_case(seed, dt)
    x = factor_state(mean, rng)
    dim = mean.size
    L = x[dim:].reshape(dim, -1)
    y, S = field.factor_form(x), L @ L.T
    rate = y[dim:].reshape(dim, -1)
    covariance = rate @ rate.T if dt else rate @ L.T + L @ rate.T
    expected = field.covariance_form(pack(mean, S))
    assert_close(np.concatenate([y[:dim], vech(covariance)]), expected, 1e-13)


@law
@given(seeds)
def test_a_layer_tends_to_the_field_as_its_depth_does(seed):
    field, mean, S, _ = random_case(seed, dt=0)
    x = pack(mean, S)
    layer = MomentField(field.A, field.heads, field.b, field.k, 1e-7)
    assert_close((layer.covariance_form(x) - x) / 1e-7, field.covariance_form(x), 1e-4)


@pytest.mark.parametrize("dt", [0, 0.1])
def test_a_point_mass_moves_by_its_mean_alone(dt):
    model = random_model(np.random.default_rng(0), 3, 2, dt=dt, tilted=True)
    field = MomentField.of(model)
    mean = np.array([1.0, -2.0, 0.5])
    rate = (model.A + model.V.sum(axis=0)) @ mean + model.b
    expected = mean + dt * rate if dt else rate
    np.testing.assert_allclose(field.factor_form(mean), expected)
    np.testing.assert_allclose(field.covariance_form(pack(mean, np.zeros((3, 3))))[:3], expected)
    assert field.factor_jacobian(mean).shape == (3, 3)
    assert field.factor_input_jacobian(mean, INPUTS).shape == (3, 3 + 9 + 18 + 18 + 6)


def test_the_field_leaves_the_cone_without_complaint():
    field = MomentField.of(gct.GaussianTransformer(1, 1, 1))
    np.testing.assert_array_equal(field.covariance_form(np.array([0.0, -3.0])), [0.0, 12.0])


@pytest.mark.parametrize("form", ["covariance_form", "factor_form", "jacobian", "factor_jacobian"])
def test_states_are_left_alone(form):
    field, *_ = random_case(3)
    x = np.ones(state_dim_entries(field.dim, form))
    x.flags.writeable = False
    getattr(field, form)(x)
    np.testing.assert_array_equal(x, 1)


def state_dim_entries(dim, form):
    return dim + dim * (dim + 1) // 2 if form in ("covariance_form", "jacobian") else 2 * dim


# -- exact derivatives in the state (Theory 2.1) --------------------------------------------------


def test_jacobian_agrees_with_central_differences_of_step_one():
    for seed in range(200):
        field, mean, S, _ = random_case(seed, dt=0)
        x = pack(mean, S)
        difference = central_difference(field.covariance_form, x, step=1.0)
        error = np.abs(field.jacobian(x) - difference).max() / np.abs(difference).max()
        assert error < 1e-13, f"seed {seed}: {error:.2g}"


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("dim", [15, 16, 17])
def test_jacobian_on_both_sides_of_the_tensor_size(dim, heads):
    rng = np.random.default_rng(dim)
    field = MomentField.of(random_model(rng, dim, heads, tilted=True))
    x = pack(rng.standard_normal(dim), random_covariance(rng, dim))
    assert_close(field.jacobian(x), central_difference(field.covariance_form, x), 1e-13)


def test_factor_and_discrete_jacobians_agree_with_the_complex_step():
    for seed in range(200):
        factor_form = seed % 2
        field, mean, S, rng = random_case(seed, dt=None if factor_form else 0.1 + seed / 400)
        if factor_form:
            x, function, jacobian = (
                factor_state(mean, rng),
                field.factor_form,
                field.factor_jacobian,
            )
        else:
            x, function, jacobian = pack(mean, S), field.covariance_form, field.jacobian
        expected = complex_step_jacobian(function, x)
        error = np.abs(jacobian(x) - expected).max() / np.abs(expected).max()
        assert error < 1e-12, f"seed {seed}: {error:.2g}"


@law
@given(seeds, dims, head_counts)
def test_quadratic_remainder_is_exact(seed, dim, heads):
    # F(S + E) = F(S) + L(E) + N(E) with N(E) = T(E) E + E T(E)^T, however large E is.
    rng = np.random.default_rng(seed)
    field = MomentField.of(random_model(rng, dim, heads))
    S = random_covariance(rng, dim)
    E = 10.0 ** rng.uniform(-3, 3) * symmetrise(rng.standard_normal((dim, dim)))
    linear = unvech(field.covariance_jacobian(S) @ vech(E))
    T = sum(V @ E @ B for V, B in zip(field.heads.V, field.heads.B, strict=True))
    remainder = T @ E + E @ T.T
    total = field.covariance_rate(S) + linear + remainder
    assert_close(field.covariance_rate(S + E), total, 1e-13)


@law
@given(seeds, depths)
def test_jacobian_is_block_triangular(seed, dt):
    field, mean, S, _ = random_case(seed, dt)
    dim = mean.size
    J = field.jacobian(pack(mean, S))
    assert not J[dim:, :dim].any()
    mean_block = field.drift(S) + field.heads.total
    assert_close(J[:dim, :dim], np.eye(dim) + dt * mean_block if dt else mean_block, 1e-14)
    assert_close(J[dim:, dim:], field.covariance_jacobian(S), 1e-15)


def test_factor_jacobian_is_block_triangular():
    field, mean, _, rng = random_case(4)
    J = field.factor_jacobian(factor_state(mean, rng))
    assert not J[mean.size :, : mean.size].any()


@law
@given(seeds, dims, head_counts)
def test_spectrum_is_that_of_both_blocks(seed, dim, heads):
    rng = np.random.default_rng(seed)
    field = MomentField.of(random_model(rng, dim, heads))
    S, mean = random_covariance(rng, dim), rng.standard_normal(dim)
    blocks = [field.drift(S) + field.heads.total, field.covariance_jacobian(S)]
    coefficients = np.concatenate([np.linalg.eigvals(block) for block in blocks])
    whole = np.linalg.eigvals(field.jacobian(pack(mean, S)))
    for power in (1, 2, 3):
        expected = (coefficients**power).sum().real
        size = (np.abs(coefficients) ** power).sum()
        assert abs((whole**power).sum().real - expected) < 1e-10 * size


# -- exact derivatives in the parameters (Theory 2.2) ---------------------------------------------


def moved(field, u, inputs):
    """The field with the flat input vector added to its parameters, in the order of `inputs`."""
    sizes = {"b": field.b, "A": field.A, "V": field.heads.V, "B": field.heads.B, "k": field.k}
    offsets, start = {}, 0
    for name in inputs:
        stop = start + sizes[name].size
        offsets[name] = u[start:stop].reshape(sizes[name].shape)
        start = stop
    assert start == u.size
    return field.offset(**offsets)


def input_size(field, inputs):
    d, h = field.dim, field.heads.n_heads
    return sum({"b": d, "A": d * d, "V": h * d * d, "B": h * d * d, "k": h * d}[i] for i in inputs)


@pytest.mark.parametrize("inputs", [(name,) for name in INPUTS] + [INPUTS, ("k", "B", "b"), ()])
@pytest.mark.parametrize("form", ["covariance", "factor"])
@pytest.mark.parametrize("dt", [0, 0.3])
def test_input_jacobian_agrees_with_the_complex_step(form, dt, inputs):
    for seed in range(6):
        field, mean, S, rng = random_case(seed, dt)
        size = input_size(field, inputs)
        if form == "covariance":
            x, name, jacobian = pack(mean, S), "covariance_form", field.input_jacobian
        else:
            x, name, jacobian = factor_state(mean, rng), "factor_form", field.factor_input_jacobian
        value = jacobian(x, inputs)
        assert value.shape == (x.size, size)
        if size:
            z = x.astype(complex)
            expected = complex_step_jacobian(
                lambda u, z=z, name=name, field=field: getattr(moved(field, u, inputs), name)(z),
                np.zeros(size),
            )
            assert_close(value, expected, 1e-12)


@law
@given(seeds, depths)
def test_the_bias_does_not_reach_the_covariance(seed, dt):
    field, mean, S, _ = random_case(seed, dt)
    assert not field.input_jacobian(pack(mean, S), ("b", "k"))[mean.size :].any()


def test_no_offset_is_the_same_field():
    field, mean, S, _ = random_case(5)
    x = pack(mean, S)
    np.testing.assert_array_equal(field.offset().covariance_form(x), field.covariance_form(x))


# -- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", all_problems(), ids=str)
def test_every_case_names_its_source(problem):
    assert problem.source


@pytest.mark.parametrize(
    "problem", [case for case in all_problems() if case.covariance is not None], ids=str
)
def test_every_equilibrium_of_the_zoo_is_one(problem):
    field, S = MomentField.of(problem.model), problem.covariance
    scale = np.linalg.norm(problem.model.A) * np.linalg.norm(S)
    assert np.linalg.norm(field.covariance_rate(S)) < 1e-14 * max(scale, 1.0)


def test_riccati_solution_of_carex_1_2():
    known = carex_1_2().known
    A, G, Q, X = known["A"], known["G"], known["Q"], known["solution"]
    np.testing.assert_allclose(A.T @ X + X @ A - X @ G @ X + Q, 0, atol=1e-13)
    assert np.linalg.matrix_rank(carex_1_2().covariance) == known["rank"]


def test_lyapunov_case_has_the_published_solution_spectrum_and_form():
    problem = lyapunov_globally_stable()
    S, known = problem.covariance, problem.known
    np.testing.assert_allclose(np.linalg.inv(S), known["solution"], atol=5.1e-5)
    spectrum = np.linalg.eigvals(MomentField.of(problem.model).covariance_jacobian(S))
    np.testing.assert_allclose(np.sort(spectrum.real), known["spectrum"], rtol=1e-7)
    np.testing.assert_allclose(spectrum.imag, 0, atol=1e-6)
    form = np.linalg.eigvalsh(attention_form(problem.model.whiten(S).heads))
    np.testing.assert_allclose(form[-1], known["form_maximum"], atol=5.1e-4)


def test_lyapunov_case_settles_from_the_identity():
    problem = lyapunov_globally_stable()
    _, covariance = reference_solution(problem.model, np.zeros(3), np.eye(3), [0.0, 10.0])
    np.testing.assert_allclose(covariance[..., -1], problem.covariance, rtol=1e-9)


def test_newton_step_of_sg03ad():
    problem = generalised_lyapunov()
    A, E, X, Y = (problem.known[key] for key in "AEXY")
    np.testing.assert_array_equal(A.T @ X @ E + E.T @ X @ A, Y)
    step = MomentField.of(problem.model).covariance_jacobian(problem.covariance) @ vech(X)
    np.testing.assert_allclose(step, vech(Y), rtol=1e-14)


def test_mimetic_equilibrium_is_a_multiple_of_the_identity():
    problem = mimetic_clean()
    expected = problem.known["variance"] * np.eye(8)
    np.testing.assert_allclose(problem.covariance, expected, atol=5e-5)
    form = attention_form(problem.model.whiten(problem.covariance).heads)
    np.testing.assert_allclose(form, -np.eye(36), atol=1e-14)


def test_lotka_volterra_stays_diagonal_and_obeys_the_ecology():
    problem = lotka_volterra((1.0, -0.5, 0.3), [[-1, -0.5, 0.2], [0.7, -1, 0], [0.1, -0.3, -2]])
    r, C = problem.known["growth"], problem.known["interaction"]
    x = np.array([0.3, 1.2, 2.0])
    rate = MomentField.of(problem.model).covariance_rate(np.diag(x))
    np.testing.assert_allclose(rate, np.diag(x * (r + C @ x)), atol=1e-15)


def test_lotka_volterra_coexistence():
    problem = lotka_volterra()
    np.testing.assert_allclose(problem.known["coexistence"], [2 / 3, 2 / 3])
    L = MomentField.of(problem.model).covariance_jacobian(problem.covariance)
    on_diagonal = L[np.ix_([0, 2], [0, 2])]  # vech positions of the diagonal
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(on_diagonal)), [-1, -1 / 3])


def test_growth_without_bound_has_no_equilibrium():
    problem = no_equilibrium()
    field = MomentField.of(problem.model)
    for root in problem.known["false_roots"]:
        np.testing.assert_array_equal(field.covariance_rate(root), 0)
    for seed in range(5):
        S = random_covariance(np.random.default_rng(seed), 2)
        assert np.linalg.eigvalsh(field.covariance_rate(S))[0] > 0


def test_stability_is_not_read_off_one_triangle():
    problem = stable_not_normal()
    M = MomentField.of(problem.model).jacobian(np.zeros(5))[:2, :2]
    known = problem.known
    np.testing.assert_allclose(np.linalg.eigvals(M).real.max(), known["abscissa"], atol=5e-3)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(symmetrise(M))[-1], known["symmetric_part"], atol=0.05
    )
    np.testing.assert_allclose(np.linalg.eigvalsh(M)[-1], known["wrong_abscissa"], atol=1)


def test_distance_to_instability_is_a_smallest_singular_value():
    problem = distance_to_instability()
    A = MomentField.of(problem.model).drift(np.zeros((4, 4)))
    assert np.linalg.eigvals(A).real.max() < 0
    frequencies = 1j * np.linspace(0, 2, 2001)[:, None, None]
    smallest = np.linalg.svd(A - frequencies * np.eye(4), compute_uv=False)[:, -1].min()
    assert problem.known["beta"] <= smallest * (1 + 1e-9)
    np.testing.assert_allclose(smallest, problem.known["beta"], rtol=2e-2)


@pytest.mark.parametrize("problem", [scalar_riccati(), cubic_factor()], ids=str)
def test_scalar_escapes_follow_their_formula(problem):
    a, v, b = (float(getattr(problem.model, key).squeeze()) for key in "AVB")
    start = problem.known["start"].item()
    escape = np.log(1 + a / (v * b * start)) / (2 * a)
    np.testing.assert_allclose(problem.known["blow_up_time"], escape, rtol=1e-10)
    times = np.linspace(0, 0.9 * escape, 5)
    exact = start * np.exp(2 * a * times) / (1 + v * b * start * -np.expm1(2 * a * times) / a)
    _, covariance = reference_solution(problem.model, [0.0], problem.known["start"], times)
    np.testing.assert_allclose(covariance[0, 0], exact, rtol=1e-10)
    with pytest.raises(RuntimeError, match="stopped"):
        reference_solution(problem.model, [0.0], problem.known["start"], [0, 1.1 * escape])


def test_scalar_start_below_the_threshold_decays():
    problem = cubic_factor()
    start = problem.known["collapsing_start"]
    _, covariance = reference_solution(problem.model, [0.0], start, [0.0, 10.0])
    assert covariance[0, 0, -1] < 1e-7


def test_pure_attention_escapes_where_its_inverse_is_singular():
    problem = attention_blow_up()
    B = problem.model.B[0]
    time = problem.known["blow_up_time"]
    np.testing.assert_allclose(2 / np.linalg.eigvalsh(B + B.T)[-1], time, rtol=1e-8)
    times = np.array([0.0, 0.5 * time, 0.9 * time])
    _, covariance = reference_solution(problem.model, [0.0, 0.0], problem.known["start"], times)
    for position, t in enumerate(times):
        exact = np.linalg.inv(2 * np.eye(2) - t * (B + B.T))
        np.testing.assert_allclose(covariance[..., position], exact, rtol=1e-10)


def test_pure_attention_decays_at_an_algebraic_rate():
    problem = attention_collapse()
    times = [0.0, problem.known["depth"]]
    _, covariance = reference_solution(problem.model, [0.0, 0.0], problem.known["start"], times)
    np.testing.assert_allclose(np.trace(covariance[..., -1]), problem.known["trace"], atol=5e-4)


# -- generators and the reference integration -----------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 2.0])
@pytest.mark.parametrize(("dim", "heads"), [(4, 1), (8, 2), (16, 4)])
def test_planted_problems_are_what_they_claim(dim, heads, kappa):
    model, S = planted_problem(np.random.default_rng(dim), dim, heads, kappa)
    assert (model.dim, model.n_heads) == (dim, heads)
    assert 1 < np.linalg.cond(S) <= 1e3 * (1 + 1e-9)
    field = MomentField.of(model)
    assert np.linalg.norm(field.covariance_rate(S)) < 1e-13 * np.linalg.norm(model.A @ S)
    assert np.linalg.eigvalsh(attention_form(model.whiten(S).heads))[-1] < 0
    assert np.linalg.eigvals(field.covariance_jacobian(S)).real.max() < 0
    K = model.whiten(S).drift(np.eye(dim))
    np.testing.assert_allclose(K, -K.T, atol=1e-10)
    assert (np.linalg.norm(K) > 1e-3) == (kappa > 0)


@pytest.mark.parametrize("dim", [2, 4, 8])
def test_reference_solution_keeps_rank_one(dim):
    model, start = rank_one_problem(np.random.default_rng(dim), dim)
    mean, covariance = reference_solution(model, np.zeros(dim), start, np.linspace(0, 2, 3))
    assert mean.shape == (dim, 3)
    np.testing.assert_allclose(covariance[..., 0], start, atol=1e-13)
    for position in range(3):
        values = np.linalg.svd(covariance[..., position], compute_uv=False)
        assert values[1] < 1e-14 * values[0]


def test_reference_solution_agrees_with_the_field():
    model = random_model(np.random.default_rng(2), 3, 2, tilted=True)
    mean, covariance = np.ones(3), 0.1 * np.eye(3)
    step = 1e-3
    means, covariances = reference_solution(model, mean, covariance, [0.0, step, 2 * step])
    states = pack(means, covariances)
    slope = (states[:, 2] - states[:, 0]) / (2 * step)
    assert_close(MomentField.of(model).covariance_form(states[:, 1]), slope, 1e-4)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_polynomial_is_the_field(dim):
    rng = np.random.default_rng(dim)
    field = MomentField.of(random_model(rng, dim, 2, tilted=True))
    x = rng.standard_normal(dim + dim * (dim + 1) // 2)
    np.testing.assert_allclose(
        field.polynomial()(x), field.covariance_form(x), rtol=1e-11, atol=1e-11
    )
