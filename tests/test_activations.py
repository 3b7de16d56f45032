"""Means of activations under a Gaussian against plain numerical integration and known values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erf

from gausscontrol.tokens.activations import ACTIVATIONS, hermite_values

few = settings(derandomize=True, deadline=None, max_examples=25)
every = pytest.mark.parametrize("name", ACTIVATIONS)
smooth = pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n != "relu"])

PLAIN = {
    "relu": lambda z: z * (z > 0),
    "gelu": lambda z: z * (1 + erf(z / np.sqrt(2))) / 2,
    "gelu_tanh": lambda z: z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2,
    "tanh": np.tanh,
    "sigmoid": lambda z: (1 + np.tanh(z / 2)) / 2,
    "silu": lambda z: z * (1 + np.tanh(z / 2)) / 2,
    "identity": lambda z: z,
}
# Means and deviations on both sides of every change of rule.
PAIRS = [
    (0.3, 0.01),
    (-1.0, 1.0),
    (0.7, 1.001),
    (2.0, 3.0),
    (-20.0, 2.2),
    (-20.0, 2.3),
    (0.5, 30.0),
]


def fine_grid(m, s, step):
    """Nodes and weights of a trapezoidal rule fine enough for every pair, kinks on a node."""
    step = step / max(1.0, s)
    e = step * np.arange(-round(12 / step), round(12 / step) + 1)
    if 0 < abs(m / s) < 12:
        e = e + (-m / s - e[np.abs(e + m / s).argmin()])
    return e, step * np.exp(-e * e / 2) / np.sqrt(2 * np.pi)


@every
def test_values(name):
    z = np.linspace(-9, 9, 181)
    np.testing.assert_allclose(ACTIVATIONS[name](z), PLAIN[name](z), rtol=0, atol=1e-14)


@smooth
def test_derivatives_follow_one_another(name):
    z, h = np.linspace(-6, 6, 97), 1e-3
    derivatives = ACTIVATIONS[name].derivatives
    for k in range(4):
        # Richardson's extrapolation of two central differences.
        steps = [
            (derivatives(z + g, k)[k] - derivatives(z - g, k)[k]) / (2 * g) for g in (h, 2 * h)
        ]
        slope = (4 * steps[0] - steps[1]) / 3
        np.testing.assert_allclose(derivatives(z, 4)[k + 1], slope, rtol=0, atol=1e-9)


@every
@pytest.mark.parametrize("extreme", [-1e150, -700.0, 700.0, 1e150])
def test_far_values_are_finite(name, extreme):
    order = 1 if name == "relu" else 4
    for value in ACTIVATIONS[name].derivatives(np.array([extreme]), order):
        assert np.isfinite(value).all()


@every
@pytest.mark.parametrize(("m", "s"), PAIRS)
def test_means_and_coefficients(name, m, s):
    e, weight = fine_grid(m, s, 0.005 if name == "relu" else 0.05)
    values = PLAIN[name](m + s * e) * weight
    expected = np.array([np.sum(values * h) for h in hermite_values(e, 9)])
    tolerance = (2e-6 if name == "relu" else 1e-13) * max(1.0, abs(m), s)
    # a_k = sqrt(k!) c_k / s^k; the plain sum bears no division by a small s.
    moments = ACTIVATIONS[name].expectations(np.array([m]), np.array([s]), 4)[:, 0]
    scale, factorials = s ** np.arange(5), np.sqrt([1, 1, 2, 6, 24])
    error = np.abs(moments * scale / factorials - expected[:5])
    assert (error <= tolerance * np.maximum(scale, 1)).all()
    found = ACTIVATIONS[name].hermite(np.array([m]), np.array([s]), 9)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_known_values():
    m, s = np.zeros(1), np.ones(1)
    means = {name: act.expectations(m, s, 1)[:, 0] for name, act in ACTIVATIONS.items()}
    np.testing.assert_allclose(means["relu"], [1 / np.sqrt(2 * np.pi), 0.5])
    np.testing.assert_allclose(means["gelu"], [1 / (2 * np.sqrt(np.pi)), 0.5])
    np.testing.assert_allclose(means["sigmoid"][0], 0.5)
    np.testing.assert_allclose(means["tanh"], [0, 0.605705507360], atol=1e-11)
    # E[z sigma(z)] = E sigma'(z) at m = 0, s = 1
    np.testing.assert_allclose(means["silu"][0], means["sigmoid"][1])


@every
def test_without_variance_means_are_values(name):
    act, m = ACTIVATIONS[name], np.array([-2.0, 0.0, 0.3, 50.0])
    found = act.expectations(m, np.zeros(4), 4)
    assert np.isfinite(found).all()
    order = 1 if name == "relu" else 4
    for value, mean in zip(act.derivatives(m, order), found, strict=False):
        np.testing.assert_allclose(mean, value, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(act.hermite(m, np.zeros(4), 6)[1:], 0)


@every
@few
@given(st.floats(-30, 30), st.floats(-3, 3))
def test_means_agree_across_the_rules(name, m, exponent):
    # E act(z) for z = m + s e is the mean over e1 of E act(m + s1 e1 + s2 e2), s^2 = s1^2 + s2^2.
    act, s = ACTIVATIONS[name], 10.0**exponent
    e, weight = np.polynomial.hermite_e.hermegauss(60)
    inner = act.expectations(m + 0.05 * s * e, np.full(60, np.sqrt(1 - 0.05**2) * s), 1)
    outer = act.expectations(np.array([m]), np.array([s]), 1)[:, 0]
    scale = max(1.0, abs(m), s)
    np.testing.assert_allclose(inner @ weight / weight.sum(), outer, rtol=0, atol=1e-13 * scale)


@every
def test_nodes_integrate_polynomials(name):
    m, s = np.array([p[0] for p in PAIRS]), np.array([p[1] for p in PAIRS])
    seen = []
    for units, e, weight in ACTIVATIONS[name].nodes(m, s):
        seen.extend(units)
        for power, moment in enumerate((1, 0, 1, 0, 3)):
            total = (weight * e**power).sum(axis=1)
            np.testing.assert_allclose(total, moment, rtol=0, atol=1e-12)
    assert sorted(seen) == list(range(len(PAIRS)))
