"""How an equilibrium covariance moves with the parameters, to first order (Theory 2.2, 7.1c).

    L(E) = -dF,    E = dSigma*,    dF the change of F(Sigma*) with the parameters

All derivatives at once take L as a matrix; one direction at any size is one solution by GMRES.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import gmres

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.krylov import DENSE_DIM, on_svec
from gausscontrol.analysis.propagator import Linearisation
from gausscontrol.analysis.reduced import state_count
from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import smat, svec, unvech, whitening
from gausscontrol.model.moments import MomentField
from gausscontrol.model.packing import pack
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["covariance_shift", "sensitivity"]

GMRES_TOLERANCE, ACCEPTED = 1e-10, 1e-8
# Condition number at which the linearisation counts as singular.
SINGULAR = 1e13


def sensitivity(model: GaussianTransformer, equilibrium: Equilibrium, parameter: str) -> np.ndarray:
    """Return dSigma*/dtheta, as `EquilibriumAnalysis.sensitivity` says.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium
    parameter : {"A", "V", "B", "b", "k"}

    Returns
    -------
    (d, d, ...) ndarray

    Raises
    ------
    ParameterError
        If the name is unknown, or the linearisation is singular or too large to be a matrix.
    """
    if parameter not in ("A", "V", "B", "b", "k"):
        raise ParameterError(
            f"parameter: expected one of A, V, B, b, k, found {parameter!r}; name one of these"
        )
    dim = model.dim
    if dim > DENSE_DIM:
        raise ParameterError(
            f"parameter: all derivatives of {state_count(model)} covariance entries are "
            f"computed up to d = {DENSE_DIM}, found d = {dim}; "
            "use covariance_shift for one direction"
        )
    field = MomentField.of(model)
    x = pack(np.zeros(dim), equilibrium.covariance)
    forcing = field.input_jacobian(x, (parameter,))[dim:]
    L = field.covariance_jacobian(equilibrium.covariance)
    if model.dt:
        L = L - np.eye(len(L))
    if not np.linalg.cond(L) < SINGULAR:
        raise ParameterError(
            "equilibrium: expected an isolated one, found a singular linearisation; "
            "its covariance is no differentiable function of the parameters"
        )
    derivative = unvech(np.linalg.solve(L, -forcing))
    return derivative.reshape(dim, dim, *getattr(model, parameter).shape)


def covariance_shift(
    model: GaussianTransformer, equilibrium: Equilibrium, changes: dict[str, ArrayLike]
) -> np.ndarray:
    """Return the first-order change of Sigma* for a change of A, V and B.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium
        Of full rank.
    changes : dict
        dA (d, d), dV and dB (h, d, d), by "A", "V", "B".

    Returns
    -------
    (d, d) ndarray
        [x]^2

    Raises
    ------
    ParameterError
        If a name or a shape is wrong, or the linearisation is singular.
    """
    dim, S = model.dim, equilibrium.covariance
    forcing = _forcing(model, S, changes)
    if equilibrium.rank < dim:
        raise ParameterError(
            f"equilibrium: expected full rank, found rank {equilibrium.rank} of {dim}; a change of "
            "the parameters moves it along its leaf only"
        )
    R, root = whitening(S)
    white = model.in_coordinates(R, root)
    moved = R @ forcing @ root
    if model.dt:
        D = np.eye(dim) + model.dt * white.drift(np.eye(dim))
        moved = model.dt * moved @ D.T
    return root @ _solved(white, -(moved + moved.T)) @ root


def _forcing(
    model: GaussianTransformer, S: np.ndarray, changes: dict[str, ArrayLike]
) -> np.ndarray:
    """Return the change of M(S) with the parameters."""
    dim = model.dim
    forcing = np.zeros((dim, dim))
    for name, value in changes.items():
        if name not in ("A", "V", "B"):
            raise ParameterError(
                f"{name}: expected changes of A, V or B, found {name}; "
                "no other parameter enters Sigma'"
            )
        shape = (dim, dim) if name == "A" else (model.n_heads, dim, dim)
        change = real_array(value, name)
        if change.size != np.prod(shape):
            raise ParameterError(
                f"{name}: expected a change of shape {shape}, found {change.shape}; "
                f"shape it like the model's {name}"
            )
        change = change.reshape(shape)
        if name == "A":
            forcing += change
        elif name == "V":
            forcing += np.einsum("hij,hjk->ik", change @ S, model.B)
        else:
            forcing += np.einsum("hij,hjk->ik", model.V @ S, change)
    return forcing


def _solved(white: GaussianTransformer, right: np.ndarray) -> np.ndarray:
    """Solve L(E) = R, or (L - 1)(E) = R for a map, in whitened coordinates."""
    linear = Linearisation(white)

    def apply(E: np.ndarray) -> np.ndarray:
        return linear.apply(E) - E if white.dt else linear.apply(E)

    operator, target = on_svec(apply, white.dim), svec(right)
    restart = min(80, target.size)
    found, _ = gmres(operator, target, rtol=GMRES_TOLERANCE, restart=restart, maxiter=20)
    missed = np.linalg.norm(operator @ found - target)
    if not missed <= ACCEPTED * np.linalg.norm(target):
        raise GausscontrolError(
            f"model: GMRES leaves {missed / np.linalg.norm(target):.2g} of the right side; the "
            "linearisation is singular or too ill-conditioned"
        )
    return smat(found)
