"""Scalar layers, decided exactly: signs, thresholds, agreement with flows and certificates."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.certificates.scalar import scalar_regime

LIGHT = settings(derandomize=True, deadline=None, max_examples=20)
NUMBERS = st.one_of(st.floats(0.1, 3.0), st.floats(-3.0, -0.1))


@pytest.mark.parametrize(
    ("a", "v", "regime", "on_boundary", "equilibrium", "threshold"),
    [
        (1.0, -0.5, "globally stable", False, 2.0, None),
        (-1.0, -0.5, "collapse", False, None, None),
        (0.0, -0.5, "collapse", True, None, None),
        (-1.0, 0.0, "collapse", True, None, None),
        (0.0, 0.0, "bounded", True, None, None),
        (1.0, 0.0, "undecided", True, None, None),
        (1.0, 0.5, "blow-up", False, None, 0.0),
        (0.0, 0.5, "blow-up", False, None, 0.0),
        (-1.0, 0.5, "blow-up", False, 2.0, 2.0),
    ],
)
def test_signs(a, v, regime, on_boundary, equilibrium, threshold):
    found = scalar_regime(gct.GaussianTransformer(a, 1, v, b=3.0))
    assert (found.regime, found.on_boundary) == (regime, on_boundary)
    assert (found.equilibrium, found.threshold) == (equilibrium, threshold)
    assert (found.rate, found.gain) == (a, v)
    assert str(found).startswith(f"{regime.capitalize()}: d = 1, exactly")
    assert ("on a boundary" in str(found)) == on_boundary
    assert found.statement in str(found)


def test_statements():
    def said(a, v):
        return scalar_regime(gct.GaussianTransformer(a, 1, v)).statement

    assert said(-1, 0.5) == (
        "every variance above 2 [x]^2 escapes to infinity at a finite depth, "
        "and every one below tends to zero"
    )
    assert said(1, 0.5) == "every variance but zero escapes to infinity at a finite depth"
    assert said(0, -1) == "every variance tends to zero, like 1/t"
    assert said(-1, -1) == "every variance tends to zero, like exp(-2 t)"
    assert said(1, 0) == "every variance grows like exp(2 t), and none escapes"
    assert said(0, 0) == "every variance stays what it is"


@LIGHT
@given(NUMBERS, NUMBERS)
def test_flows_do_what_is_said(a, v):
    model = gct.GaussianTransformer(a, 1, v)
    found = scalar_regime(model)
    depths = np.linspace(0, 40 / min(abs(a), 1), 9)

    def follow(variance):
        return gct.moment_response(model, depths, (0.0, variance))

    if found.regime == "blow-up":
        with pytest.warns(gct.BlowUpWarning):
            assert follow(1.1 * found.threshold + 0.1).blow_up_time is not None
        if found.threshold:
            assert follow(0.9 * found.threshold).covariance[0, 0, -1] < 1e-6
    else:
        target = found.equilibrium or 0.0
        for variance in (0.3, 5.0):
            assert abs(follow(variance).covariance[0, 0, -1] - target) < 1e-6 * max(target, 1)


@LIGHT
@given(NUMBERS, NUMBERS)
def test_certificates_agree(a, v):
    model = gct.GaussianTransformer(a, 1, v)
    assert gct.classify(model, sdp=False).regime == scalar_regime(model).regime


SIGNED = (-1.0, -1e-3, 0.0, 1e-3, 1.0)


@pytest.mark.parametrize("a", SIGNED)
def test_the_two_agree_on_the_boundaries_too(a):
    pairs = list(itertools.product(SIGNED, (-1.0, 0.0, 1e-3)))
    for index, (v, b) in enumerate(pairs):
        # One head, and two of which the second may cancel the first.
        w, c = pairs[(7 * index + 3) % len(pairs)]
        second = ([v, v], [b, -b]) if index % 3 else ([v, w], [b, c])
        for V, B in (([v], [b]), second):
            V, B = np.reshape(V, (-1, 1, 1)), np.reshape(B, (-1, 1, 1))
            model = gct.GaussianTransformer(a, B, V)
            exactly, found = scalar_regime(model), gct.classify(model, sdp=False)
            assert found.regime == exactly.regime, (a, V, B)
            assert found.certificate is None or found.certificate.verify()


def test_the_sign_of_the_gain_is_exact():
    heads = np.array([0.1, 0.2, -0.3]).reshape(3, 1, 1)
    found = scalar_regime(gct.GaussianTransformer(1, np.ones((3, 1, 1)), heads))
    assert found.gain == 2.0**-55 != 0.1 + 0.2 - 0.3  # the sum of those three floats
    assert found.regime == "blow-up"
    cancelled = scalar_regime(gct.GaussianTransformer(1, [[[1]], [[3]]], [[[0.3]], [[-0.1]]]))
    assert (cancelled.gain, cancelled.regime) == (-(2.0**-55), "globally stable")
    widest = scalar_regime(gct.GaussianTransformer(1e-100, 1e100, -1e100))
    assert (widest.regime, widest.gain) == ("globally stable", -1e200)
    assert widest.equilibrium == pytest.approx(1e-300)


def test_numbers_beyond_the_range_of_floats():
    def cancelling(a, sign):
        # Two heads that cancel but for a last digit, as small as entries may be.
        V = 2e-100 * np.array([[[1.0]], [[-1.0 + sign * 2.0**-52]]])
        return scalar_regime(gct.GaussianTransformer(a, np.full((2, 1, 1), 2e-100), V))

    low = cancelling(1e100, -1)
    assert (low.regime, low.equilibrium) == ("globally stable", np.inf)
    assert "tends to one that is finite and beyond" in low.statement
    high = cancelling(-1e100, 1)
    assert (high.regime, high.threshold) == ("blow-up", np.inf)
    assert "finite and beyond the range of floats (above 1.8e308 [x]^2) escapes" in high.statement
    assert "gain g  0 per" in str(scalar_regime(gct.GaussianTransformer(-1.0, 1.0, 0.0)))


def test_factored_heads():
    W_Q, W_K, W_V, W_O = np.array([0.5, -2.0, 1.5, 1.0]).reshape(4, 1, 1, 1)
    model = gct.GaussianTransformer.from_weights(W_Q, W_K, W_V, W_O, A=[[1.0]], scale=1.0)
    found = scalar_regime(model)
    assert found.regime == "globally stable"
    assert found.gain == -1.5


def test_bad_input():
    with pytest.raises(gct.ShapeError, match=r"expected d = 1, found d = 2; use classify"):
        scalar_regime(gct.GaussianTransformer(np.eye(2), np.eye(2), np.eye(2)))
    with pytest.raises(gct.ParameterError, match="expected continuous depth"):
        scalar_regime(gct.GaussianTransformer(1, 1, 1, dt=0.1))
    with pytest.raises(gct.ParameterError, match="expected a GaussianTransformer"):
        scalar_regime(3.0)
