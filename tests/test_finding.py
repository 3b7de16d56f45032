"""The search for equilibria: planted ones, closed forms, continua, discrete maps, bad input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import relative
from problems import (
    carex_1_2,
    cubic_factor,
    lotka_volterra,
    lyapunov_globally_stable,
    mimetic_clean,
    no_equilibrium,
    plain_rates,
    planted_problem,
    random_model,
    scalar_riccati,
    stable_not_normal,
)

import gausscontrol as gct
from gausscontrol.errors import EquilibriumNotFound, ParameterError, ShapeError
from gausscontrol.model.structure import trace_obstruction

FEW = settings(derandomize=True, deadline=None, max_examples=8)


def definite(model, **options):
    return gct.find_equilibria(model, rank=model.dim, **options)


def check_planted(index, dim):
    rng = np.random.default_rng([20, index])
    model, S = planted_problem(rng, dim, 1 + index % 4, 2 * rng.random())
    [found] = definite(model)
    assert relative(found.covariance, S) < 1e-8
    dense = np.linalg.eigvals(
        gct.moment_system(model)
        .linearize(np.concatenate([np.zeros(dim), gct.vech(S)]))
        .A[dim:, dim:]
    ).real.max()
    assert found.covariance_is_stable == (dense < 0)
    assert found.covariance_abscissa == pytest.approx(dense, abs=1e-6 * abs(dense))
    assert found.existence_radius is not None
    assert found.is_isolated


# -- planted equilibria ---------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(16))
def test_planted_equilibria_are_found(index):
    check_planted(index, (4, 6, 8, 12)[index // 4])


@pytest.mark.slow
@pytest.mark.parametrize("index", range(100))
def test_a_hundred_planted_equilibria_are_found(index):
    check_planted(100 + index, (4, 6, 8, 12, 16, 20, 24, 32)[index % 8])


@FEW
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_coordinates_do_not_matter(dim, seed):
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, dim, 1 + seed % 3, 1.0)
    left, right = (np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2))
    R = left * np.geomspace(1, 1e2, dim) @ right
    found = gct.find_equilibrium(model.transform(R))
    assert relative(found.covariance, R @ S @ R.T) < 1e-7
    assert found.covariance_is_stable
    there = gct.find_equilibrium(model.transform(R), R @ S @ R.T)
    assert there.mean_is_stable == gct.find_equilibrium(model, S).mean_is_stable


@pytest.mark.parametrize("condition", [1e2, 1e4])
def test_extreme_units(condition):
    rng = np.random.default_rng(0)
    model, S = planted_problem(rng, 3, 2, 1.0)
    R = np.diag(np.geomspace(1 / np.sqrt(condition), np.sqrt(condition), 3))
    for scaled, expected in (
        (model.transform(R), R @ S @ R),
        (model.replace(B=1e-6 * model.B), 1e6 * S),
        (model.replace(A=1e6 * model.A, V=1e6 * model.V), S),
    ):
        found = gct.find_equilibrium(scaled)
        assert relative(found.covariance, expected) < 1e-8
        assert found.covariance_is_stable


@pytest.mark.parametrize("gauge", [1e-8, 1e-4, 1e4, 1e8])
def test_head_gauge_does_not_matter(gauge):
    model, S = planted_problem(np.random.default_rng(1), 3, 2, 1.0)
    [plain], [moved] = definite(model), definite(model.rescale_heads([gauge, 1 / gauge]))
    assert relative(moved.covariance, S) < 1e-8
    assert moved.covariance_abscissa == pytest.approx(plain.covariance_abscissa, rel=1e-6)
    assert moved.covariance_is_stable == plain.covariance_is_stable
    assert (moved.existence_radius is None) == (plain.existence_radius is None)


@FEW
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_reversal_swaps_stable_and_unstable(dim, seed):
    model, S = planted_problem(np.random.default_rng(seed), dim, 1 + seed % 3, 1.0)
    found = gct.find_equilibrium(model.reversed())
    assert relative(found.covariance, S) < 1e-8
    assert not found.covariance_is_stable
    dense = np.linalg.eigvals(
        gct.moment_system(model.reversed())
        .linearize(np.concatenate([np.zeros(dim), gct.vech(S)]))
        .A[dim:, dim:]
    )
    assert found.covariance_abscissa == pytest.approx(dense.real.max(), rel=1e-6)


# -- reference cases ------------------------------------------------------------------------------


def test_lyapunov_case():
    problem = lyapunov_globally_stable()
    [found] = definite(problem.model)
    assert found.method == "lyapunov"
    assert np.allclose(np.linalg.inv(found.covariance), problem.known["solution"], atol=5e-4)
    assert found.covariance_abscissa == pytest.approx(-4)


def test_carex_has_a_singular_equilibrium_only():
    problem = carex_1_2()
    with pytest.raises(EquilibriumNotFound, match="positive definite"):
        gct.find_equilibrium(problem.model)
    assert definite(problem.model) == []


def test_mimetic_case():
    problem = mimetic_clean()
    [found] = definite(problem.model)
    assert np.allclose(found.covariance, problem.covariance, rtol=1e-12)
    assert found.covariance_abscissa == pytest.approx(-2)


def test_thresholds_in_one_dimension():
    found = gct.find_equilibrium(cubic_factor().model)
    assert found.covariance == pytest.approx(1)
    assert not found.covariance_is_stable
    with pytest.raises(EquilibriumNotFound):
        gct.find_equilibrium(scalar_riccati().model)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_no_equilibrium_is_answered(dim):
    problem = no_equilibrium(dim)
    with pytest.raises(EquilibriumNotFound, match="no positive definite equilibrium"):
        gct.find_equilibrium(problem.model)
    assert definite(problem.model) == []
    for root in problem.known["false_roots"]:
        with pytest.raises((EquilibriumNotFound, ParameterError)):
            gct.find_equilibrium(problem.model, root)


def test_no_attention_no_equilibrium():
    with pytest.raises(EquilibriumNotFound):
        gct.find_equilibrium(stable_not_normal().model)


def test_saddles_and_thresholds_are_returned_by_guess():
    # Strong competition: the coexistence of two species is a saddle.
    model = lotka_volterra((1.0, 1.0), ((-1.0, -2.0), (-2.0, -1.0))).model
    coexistence = np.eye(2) / 3
    found = gct.find_equilibrium(model, 1.01 * coexistence)
    assert np.allclose(found.covariance, coexistence)
    assert not found.covariance_is_stable


def test_a_continuum_is_not_isolated():
    # Rotation alone: every multiple of I rests.
    model = gct.GaussianTransformer([[0.0, 1.0], [-1.0, 0.0]], np.zeros((2, 2)), np.zeros((2, 2)))
    found = gct.find_equilibrium(model, 3 * np.eye(2))
    assert found.is_isolated is None
    assert found.existence_radius is None
    assert not found.covariance_is_stable


# -- guesses and starts ---------------------------------------------------------------------------


def test_three_shapes_of_a_guess():
    model, S = planted_problem(np.random.default_rng(2), 3, 2, 1.0)
    mean = np.array([1.0, 2.0, 3.0])
    kept = S.copy()
    shapes = S, (mean, S), gct.pack(mean, S), S.tolist(), gct.find_equilibrium(model)
    roots = [gct.find_equilibrium(model, guess).covariance for guess in shapes]
    assert all(np.allclose(root, S, rtol=1e-10) for root in roots)
    assert np.array_equal(S, kept)


@pytest.mark.parametrize("guess", [2.5, [[2.5]], ([0.0], [[2.5]]), [0.0, 2.5]])
def test_guesses_in_one_dimension(guess):
    found = gct.find_equilibrium(gct.GaussianTransformer(0.5, 1, -0.25), guess)
    assert found.covariance == pytest.approx(2)


def test_starts_of_the_users_own():
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    for starts in ([np.eye(2), 2 * np.eye(2)], iter([np.eye(2)]), 0, 2, np.eye(2)[None]):
        assert np.allclose(definite(model, starts=starts)[0].covariance, np.eye(2))


# -- discrete depth -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_fixed_points_of_layers(seed):
    rng = np.random.default_rng(seed)
    model, _ = planted_problem(rng, 1 + seed, 2, 1.0)
    layers = model.replace(dt=0.02)
    found = gct.find_equilibrium(layers)
    D = np.eye(model.dim) + 0.02 * layers.drift(found.covariance)
    assert relative(D @ found.covariance @ D.T, found.covariance) < 1e-12
    system = gct.moment_system(layers)
    J = system.linearize(found.operating_point(system)).A[model.dim :, model.dim :]
    radius = np.abs(np.linalg.eigvals(J)).max()
    assert found.covariance_is_stable == (radius < 1)
    assert found.covariance_abscissa == pytest.approx(np.log(radius) / 0.02, rel=1e-6)


def test_long_layers_are_unstable():
    # sigma+ = (1 + tau (1 - sigma))^2 sigma at sigma = 1 has slope 1 - 2 tau.
    found = gct.find_equilibrium(gct.GaussianTransformer(1, 1, -1, dt=1.1), 1.0)
    assert found.covariance == pytest.approx(1)
    assert not found.covariance_is_stable
    assert gct.find_equilibrium(gct.GaussianTransformer(1, 1, -1, dt=0.9), 1.0).covariance_is_stable


# -- robustness -----------------------------------------------------------------------------------


def awkward_model(rng, index):
    model = random_model(
        rng, int(rng.integers(1, 5)), int(rng.integers(1, 4)), (0, 0, 0.1)[index % 3]
    )
    unit = np.diag(1e4 ** rng.uniform(-0.5, 0.5, model.dim))
    return (
        model,
        model.replace(A=1e6 * model.A),
        model.replace(B=1e-6 * model.B),
        model.transform(unit),
    )[index % 4]


def check_robust(seed, count):
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in range(count):
            model = awkward_model(rng, index)
            found = definite(model, starts=1)
            for equilibrium in found:
                S = equilibrium.covariance
                assert np.linalg.eigvalsh(S)[0] > 0
                assert equilibrium.residual < 1e-6
                if not model.dt:
                    assert trace_obstruction(model) is None
            assert [e.covariance_is_stable for e in found] == sorted(
                (e.covariance_is_stable for e in found), reverse=True
            )


def test_awkward_models_end_quietly():
    check_robust(0, 24)


@pytest.mark.slow
def test_five_hundred_awkward_models_end_quietly():
    check_robust(1, 500)


def test_rates_vanish_at_what_is_found():
    rng = np.random.default_rng(3)
    for _ in range(10):
        model = random_model(rng, 2, 2, tilted=True)
        for found in definite(model):
            if found.mean is not None:
                mean_rate, rate = plain_rates(model, found.mean, found.covariance)
                assert np.linalg.norm(rate) < 1e-6 * np.linalg.norm(found.covariance)
                assert np.linalg.norm(mean_rate) < 1e-6 * (1 + np.linalg.norm(found.mean))


# -- bad input ------------------------------------------------------------------------------------

MODEL = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))


@pytest.mark.parametrize(
    ("call", "name", "kind"),
    [
        (lambda: gct.find_equilibria(3), "model", ParameterError),
        (lambda: gct.find_equilibrium(None), "model", ParameterError),
        (lambda: gct.find_equilibria(MODEL, starts=-1), "starts", ParameterError),
        (lambda: gct.find_equilibria(MODEL, starts=True), "starts", ParameterError),
        (lambda: gct.find_equilibria(MODEL, starts="many"), "starts", ParameterError),
        (lambda: gct.find_equilibria(MODEL, starts=2.5), "starts", ParameterError),
        (lambda: gct.find_equilibria(MODEL, starts=np.array(2.5)), "starts", ParameterError),
        (lambda: gct.find_equilibria(MODEL, starts=[np.eye(3)]), r"starts\[0\]", ShapeError),
        (
            lambda: gct.find_equilibria(MODEL, starts=[np.zeros((2, 2))]),
            r"starts\[0\]",
            ParameterError,
        ),
        (lambda: gct.find_equilibria(MODEL, seed="x"), "seed", ParameterError),
        (lambda: gct.find_equilibria(MODEL, rank=3), "rank", ParameterError),
        (lambda: gct.find_equilibria(MODEL, rank=1.5), "rank", ParameterError),
        (lambda: gct.find_equilibrium(MODEL, np.eye(3)), "guess", ShapeError),
        (lambda: gct.find_equilibrium(MODEL, np.ones((2, 2))), "guess", ParameterError),
        (lambda: gct.find_equilibrium(MODEL, np.array([[1, 2], [0, 1]])), "guess", ParameterError),
        (lambda: gct.find_equilibrium(MODEL, np.full((2, 2), np.nan)), "guess", ParameterError),
        (lambda: gct.find_equilibrium(MODEL, 1j * np.eye(2)), "guess", ParameterError),
        (
            lambda: gct.find_equilibrium(MODEL, [[True, False], [False, True]]),
            "guess",
            ParameterError,
        ),
        (lambda: gct.find_equilibrium(MODEL, []), "guess", ShapeError),
        (lambda: gct.find_equilibrium(MODEL, "I"), "guess", ParameterError),
        (lambda: gct.find_equilibrium(MODEL, [[1.0], [2.0, 3.0]]), "guess", ShapeError),
        (lambda: gct.find_equilibrium(MODEL, ([0.0, 0, 0], np.eye(2))), "guess", ShapeError),
    ],
)
def test_bad_input_is_named(call, name, kind):
    with pytest.raises(kind, match=f"^{name}") as raised:
        call()
    assert "\n" not in str(raised.value)


def test_a_guess_of_another_model_is_refused():
    other = gct.find_equilibrium(gct.GaussianTransformer(0.5, 1, -0.25))
    with pytest.raises(ShapeError, match="guess"):
        gct.find_equilibrium(MODEL, other)


def test_unknown_keywords():
    with pytest.raises(TypeError):
        gct.find_equilibria(MODEL, start=3)


@pytest.mark.parametrize("dim", [1, 2])
def test_a_model_that_does_nothing_ends(dim):
    zero = np.zeros((dim, dim))
    found = gct.find_equilibria(gct.GaussianTransformer(zero, zero, zero))
    assert found
    assert not any(e.covariance_is_stable for e in found)
