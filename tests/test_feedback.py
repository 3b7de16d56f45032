"""Linear-quadratic feedback on the covariance, with python-control as the oracle."""

from __future__ import annotations

import control as ct
import numpy as np
import pytest
from problems import planted_problem

import gausscontrol as gct
from gausscontrol.analysis.feedback import covariance_lqr


@pytest.mark.parametrize("inputs", ["A", ("A", "V"), ("B",)])
def test_agrees_with_ct_lqr(inputs):
    rng = np.random.default_rng(0)
    model, Sigma = planted_problem(rng, 3, 2, 1.0)
    K, S, E = covariance_lqr(model, Sigma, 1.0, 0.1, inputs=inputs)
    system = gct.moment_system(model, inputs=inputs)
    linear = ct.linearize(system, gct.pack(np.zeros(3), Sigma))
    J, G = linear.A[3:, 3:], linear.B[3:]
    K0, S0, E0 = ct.lqr(J, G, np.eye(6), 0.1 * np.eye(G.shape[1]))
    np.testing.assert_allclose(K, K0, atol=1e-8)
    np.testing.assert_allclose(S, S0, atol=1e-8)
    np.testing.assert_allclose(np.sort_complex(E), np.sort_complex(E0), atol=1e-7)


def test_stabilises_an_unstable_equilibrium_of_the_nonlinear_system():
    model = gct.GaussianTransformer(-np.eye(2), np.eye(2), 0.5 * np.eye(2))
    equilibrium = gct.find_equilibrium(model)
    assert not equilibrium.covariance_is_stable
    K, _, E = covariance_lqr(model, equilibrium, 1.0, 1.0)
    assert E.real.max() < 0
    system = gct.moment_system(model, inputs=("A",), name="layer")
    target = gct.vech(equilibrium.covariance)

    def control_law(t, x, u, params):
        return -K @ (u - target)

    regulator = ct.nlsys(
        None,
        control_law,
        inputs=[f"Sigma[{i}]" for i in range(3)],
        outputs=[f"A[{i}]" for i in range(4)],
        name="regulator",
    )
    outputs = system.output_labels
    loop = ct.interconnect([system, regulator], inputs=[], outputs=outputs)
    start = gct.pack(np.zeros(2), equilibrium.covariance + np.array([[0.3, 0.1], [0.1, -0.2]]))
    response = ct.input_output_response(
        loop, np.linspace(0, 20, 5), 0, start, solve_ivp_kwargs={"rtol": 1e-9, "atol": 1e-12}
    )
    np.testing.assert_allclose(response.states[2:, -1], target, atol=1e-6)


def test_discrete_depth_agrees_with_dlqr():
    model, Sigma = planted_problem(np.random.default_rng(1), 2, 1, 0.0)
    model = model.replace(dt=0.05)
    K, S, _ = covariance_lqr(model, Sigma, np.eye(3), np.eye(4))
    linear = ct.linearize(gct.moment_system(model, inputs="A"), gct.pack(np.zeros(2), Sigma))
    K0, S0, _ = ct.dlqr(linear.A[2:, 2:], linear.B[2:], np.eye(3), np.eye(4))
    np.testing.assert_allclose(K, K0, atol=1e-8)
    np.testing.assert_allclose(S, S0, atol=1e-8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": ("b",)}, "inputs"),
        ({"inputs": ()}, "inputs"),
        ({"inputs": ("A", "A")}, "inputs"),
        ({"Q": np.eye(4)}, "Q"),
        ({"R": [[1, 2], [3, 4]]}, "R"),
        ({"equilibrium": np.eye(3)}, "equilibrium"),
    ],
)
def test_bad_input(change, words):
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    arguments = {"equilibrium": np.eye(2), "Q": 1, "R": 1, "inputs": ("A",)} | change
    with pytest.raises(gct.GausscontrolError, match=words):
        covariance_lqr(model, **arguments)
