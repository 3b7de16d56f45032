"""Mardia's statistics and their reference law, effective rank, clusters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.tokens import statistics
from gausscontrol.tokens.statistics import (
    cluster_count,
    cosine_similarity,
    effective_rank,
    mardia,
    read_tokens,
    sample_moments,
)

few = settings(max_examples=15, deadline=None, derandomize=True)


def plain_mardia(x):
    """b1 and b2 straight from their definition."""
    centred = x - x.mean(axis=0)
    G = centred @ np.linalg.inv(np.cov(x.T, bias=True).reshape(x.shape[1], -1)) @ centred.T
    return np.mean(G**3), np.mean(np.diag(G) ** 2)


@pytest.mark.parametrize(("count", "dim"), [(20, 6), (300, 3), (50, 1)])
def test_mardia_is_its_definition(count, dim, monkeypatch):
    x = np.random.default_rng(count).exponential(size=(count, dim))
    b1, b2 = plain_mardia(x)
    for chunk in (statistics.CHUNK, 100):
        monkeypatch.setattr(statistics, "CHUNK", chunk)
        found = mardia(x)
        assert found.skewness == pytest.approx(b1, rel=1e-10)
        assert found.kurtosis == pytest.approx(b2 - dim * (dim + 2), rel=1e-10)


def test_in_one_dimension_it_is_skewness_and_kurtosis():
    x = np.random.default_rng(0).gamma(3, size=500)
    found = mardia(x[:, None])
    assert found.skewness == pytest.approx(stats.skew(x) ** 2, rel=1e-10)
    assert found.kurtosis == pytest.approx(stats.kurtosis(x), rel=1e-10)


def test_reference_distribution():
    # Under a Gaussian the statistics have the law they are compared with.
    rng = np.random.default_rng(1)
    found = [mardia(rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))) for _ in range(500)]
    for name in ("skewness_pvalue", "kurtosis_pvalue"):
        p = np.array([getattr(one, name) for one in found])
        assert stats.kstest(p, "uniform").pvalue > 1e-3
    tails = np.array([one.kurtosis_statistic for one in found])
    assert abs(tails.mean()) < 4 / np.sqrt(500)
    assert tails.std() == pytest.approx(1, abs=0.15)
    assert 0.02 < np.mean([one.pvalue < 0.05 for one in found]) < 0.08


@pytest.mark.parametrize("law", ["uniform", "exponential", "standard_cauchy"])
def test_other_laws_are_rejected(law):
    x = getattr(np.random.default_rng(2), law)(size=(1000, 2))
    assert mardia(x).pvalue < 1e-6
    assert "Mardia: skewness" in str(mardia(x))


@few
@given(st.integers(0, 10_000))
def test_affine_maps_change_nothing(seed):
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=(200, 3))
    R = rng.normal(size=(3, 3))
    moved = x @ R.T + rng.normal(size=3)
    assert mardia(moved).skewness == pytest.approx(mardia(x).skewness, rel=1e-6)
    assert mardia(moved).kurtosis == pytest.approx(mardia(x).kurtosis, rel=1e-6, abs=1e-6)


def test_singular_samples_are_judged_in_their_range():
    rng = np.random.default_rng(3)
    x = rng.exponential(size=(400, 2))
    embedded = x @ rng.normal(size=(2, 5))
    assert mardia(embedded).skewness == pytest.approx(mardia(x).skewness, rel=1e-6)
    assert mardia(embedded).pvalue == pytest.approx(mardia(x).pvalue, rel=1e-4, abs=1e-30)
    point = mardia(np.ones((10, 3)))
    assert (point.skewness, point.pvalue) == (0, 1)
    assert mardia(rng.normal(size=(4, 3))).pvalue == 1  # every simplex looks alike


def test_effective_rank():
    assert effective_rank(np.eye(4)) == pytest.approx(4)
    assert effective_rank(np.diag([3.0, 0, 0])) == pytest.approx(1)
    assert effective_rank(np.zeros((2, 2))) == 0
    assert effective_rank(np.diag([1.0, 1.0, 1e-9])) == pytest.approx(2, abs=1e-6)


def test_cosine_similarity():
    x = np.array([[1.0, 0], [2.0, 0], [0, 1.0]])
    assert cosine_similarity(x) == pytest.approx(1 / 3)
    assert cosine_similarity(np.array([[1.0, 1.0], [3.0, 3.0]])) == pytest.approx(1)
    assert cosine_similarity(np.zeros((3, 2))) == 0


def test_cluster_count():
    rng = np.random.default_rng(4)
    centres = 10 * rng.normal(size=(4, 3))
    tight = np.repeat(centres, 200, axis=0) + 1e-3 * rng.normal(size=(800, 3))
    assert cluster_count(tight) == pytest.approx(4)
    lone = np.concatenate([np.zeros((90, 2)), np.full((10, 2), 5.0)])
    assert cluster_count(lone) == pytest.approx(1 / (0.9**2 + 0.1**2))
    assert cluster_count(np.ones((5, 2))) == 1
    assert cluster_count(rng.normal(size=(5000, 12))) > 990
    assert cluster_count(rng.normal(size=(5000, 1))) == pytest.approx(12.4, rel=0.1)
    assert cluster_count(rng.normal(size=(5000, 2))) == pytest.approx(91, rel=0.1)


def test_order_of_the_tokens_does_not_matter_to_clusters():
    rng = np.random.default_rng(0)
    x = np.zeros((2000, 2))
    x[1::2] = [10, 0]  # every other token, in which a stride would see one cluster only
    x += 1e-3 * rng.normal(size=x.shape)
    assert cluster_count(x) == pytest.approx(2, abs=0.02)
    np.testing.assert_array_equal(statistics.some_of(5, 9), np.arange(5))
    chosen = statistics.some_of(2000, 1000)
    assert np.unique(chosen).size == 1000
    assert 400 < np.sum(chosen % 2) < 600


def test_ill_conditioned_samples_are_whitened_to_rounding():
    # Half the digits would be lost in a covariance.
    x = np.random.default_rng(6).exponential(size=(300, 3))
    R = np.array([[1.0, 1.0, 0.0], [1.0, 1.0 + 1e-6, 0.0], [0.3, 1.0, 1e5]])
    assert mardia(x @ R.T).kurtosis == pytest.approx(mardia(x).kurtosis, rel=1e-7)
    assert mardia(x @ R.T).skewness == pytest.approx(mardia(x).skewness, rel=1e-7)


@pytest.mark.parametrize("scale", [1e-170, 1e-100, 1e100, 1e155])
def test_units_of_any_size(scale):
    x = np.random.default_rng(7).exponential(size=(300, 2))
    assert mardia(scale * x).skewness == pytest.approx(mardia(x).skewness, rel=1e-10)
    assert cluster_count(scale * x) == pytest.approx(cluster_count(x), rel=1e-10)


def test_deviations_that_are_rounding_are_none():
    x = np.full((7, 2), 1 / 3) + np.array([1e-17, 0.0])
    x[:, 1] = np.arange(7)
    x[0, 0] = np.nextafter(1 / 3, 1)
    _, covariance = sample_moments(x)
    assert covariance[0, 0] == covariance[0, 1] == 0
    assert effective_rank(covariance) == pytest.approx(1)


def test_sample_moments_are_with_one_over_n():
    x = np.random.default_rng(5).normal(size=(20, 3))
    mean, covariance = sample_moments(x)
    np.testing.assert_allclose(mean, x.mean(axis=0))
    np.testing.assert_allclose(covariance, np.cov(x.T, bias=True), atol=1e-14)


def test_bad_tokens():
    with pytest.raises(ShapeError, match=r"tokens: expected shape \(N, d\), found \(3,\)"):
        mardia([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match=r"tokens: expected shape \(N, 4\), found \(2, 3\)"):
        read_tokens(np.ones((2, 3)), 4)
    with pytest.raises(ShapeError, match="tokens: expected at least two, found 1"):
        mardia([[1.0, 2.0]])
    with pytest.raises(ParameterError, match="tokens: expected finite numbers"):
        mardia([[1.0], [np.nan]])
    assert read_tokens([1.0, 2.0], 1).shape == (2, 1)


def test_statistics_at_the_prompt_are_one_line():
    assert repr(mardia(np.random.default_rng(0).normal(size=(50, 2)))).startswith("<Gaussianity:")
