import numpy as np
from flows import converge, integrate
from numpy.testing import assert_allclose


def scalars(*values):
    return [np.array(value, dtype=float).reshape(-1, 1, 1) for value in values]


def test_escape_is_seen_at_its_depth():
    # Sigma' = 2 a Sigma + 2 v Sigma^2 escapes at log(1 + a/(v s0)) / (2 a).
    A, V, B = scalars([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    start = np.array([0.25, 1.0, 1e-3])
    flow = integrate(A, V[:, None], B[:, None], np.sqrt(start)[:, None, None], 100.0)
    assert flow.escaped.all()
    assert_allclose(flow.t, np.log(1 + 0.5 / start), rtol=1e-3)


def test_a_logistic_covariance_settles():
    A, V, B = scalars([0.5, 0.5], [-0.5, -0.5], [1.0, 1.0])
    L = np.array([1e-3, 1e3])[:, None, None]
    assert converge(A, V[:, None], B[:, None], L).all()
    flow = integrate(A, V[:, None], B[:, None], L, 30.0)
    assert not flow.escaped.any()
    assert_allclose(flow.t, 30)
    assert_allclose(flow.late_trace, 1, rtol=1e-5)
    assert_allclose((flow.L**2).ravel(), 1, rtol=1e-5)
