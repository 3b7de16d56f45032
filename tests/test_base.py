"""What certificates share: reading the covariance, Hurwitz checks with margins, words."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, seeds, stable

import gausscontrol as gct
from gausscontrol.certificates.base import Certificate, certified_covariance, hurwitz_margin
from gausscontrol.errors import ParameterError, ShapeError

MODEL = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))


@LAWS
@given(dims, seeds)
def test_hurwitz_margin_covers_the_perturbation(dim, seed):
    rng = np.random.default_rng(seed)
    A = stable(rng, dim)
    assert hurwitz_margin(A, 0.0) > 0
    size = 0.3 * hurwitz_margin(A, 0.0)
    if hurwitz_margin(A, size) > 0:
        for _ in range(20):
            E = rng.standard_normal((dim, dim))
            assert np.linalg.eigvals(A + size * E / np.linalg.norm(E, 2)).real.max() < 0


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((2, 2)),
        np.eye(3),
        [[0.0, 1.0], [-1.0, 0.0]],
        [[-1.0, 0.0], [0.0, 1e-15]],
        [[-1.0, 0.0], [0.0, -1e-16]],
        [[-1e-15, 1.0], [-1.0, -1e-15]],
    ],
)
def test_what_is_not_hurwitz_by_more_than_rounding_is_refused(matrix):
    assert not hurwitz_margin(np.array(matrix), 0.0) > 0


def test_a_margin_knows_how_much_is_asked():
    A = -np.eye(2)
    assert hurwitz_margin(A, 0.9) > 0
    assert not hurwitz_margin(A, 1.0) > 0
    # Not normal: the abscissa of -1 is worth little.
    assert not hurwitz_margin(np.array([[-1.0, 1e3], [0.0, -1.0]]), 0.01) > 0


def test_stability_is_not_read_off_a_triangle():
    assert hurwitz_margin(np.array([[0.0, 1.0], [-578.0978, -67.4375]]), 0.0) > 0


def test_an_equilibrium_or_its_covariance():
    found = gct.find_equilibrium(MODEL)
    assert np.array_equal(certified_covariance(MODEL, found), found.covariance)
    S = np.array([[2, 1], [1, 2]])
    kept = S.copy()
    read = certified_covariance(MODEL, S)
    read[0, 0] = 7
    assert np.array_equal(S, kept)
    assert certified_covariance(gct.GaussianTransformer(1, 1, -1), 2).shape == (1, 1)


@pytest.mark.parametrize(
    ("model", "value", "name", "kind"),
    [
        (3, np.eye(2), "model", ParameterError),
        (MODEL, None, "equilibrium", ParameterError),
        (MODEL, np.eye(3), "equilibrium", ShapeError),
        (MODEL, np.ones(3), "equilibrium", ShapeError),
        (MODEL, np.diag([1.0, -1.0]), "equilibrium", ParameterError),
        (MODEL, np.diag([1.0, 0.0]), "equilibrium", ParameterError),
        (MODEL, [[1.0, 0.5], [0.0, 1.0]], "equilibrium", ParameterError),
        (MODEL, np.full((2, 2), np.inf), "equilibrium", ParameterError),
        (MODEL, "I", "equilibrium", ParameterError),
    ],
)
def test_bad_input_is_named(model, value, name, kind):
    for certify in (gct.certify_global_stability, gct.certify_local_stability):
        with pytest.raises(kind, match=f"^{name}") as raised:
            certify(model, value)
        assert "\n" not in str(raised.value)


def test_certificates_cannot_be_made_bare():
    with pytest.raises(TypeError):
        Certificate(MODEL, "anything", "covariance", 1.0, {})
    assert isinstance(gct.certify_global_stability(MODEL, np.eye(2)), gct.Certificate)
