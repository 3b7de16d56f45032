"""An equilibrium is a Gaussian: it is taken wherever (mean, covariance) is."""

from types import SimpleNamespace

import control as ct
import numpy as np
import pytest

import gausscontrol as gct
from gausscontrol.errors import ParameterError

EYE = np.eye(2)
MODEL = gct.GaussianTransformer(EYE, 0.5 * EYE, -0.4 * EYE, [0.3, -0.2])
POINT = gct.find_equilibrium(MODEL)
PAIR = (POINT.mean, POINT.covariance)


def test_a_response_that_starts_at_an_equilibrium_stays_there():
    response = gct.moment_response(MODEL, [0.0, 1.0], POINT)
    np.testing.assert_allclose(response.covariance[:, :, -1], POINT.covariance, rtol=1e-9)
    np.testing.assert_allclose(response.mean[:, -1], POINT.mean, rtol=1e-9)


def test_steering_to_an_equilibrium():
    start = (np.zeros(2), EYE)
    assert gct.steer(start, POINT, 1.0).energy == gct.steer(start, PAIR, 1.0).energy
    assert gct.steer(POINT, start, 1.0).energy == gct.steer(PAIR, start, 1.0).energy
    assert gct.is_reachable(POINT, EYE)
    assert gct.bures_wasserstein(POINT, start) == gct.bures_wasserstein(PAIR, start)


def test_a_design_for_an_equilibrium():
    found = gct.design(POINT, A=EYE, B=EYE)
    np.testing.assert_array_equal(found.model.V, gct.design(PAIR, A=EYE, B=EYE).model.V)


def test_linearising_at_an_equilibrium():
    layer = gct.moment_system(MODEL)
    linear = ct.linearize(layer, POINT)
    np.testing.assert_array_equal(linear.A, ct.linearize(layer, POINT.operating_point(layer)).A)


def test_anything_with_both_moments_is_a_gaussian():
    like = SimpleNamespace(mean=np.zeros(2), covariance=EYE)
    response = gct.moment_response(MODEL, [0.0, 1.0], like)
    np.testing.assert_array_equal(response.covariance[:, :, 0], EYE)


def test_an_equilibrium_without_a_mean_is_no_gaussian():
    like = SimpleNamespace(mean=None, covariance=EYE)
    for call in (
        lambda: gct.moment_response(MODEL, [0.0, 1.0], like),
        lambda: gct.steer(EYE, like, 1.0),
        lambda: gct.design(like, A=EYE, B=EYE),
    ):
        with pytest.raises(ParameterError, match="mean: expected d numbers, found None, since"):
            call()
