"""The linear analysis where the linearisation is too large to be a matrix (Theory 2.2, 2.3, 7.1c).

    d/dt dmu = (M + Vbar) dmu + du,      L(dSigma) = -dF

Sigma does not depend on b and k, so from these inputs the mean block, d states, is the whole of
what moves: its norms and Gramians are those of the full linearisation, exactly. A change of A, V or
B moves Sigma* by one solution of L(E) = -dF, found by GMRES without forming L.
"""

from __future__ import annotations

import control as ct
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, gmres

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.propagator import Linearisation
from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import smat, svec, whitening
from gausscontrol.model.moments import MomentField
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["DENSE_DIM", "covariance_shift", "mean_block", "state_count"]

# Up to this size the full linearisation is a matrix.
DENSE_DIM = 32
GMRES_TOLERANCE, ACCEPTED = 1e-10, 1e-8


def state_count(model: GaussianTransformer) -> int:
    """Return the number of covariance states, d(d+1)/2."""
    return model.dim * (model.dim + 1) // 2


def mean_block(
    model: GaussianTransformer,
    equilibrium: Equilibrium,
    inputs: str | tuple[str, ...],
    outputs: str | tuple[str, ...] | None,
) -> tuple[ct.StateSpace, tuple[str, ...]]:
    """Return the linearisation of the mean as a system, and its input channels.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium
    inputs : str or tuple of str
        "b" or "k" or both.
    outputs : str or tuple of str, optional
        The mean, "mu".

    Returns
    -------
    ct.StateSpace, tuple of str
        d states `mu[i]`.

    Raises
    ------
    ParameterError
        For inputs that move the covariance or outputs that read it, whose linearisation would need
        an n x n matrix.
    """
    channels = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    limit = (
        f"at d = {model.dim} the covariance has {state_count(model)} states, and its linearisation "
        f"is a matrix up to d = {DENSE_DIM}"
    )
    wrong = [name for name in channels if name not in ("b", "k")]
    if wrong or not channels:
        raise ParameterError(
            f"inputs: expected b, k or both, found {', '.join(wrong) or 'none'}; {limit}; "
            "for one direction use analysis.covariance_shift(A=dA)"
        )
    if outputs is not None and tuple(np.atleast_1d(outputs)) != ("mu",):
        raise ParameterError(f"outputs: expected 'mu', found {outputs!r}; {limit}")
    field, gain, dim = MomentField.of(model), model.dt or 1.0, model.dim
    S = equilibrium.covariance
    columns = {"b": [np.eye(dim)], "k": [V @ S for V in model.V] if "k" in channels else []}
    labels = {
        "b": [f"b[{i}]" for i in range(dim)],
        "k": [f"k[{n}]" for n in range(model.n_heads * dim)],
    }
    B = gain * np.concatenate([block for name in channels for block in columns[name]], axis=1)
    means = [f"mu[{i}]" for i in range(dim)]
    system = ct.ss(
        field._mean_by_mean(S),
        B,
        np.eye(dim),
        np.zeros((dim, B.shape[1])),
        model.dt or 0,
        states=means,
        outputs=means,
        inputs=[label for name in channels for label in labels[name]],
        name=model.name,
    )
    return system, channels


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
    dim = model.dim
    S = equilibrium.covariance
    forcing = np.zeros((dim, dim))
    for name, value in changes.items():
        if name not in ("A", "V", "B"):
            raise ParameterError(f"{name}: expected changes of A, V or B, found {name!r}")
        shape = (dim, dim) if name == "A" else (model.n_heads, dim, dim)
        change = real_array(value, name)
        if change.size != np.prod(shape):
            raise ParameterError(
                f"{name}: expected a change of shape {shape}, found {change.shape}"
            )
        change = change.reshape(shape)
        if name == "A":
            forcing += change
        elif name == "V":
            forcing += np.einsum("hij,hjk->ik", change @ S, model.B)
        else:
            forcing += np.einsum("hij,hjk->ik", model.V @ S, change)
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


def _solved(white: GaussianTransformer, right: np.ndarray) -> np.ndarray:
    """Solve L(E) = R, or (L - 1)(E) = R for a map, in whitened coordinates."""
    linear = Linearisation(white)

    def apply(v: np.ndarray) -> np.ndarray:
        E = smat(np.ravel(v))
        return svec(linear.apply(E) - E if white.dt else linear.apply(E))

    n = state_count(white)
    target = svec(right)
    operator = LinearOperator((n, n), matvec=apply, dtype=float)
    found, _ = gmres(operator, target, rtol=GMRES_TOLERANCE, restart=min(80, n), maxiter=20)
    missed = np.linalg.norm(apply(found) - target)
    if not missed <= ACCEPTED * np.linalg.norm(target):
        raise GausscontrolError(
            f"model: GMRES leaves {missed / np.linalg.norm(target):.2g} of the right side; the "
            "linearisation is singular or too ill-conditioned"
        )
    return smat(found)
