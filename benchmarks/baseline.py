"""What a python-control user writes today: the plain system, its generic tools.

A `ct.nlsys` around a right side that unpacks mu and vech(Sigma) and types out equation (1), then
`ct.linearize`, `ct.find_operating_point` and `ct.input_output_response` as they come.
"""

from __future__ import annotations

import control as ct
import numpy as np

from gausscontrol import GaussianTransformer

__all__ = ["plain_equilibrium", "plain_response", "plain_system"]


def plain_system(model: GaussianTransformer) -> ct.NonlinearIOSystem:
    """Return equation (1) of a one-head model as one types it, nothing hoisted or reordered."""
    A, B, V, b, dim = model.A, model.B[0], model.V[0], model.b, model.dim

    def update(t, x, u, params):
        mu, Sigma = x[:dim], unvech(x[dim:], dim)
        dmu = (A + V) @ mu + V @ Sigma @ B @ mu + b + u
        dSigma = A @ Sigma + Sigma @ A.T + V @ Sigma @ B @ Sigma + Sigma @ B.T @ Sigma @ V.T
        return np.concatenate([dmu, vech(dSigma)])

    states = dim + dim * (dim + 1) // 2
    return ct.nlsys(update, None, inputs=dim, states=states, outputs=states)


def unvech(entries: np.ndarray, dim: int) -> np.ndarray:
    """Rebuild a symmetric matrix from its lower triangle, column by column."""
    columns, rows = np.triu_indices(dim)
    Sigma = np.zeros((dim, dim))
    Sigma[rows, columns] = entries
    return Sigma + Sigma.T - np.diag(np.diag(Sigma))


def vech(Sigma: np.ndarray) -> np.ndarray:
    """Stack the lower triangle column by column."""
    columns, rows = np.triu_indices(Sigma.shape[0])
    return Sigma[rows, columns]


def plain_response(system, times, x0, rtol: float, method: str = "RK45"):
    """Simulate with the tolerance given, every other option as python-control has it."""
    return ct.input_output_response(
        system,
        times,
        0,
        x0,
        solve_ivp_method=method,
        solve_ivp_kwargs={"rtol": rtol, "atol": rtol * 1e-2},
    )


def plain_equilibrium(system, x0, horizon: float) -> np.ndarray | None:
    """Simulate to get near, then find the operating point."""
    times = np.linspace(0, horizon, 50)
    near = plain_response(system, times, x0, 1e-3).states[:, -1]
    point = ct.find_operating_point(system, near, np.zeros(system.ninputs))
    return point.states
