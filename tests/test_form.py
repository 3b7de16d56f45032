"""The attention form against its definition and its known maxima."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import LAWS, dims, seeds
from problems import lyapunov_globally_stable, plain_attention_form, planted_problem, random_model

from gausscontrol.analysis import form as module
from gausscontrol.analysis.form import attention_form, form_maximum
from gausscontrol.linalg.symmetric import vech

head_counts = st.integers(1, 3)


def assert_close(form, expected):
    """Agreement relative to the largest expected entry."""
    assert np.abs(form - expected).max() <= 1e-13 * max(1.0, np.abs(expected).max())


@LAWS
@given(seeds, dims, head_counts)
def test_attention_form_against_its_definition(seed, dim, heads):
    rng = np.random.default_rng(seed)
    model = random_model(rng, dim, heads)
    form = attention_form(model.heads)
    np.testing.assert_array_equal(form, form.T)
    assert_close(form, plain_attention_form(model.V, model.B))


@LAWS
@given(seeds, dims, head_counts)
def test_attention_form_ignores_the_head_gauge(seed, dim, heads):
    rng = np.random.default_rng(seed)
    model = random_model(rng, dim, heads)
    scaled = model.rescale_heads((-1e8) ** rng.uniform(-1, 1, heads).round())
    assert_close(attention_form(scaled.heads), attention_form(model.heads))


def test_attention_form_at_an_equilibrium_has_the_trace_of_the_drift():
    # q(Sigma*) = -tr A (Theory 4.4), here with q evaluated at E = I in whitened coordinates.
    model, S = planted_problem(np.random.default_rng(0), 4, 2, 1.0)
    identity = vech(np.eye(4))
    value = identity @ attention_form(model.whiten(S).heads) @ identity
    np.testing.assert_allclose(value, -np.trace(model.A), rtol=1e-11)


@LAWS
@given(dims, seeds)
def test_form_maximum_is_that_of_the_plain_form(dim, seed):
    model = random_model(np.random.default_rng(seed), dim, 2)
    expected = np.linalg.eigvalsh(plain_attention_form(model.V, model.B))[-1]
    assert form_maximum(model) == pytest.approx(expected, abs=1e-12)


def test_form_maximum_of_case_2():
    problem = lyapunov_globally_stable()
    white = problem.model.whiten(problem.covariance)
    assert form_maximum(white) == pytest.approx(problem.known["form_maximum"], abs=5e-4)


def test_matrix_free_agrees_with_dense(monkeypatch):
    model, S = planted_problem(np.random.default_rng(2), 14, 2, 1.0)
    white = model.whiten(S)
    expected = form_maximum(white)
    monkeypatch.setattr(module, "DENSE_DIM", 10)
    assert form_maximum(white) == pytest.approx(expected, rel=1e-7)
