"""Signs of heads: known answers, narrow against dense heads, gauge, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.tokens.signs import mimetic_signs

few = settings(derandomize=True, deadline=None, max_examples=10)
seeds = st.integers(0, 10**6)


def narrow(seed, dim=12, width=3, heads=4):
    W = np.random.default_rng(seed).standard_normal((4, heads, width, dim))
    return gct.GaussianTransformer.from_weights(*W[:3], W[3].transpose(0, 2, 1))


def dense(model):
    return gct.GaussianTransformer(model.A, model.B, model.V, k=model.k)


def form(model, h):
    """The matrix of E -> tr(V E B E) in an orthonormal basis of the symmetric matrices."""
    d = model.dim
    rows, columns = np.tril_indices(d)
    basis = np.zeros((rows.size, d, d))
    size = np.where(rows == columns, 1.0, np.sqrt(0.5))
    basis[np.arange(rows.size), rows, columns] = size
    basis[np.arange(rows.size), columns, rows] = size
    images = (model.V[h] @ basis @ model.B[h]).reshape(rows.size, -1)
    matrix = basis.reshape(rows.size, -1) @ images.T
    return (matrix + matrix.T) / 2


@pytest.mark.parametrize(
    ("V", "B", "verdict"),
    [
        (-1.0, 1.0, "stabilising"),
        (1.0, -1.0, "stabilising"),
        (1.0, 1.0, "destabilising"),
        (-1.0, -1.0, "destabilising"),
        (0.0, 1.0, "mixed"),
    ],
)
def test_multiples_of_the_identity(V, B, verdict):
    model = gct.GaussianTransformer(np.eye(3), B * np.eye(3), V * np.eye(3))
    signs = mimetic_signs(model)
    assert list(signs.verdict) == [verdict]
    assert signs.mean_form == pytest.approx(V * B)
    assert list(signs.holds) == [verdict == "stabilising"]
    assert list(signs.mimetic) == [B > 0 > V]
    assert (signs.B_trace[0], signs.V_trace[0]) == (3 * B, 3 * V)


def test_mimetic_head_of_the_examples():
    model = gct.load_model("examples/data/mimetic_head.mat")
    signs = mimetic_signs(model)
    assert signs.mimetic.all()
    assert "1 stabilising, 0 destabilising, 0 mixed" in str(signs)


def test_both_factors_must_be_definite():
    # The product of the smallest eigenvalues is 1 here, and the form reaches 5 (Theory 4.3).
    model = gct.GaussianTransformer(np.eye(2), np.diag([-1.0, 5.0]), np.diag([1.0, -5.0]))
    signs = mimetic_signs(model)
    assert np.linalg.eigvalsh(form(model, 0))[-1] == pytest.approx(5)
    assert not signs.holds[0]
    assert signs.margin[0] == pytest.approx(-5)


@few
@given(seeds)
def test_narrow_heads_agree_with_their_matrices(seed):
    model = narrow(seed)
    signs, wide = mimetic_signs(model), mimetic_signs(dense(model))
    for name in ("B_trace", "V_trace", "B_share", "V_share", "mean_form", "margin"):
        np.testing.assert_allclose(getattr(signs, name), getattr(wide, name), rtol=1e-9, atol=1e-9)
    assert list(signs.verdict) == list(wide.verdict)
    for h in range(4):
        for spectrum, full, matrix in (
            (signs.B_spectrum[h], wide.B_spectrum[h], model.B[h]),
            (signs.V_spectrum[h], wide.V_spectrum[h], model.V[h]),
        ):
            exact = np.linalg.eigvalsh((matrix + matrix.T) / 2)
            np.testing.assert_allclose(full, exact, atol=1e-12)
            padded = np.sort(np.r_[spectrum, np.zeros(12 - spectrum.size)])
            assert spectrum.size == 6
            np.testing.assert_allclose(padded, exact, atol=1e-11)


@few
@given(seeds)
def test_mean_form_is_the_average_of_the_form(seed):
    model = narrow(seed)
    signs = mimetic_signs(model)
    averages = [np.trace(form(model, h)) / (12 * 13 / 2) for h in range(4)]
    np.testing.assert_allclose(signs.mean_form, averages, rtol=1e-10)


@few
@given(seeds, st.floats(0.1, 1.0), st.floats(0.0, 0.9))
def test_sign_condition_makes_the_form_negative(seed, size, skewness):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((4, 4, 4))
    B, V = np.eye(4) + size * Z[0] @ Z[0].T, -np.eye(4) - size * Z[1] @ Z[1].T
    skew_B, skew_V = Z[2] - Z[2].T, Z[3] - Z[3].T
    B += skewness * skew_B / np.linalg.norm(skew_B, 2)
    V += skewness * skew_V / np.linalg.norm(skew_V, 2)
    model = gct.GaussianTransformer(np.eye(4), B, V)
    signs = mimetic_signs(model)
    assert signs.holds[0]
    assert np.linalg.eigvalsh(form(model, 0))[-1] <= -signs.margin[0] + 1e-12


@few
@given(seeds, st.sampled_from([-3.0, -1.0, 1e-6, 1e5]))
def test_head_gauge_changes_no_verdict(seed, scale):
    model = dense(narrow(seed))
    signs, scaled = mimetic_signs(model), mimetic_signs(model.rescale_heads(scale))
    assert list(signs.verdict) == list(scaled.verdict)
    np.testing.assert_allclose(signs.mean_form, scaled.mean_form, rtol=1e-9)
    np.testing.assert_allclose(signs.margin, scaled.margin, rtol=1e-9)


def test_layers_are_counted():
    models = [narrow(0), narrow(1)]
    signs = mimetic_signs(gct.LayerStack([m.replace(dt=1) for m in models]))
    assert list(signs.layer) == [0] * 4 + [1] * 4
    assert list(signs.head) == [0, 1, 2, 3] * 2
    listed = mimetic_signs(models)
    np.testing.assert_array_equal(signs.mean_form, listed.mean_form)
    assert len(str(signs).splitlines()) == 1 + 8 + 2
    counts = [signs.count(word) for word in ("stabilising", "destabilising", "mixed")]
    assert sum(counts) == 8


def test_threshold_moves_heads_to_mixed():
    model = narrow(3)
    assert mimetic_signs(model, threshold=0).count("mixed") == 0
    assert mimetic_signs(model, threshold=0.999).count("mixed") == 4


@pytest.mark.parametrize("threshold", [-0.1, 1, "0.1", None, [0.1], float("nan")])
def test_bad_thresholds(threshold):
    with pytest.raises(gct.ParameterError, match="threshold: expected"):
        mimetic_signs(narrow(0), threshold=threshold)


def test_bad_models():
    with pytest.raises(gct.ParameterError, match=r"model\[0\]: expected .* found int"):
        mimetic_signs(3)
    with pytest.raises(gct.ParameterError, match=r"model\[1\]: expected .* found str"):
        mimetic_signs([narrow(0), "model"])
    with pytest.raises(gct.ParameterError, match="found none"):
        mimetic_signs([])


def test_skew_heads_lean_to_no_side():
    # Their trace is rounding, and so is all that it could be compared with.
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.standard_normal((2, 8))
        skew, other = np.stack([b, -a])[None], np.stack([a, b])[None]
        W = rng.standard_normal((2, 8))[None]
        model = gct.GaussianTransformer.from_weights(skew, other, W, W.transpose(0, 2, 1))
        signs = mimetic_signs(model)
        assert signs.B_share[0] == 0
        assert list(signs.verdict) == ["mixed"]


def test_layers_of_a_trained_model_keep_their_positions():
    class Layer:
        index, model = 5, narrow(0)

    assert set(mimetic_signs(Layer()).layer) == {5}
    assert set(mimetic_signs([Layer(), narrow(1)]).layer) == {5, 1}
    assert repr(mimetic_signs(narrow(0))).startswith("<MimeticSigns of 4 heads: ")
