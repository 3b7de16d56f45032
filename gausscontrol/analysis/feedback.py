"""Linear-quadratic state feedback on the covariance, through parameter inputs (Theory 2.2).

    d/dt dSigma = L(dSigma) + G u,   u = -K vech(dSigma),   J = int (x^T Q x + u^T R u) dt

with x = vech(Sigma - Sigma*) and u offsets of the parameters chosen as inputs.
"""

from __future__ import annotations

from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.errors import ParameterError
from gausscontrol.linalg.arrays import real_array, symmetric_matrix
from gausscontrol.linalg.riccati import riccati
from gausscontrol.linalg.symmetric import covariance_matrix
from gausscontrol.model.moments import MomentField
from gausscontrol.model.packing import pack
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["covariance_lqr"]

INPUTS = ("A", "V", "B")


def covariance_lqr(
    model: GaussianTransformer,
    equilibrium: Any,
    Q: ArrayLike,
    R: ArrayLike,
    inputs: str | tuple[str, ...] = ("A",),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Design a linear-quadratic regulator for the covariance.

    Minimises the integral of x^T Q x + u^T R u along the linearisation at Sigma*, with
    x = vech(Sigma - Sigma*) and u the offsets of the chosen parameters, flattened row by row.

    Parameters
    ----------
    model : GaussianTransformer
        With dt > 0 the sum over layers is minimised instead.
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    Q : (n, n) array_like
        State weight, n = d(d+1)/2; a number stands for that multiple of the identity.
    R : (m, m) array_like
        Input weight, positive definite; a number likewise.
    inputs : str or tuple of str, optional
        Among "A", "V", "B", in the order in which the inputs are stacked.

    Returns
    -------
    K : (m, n) ndarray
        Gain of u = -K x; feeds the inputs of `moment_system(model, inputs=inputs)`.
    S : (n, n) ndarray
        Solution of the Riccati equation.
    E : (n,) ndarray
        Closed-loop eigenvalues.

    Raises
    ------
    ShapeError, ParameterError
        If an argument is invalid.
    MatrixEquationError
        If the pair is not stabilisable or the weights leave no stabilising solution.

    Notes
    -----
    Theory 2.2; the outputs are ordered as in `ct.lqr`. b and k do not enter Sigma' and cannot
    be inputs here.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> K, S, E = gct.covariance_lqr(model, [[2.0]], 1, 1)
    >>> bool(np.allclose(E, -np.sqrt(17)))
    True
    """
    channels = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    if not channels or not set(channels) <= set(INPUTS) or len(set(channels)) != len(channels):
        raise ParameterError(
            f"inputs: expected distinct names among {', '.join(INPUTS)}, found {inputs!r}; "
            "b and k do not enter the covariance equation"
        )
    value = equilibrium.covariance if isinstance(equilibrium, Equilibrium) else equilibrium
    Sigma = covariance_matrix(value, "equilibrium", model.dim)
    field, dim = MomentField.of(model), model.dim
    J = field.covariance_jacobian(Sigma)
    G = field.input_jacobian(pack(np.zeros(dim), Sigma), channels)[dim:]
    Q = _weight(Q, "Q", J.shape[0])
    R = _weight(R, "R", G.shape[1])
    if model.dt:
        K, S, E = ct.dlqr(J, G, Q, R)
        return np.asarray(K), np.asarray(S), np.asarray(E)
    solution = riccati(J, G, Q, R)
    return solution.gain, solution.solution, solution.poles


def _weight(value: ArrayLike, name: str, size: int) -> np.ndarray:
    array = real_array(value, name)
    if array.ndim == 0:
        return float(array) * np.eye(size)
    return symmetric_matrix(array, name, size)
