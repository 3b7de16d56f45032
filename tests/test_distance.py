"""Distance of samples from a Gaussian: known answers, a bound, samples of the Gaussian itself."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtri

import gausscontrol as gct
from gausscontrol.tokens import gaussian_distance


def test_two_points_on_a_line():
    # W2 from +-1 to N(0, 1): each point takes one half, so 1 + 1 - 2 E|z|.
    found = gaussian_distance([[-1.0], [1.0]])
    assert found.distance == pytest.approx(np.sqrt(2 - 2 * np.sqrt(2 / np.pi)), rel=1e-12)
    assert (found.spread, found.count) == (1, 2)
    assert found.relative == found.distance


def test_distance_along_a_line_is_that_of_quantiles():
    x = np.sort(np.random.default_rng(0).exponential(size=7))
    mean, deviation = 0.3, 1.7
    square = sum(
        quad(lambda p, y=y: (y - mean - deviation * ndtri(p)) ** 2, n / 7, (n + 1) / 7)[0]
        for n, y in enumerate(x)
    )
    found = gaussian_distance(x[:, None], ([mean], [[deviation**2]]))
    assert found.distance == pytest.approx(np.sqrt(square), rel=1e-6)


def test_moments_that_differ_are_a_distance():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20_000, 2)) @ np.diag([1.0, 3.0])
    S = np.diag([1.0, 4.0])
    far = gaussian_distance(x, ([2.0, 0.0], S))
    sample = x.mean(axis=0), np.cov(x.T, bias=True)
    # No less than the distance of the moments; here the axes are those of both.
    assert far.distance >= gct.bures_wasserstein(sample, ([2.0, 0.0], S)) - 1e-3
    assert far.distance == pytest.approx(np.sqrt(4 + 1), rel=0.02)


@pytest.mark.parametrize("given", [False, True])
def test_floor_is_what_a_gaussian_sample_has(given):
    rng = np.random.default_rng(2)
    R = rng.normal(size=(3, 3))
    gaussian = (np.zeros(3), R @ R.T) if given else None
    found = [gaussian_distance(rng.normal(size=(500, 3)) @ R.T, gaussian) for _ in range(60)]
    squares = np.array([each.relative**2 for each in found])
    floors = np.array([each.relative_floor for each in found])
    error = squares.std() / np.sqrt(squares.size)
    assert abs(squares.mean() - np.mean(floors**2)) < 4 * error + 0.03 * squares.mean()


def test_floor_falls_with_the_sample():
    rng = np.random.default_rng(3)
    few, many = (gaussian_distance(rng.normal(size=(n, 2))).relative_floor for n in (100, 10_000))
    assert few > 5 * many


def test_other_laws_are_farther():
    x = np.random.default_rng(4).uniform(size=(4000, 2))
    found = gaussian_distance(x)
    assert found.distance > 4 * found.floor
    assert "Distance of 4000 tokens from the Gaussian" in str(found)
    turned = gaussian_distance(5 + x @ np.array([[0.6, 0.8], [-0.8, 0.6]]).T * 10)
    assert turned.relative == pytest.approx(found.relative, rel=1e-9)


def test_tokens_in_one_point_and_in_a_plane():
    point = gaussian_distance(np.full((9, 3), 0.1))
    assert (point.distance, point.relative, point.relative_floor) == (0, 0, 0)
    x = np.random.default_rng(5).uniform(size=(200, 2))
    embedded = gaussian_distance(x @ np.random.default_rng(6).normal(size=(2, 6)))
    assert embedded.spread > 0
    assert np.isfinite(embedded.distance)
    away = gaussian_distance(np.ones((4, 1)), ([0.0], [[0.0]]))
    assert away.distance == 1
    assert away.relative == np.inf


def test_bad_input():
    with pytest.raises(gct.ShapeError, match="tokens: expected"):
        gaussian_distance([1.0, 2.0, 3.0])
    with pytest.raises(gct.ShapeError, match="gaussian mean: expected"):
        gaussian_distance(np.ones((5, 3)), ([0, 0], np.eye(2)))
    with pytest.raises(gct.ParameterError, match="gaussian"):
        gaussian_distance(np.ones((5, 2)), ([0, 0], -np.eye(2)))
