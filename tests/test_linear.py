"""Linear analysis against complex steps, python-control, SciPy and re-solved equilibria."""

import control as ct
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import relative
from problems import (
    complex_step_jacobian,
    lotka_volterra,
    lyapunov_globally_stable,
    mimetic_clean,
    planted_problem,
)

import gausscontrol as gct
from gausscontrol.errors import ParameterError
from gausscontrol.model.moments import MomentField

FEW = settings(derandomize=True, deadline=None, max_examples=8)
CASES = [(dt, inputs) for dt in (0, 0.05) for inputs in (("b",), ("A",), ("b", "V"))]


def stable_problem(seed, dim=2, heads=2, dt=0.0):
    """A planted model whose mean is stable too, its equilibrium found for this dt."""
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, dim, heads, 0.5)
    white = model.whiten(S)
    pace = np.linalg.norm(white.A, 2)
    values = white.V / pace
    extra = -np.eye(dim) - values.sum(axis=0)  # a head with B = 0 moves Vbar only
    V = np.concatenate([values, extra[None]])
    B = np.concatenate([white.B, np.zeros((1, dim, dim))])
    model = gct.GaussianTransformer(white.A / pace, B, V, white.b, dt=dt)
    found = gct.find_equilibrium(model, np.eye(dim))
    assert found.is_stable
    return model, found


def make(dt, inputs, seed=0):
    model, found = stable_problem(seed, dt=dt)
    return gct.analyze(model, found, inputs=inputs)


@FEW
@given(st.integers(1, 3), st.sampled_from([0.0, 0.1]), st.integers(0, 10**6))
def test_the_system_is_the_complex_step_jacobian(dim, dt, seed):
    model, found = stable_problem(seed, dim, dt=dt)
    an = gct.analyze(model, found)
    x = gct.pack(found.mean, found.covariance)
    J = complex_step_jacobian(MomentField.of(model).covariance_form, x)
    assert np.allclose(an.system.A, J, rtol=1e-12, atol=1e-12)
    assert np.allclose(an.system.B[:dim], (dt or 1) * np.eye(dim))
    assert not an.system.B[dim:].any()
    assert np.array_equal(an.system.C, np.eye(len(x)))
    expected = np.linalg.eigvals(J)
    key = -np.abs(expected) if dt else -expected.real
    assert np.allclose(np.sort(-key), np.sort(np.abs(an.poles) if dt else an.poles.real), atol=1e-8)


def test_signal_names():
    system = make(0, ("b", "A")).system
    assert system.state_labels == ["mu[0]", "mu[1]", "Sigma[0]", "Sigma[1]", "Sigma[2]"]
    assert system.input_labels[:2] == ["b[0]", "b[1]"]
    assert system.input_labels[2:] == [f"A[{n}]" for n in range(4)]
    assert system.output_labels == system.state_labels
    assert gct.analyze(*stable_problem(0), outputs="mu").system.noutputs == 2


@pytest.mark.parametrize("dt", [0, 0.05])
def test_poles_damping_and_time_constants(dt):
    an = make(dt, ("b",))
    frequency, ratio, poles = ct.damp(an.system, doprint=False)
    mine = an.damping[np.lexsort((an.damping[:, 1].real, an.damping[:, 2].real))]
    order = np.lexsort((frequency, ratio))
    assert np.allclose(mine[:, 1].real, frequency[order], rtol=1e-6)
    assert np.allclose(mine[:, 2].real, ratio[order], rtol=1e-6)
    assert np.allclose(np.sort_complex(an.poles), np.sort_complex(poles), rtol=1e-6)
    assert an.time_constants[0] == pytest.approx(-1 / an.abscissa)
    assert (np.diff(an.time_constants) <= 1e-9 * an.time_constants[0]).all()
    assert an.abscissa == max(an.covariance_abscissa, an.mean_abscissa)


@pytest.mark.parametrize(("dt", "inputs"), CASES)
def test_norms_and_gramians_are_those_of_python_control(dt, inputs):
    an = make(dt, inputs)
    assert an.h2_norm == pytest.approx(ct.system_norm(an.system, 2), rel=1e-6)
    assert an.hinf_norm == pytest.approx(ct.system_norm(an.system, "inf", tol=1e-8), rel=1e-5)
    assert relative(an.controllability_gramian, ct.gram(an.system, "c")) < 1e-8
    assert relative(an.observability_gramian, ct.gram(an.system, "o")) < 1e-8
    product = ct.gram(an.system, "c") @ ct.gram(an.system, "o")
    expected = np.sqrt(np.maximum(np.sort(np.linalg.eigvals(product).real)[::-1], 0))
    assert np.allclose(an.hankel_singular_values, expected, atol=1e-6 * expected[0])
    assert an.covariance_is_controllable == (inputs != ("b",))


def test_discrete_gramians_solve_their_equation():
    an = make(0.05, ("A",))
    A, B = an.system.A, an.system.B
    expected = scipy.linalg.solve_discrete_lyapunov(A, B @ B.T)
    assert relative(an.controllability_gramian, expected) < 1e-9


@pytest.mark.parametrize("dt", [0, 0.05])
def test_lyapunov_matrix(dt):
    an = make(dt, ("b",))
    P, A = an.lyapunov.matrix, an.system.A
    residual = A.T @ P @ A - P if dt else A.T @ P + P @ A
    assert np.allclose(residual, -np.eye(len(A)), atol=1e-9)
    assert 0 < an.lyapunov.margin <= 1


@pytest.mark.parametrize("dt", [0, 0.05])
def test_stability_radius(dt):
    an = make(dt, ("b",))
    A, identity = an.system.A, np.eye(an.system.nstates)
    grid = np.linspace(0, np.pi, 4001)
    points = np.exp(1j * grid) if dt else 1j * np.concatenate([[0], np.geomspace(1e-3, 1e3, 4000)])
    least = np.linalg.svd(points[:, None, None] * identity - A, compute_uv=False)[:, -1].min()
    assert an.stability_radius == pytest.approx(least, rel=1e-3)
    assert an.stability_radius <= least * (1 + 1e-9)


# -- the form, unstable points, notes -------------------------------------------------------------


@FEW
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_form_margin_is_at_most_the_optimum(dim, seed):
    an = gct.analyze(*stable_problem(seed, dim))
    assert an.attention_form_margin <= an.optimal_form_margin + 1e-9
    assert an.optimal_form_margin == pytest.approx(np.trace(an.model.A) / dim)


def test_reference_margins():
    problem = lyapunov_globally_stable()
    an = gct.analyze(problem.model, gct.find_equilibrium(problem.model))
    assert an.attention_form_margin == pytest.approx(-problem.known["form_maximum"], abs=5e-4)
    model = mimetic_clean().model
    clean = gct.analyze(model, gct.find_equilibrium(model))
    assert clean.attention_form_margin == pytest.approx(1)
    assert clean.optimal_form_margin == pytest.approx(1)


def test_unstable_points_have_no_norms():
    model = lotka_volterra((1.0, 1.0), ((-1.0, -2.0), (-2.0, -1.0))).model
    an = gct.analyze(model, gct.find_equilibrium(model, np.eye(2) / 3))
    assert not an.is_stable
    names = (
        "lyapunov",
        "stability_radius",
        "hinf_norm",
        "h2_norm",
        "controllability_gramian",
        "observability_gramian",
        "hankel_singular_values",
    )
    for name in names:
        assert getattr(an, name) is None
        assert "not stable" in an.reasons[name]
    assert "not stable" in str(an)


def test_the_covariance_cannot_be_reached_from_b():
    an = make(0, ("b",))
    assert not an.controllability_gramian[2:].any()
    assert "uncontrollable" in str(an)
    assert "uncontrollable" not in str(make(0, ("A",)))
    mean = ct.ss(an.system.A[:2, :2], np.eye(2), np.eye(2), np.zeros((2, 2)))
    assert an.h2_norm == pytest.approx(ct.system_norm(mean, 2), rel=1e-6)


@pytest.mark.parametrize("dt", [0, 0.05])
def test_the_table_has_units(dt):
    text = str(make(dt, ("A",)))
    for words in ("d = 2", "per unit depth", "[x]^2", "[t]", "[x]", "H-infinity norm from A"):
        assert words in text
    assert ("layers of depth 0.05" in text) == bool(dt)
    assert all(len(line) < 110 for line in text.splitlines())


# -- sensitivity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parameter", ["A", "V", "B"])
@pytest.mark.parametrize("dt", [0, 0.05])
def test_sensitivity_is_that_of_equilibria_solved_again(parameter, dt):
    model, found = stable_problem(3, dt=dt)
    derivative = gct.analyze(model, found).sensitivity(parameter)
    value, step = getattr(model, parameter), 1e-5
    assert derivative.shape == (2, 2, *value.shape)
    for position in np.ndindex(value.shape):
        ends = []
        for sign in (1, -1):
            changed = value.copy()
            changed[position] += sign * step
            moved = model.replace(**{parameter: changed})
            ends.append(gct.find_equilibrium(moved, found.covariance).covariance)
        difference = (ends[0] - ends[1]) / (2 * step)
        column = derivative[(slice(None), slice(None), *position)]
        assert np.abs(column - difference).max() < 1e-6 * (1 + np.abs(derivative).max())


def test_sensitivity_to_what_sigma_does_not_see():
    an = make(0, ("b",))
    assert not an.sensitivity("b").any()
    assert not an.sensitivity("k").any()


def test_sensitivity_needs_an_isolated_point():
    rotation = gct.GaussianTransformer([[0.0, 1.0], [-1.0, 0.0]], 0 * np.eye(2), 0 * np.eye(2))
    an = gct.analyze(rotation, gct.find_equilibrium(rotation, np.eye(2)))
    with pytest.raises(ParameterError, match="singular"):
        an.sensitivity("A")


# -- arguments ------------------------------------------------------------------------------------


def test_the_stable_equilibrium_is_taken_by_default():
    model, found = stable_problem(4)
    an = gct.analyze(model)
    assert relative(an.equilibrium.covariance, found.covariance) < 1e-8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, e: gct.analyze(3), "^model"),
        (lambda m, e: gct.analyze(m, np.eye(2)), "^equilibrium"),
        (lambda m, e: gct.analyze(m.replace(A=2 * m.A), e), "^equilibrium"),
        (lambda m, e: gct.analyze(m, e, inputs=("q",)), "^inputs"),
        (lambda m, e: gct.analyze(m, e).sensitivity("C"), "^parameter"),
        (lambda m, e: gct.analyze(m, e).sensitivity(0), "^parameter"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ParameterError, match=message) as raised:
        call(*stable_problem(5))
    assert "\n" not in str(raised.value)


def test_unknown_keywords():
    with pytest.raises(TypeError):
        gct.analyze(*stable_problem(5), input="b")
