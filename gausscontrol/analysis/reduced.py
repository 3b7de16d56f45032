"""The linear analysis where the linearisation is too large to be a matrix (Theory 2.2, 2.3).

    d/dt dmu = (M + Vbar) dmu + du

Sigma does not depend on b and k, so from these inputs the mean block, d states, is the whole of
what moves: its norms and Gramians are those of the full linearisation, exactly.
"""

from __future__ import annotations

from typing import Any

import control as ct
import numpy as np

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.errors import ParameterError
from gausscontrol.model.moments import MomentField
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.inputs import InputLayout

__all__ = ["mean_block", "state_count"]


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
    channels = _channels(model, inputs, outputs)
    S, dim = equilibrium.covariance, model.dim
    columns = {"b": [np.eye(dim)], "k": [V @ S for V in model.V] if "k" in channels else []}
    gain = model.dt or 1.0
    B = gain * np.concatenate([block for name in channels for block in columns[name]], axis=1)
    means = [f"mu[{i}]" for i in range(dim)]
    system = ct.ss(
        MomentField.of(model).mean_jacobian(S),
        B,
        np.eye(dim),
        np.zeros((dim, B.shape[1])),
        model.dt or 0,
        states=means,
        outputs=means,
        inputs=list(InputLayout(model, channels).labels()),
        name=model.name,
    )
    return system, channels


def _channels(model: GaussianTransformer, inputs: Any, outputs: Any) -> tuple[str, ...]:
    """Return the inputs; refuse what would need the covariance block."""
    channels = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    limit = (
        f"at d = {model.dim} the covariance has {state_count(model)} states, and its linearisation "
        f"is a matrix up to d = {DENSE_DIM}"
    )
    wrong = [name for name in channels if name not in ("b", "k")]
    if wrong or not channels or len(set(channels)) < len(channels):
        found = ", ".join(wrong or channels) or "none"
        raise ParameterError(
            f"inputs: expected b, k or both, found {found}; {limit}; "
            "for one direction use analysis.covariance_shift(A=dA)"
        )
    if outputs is not None and tuple(np.atleast_1d(outputs)) != ("mu",):
        raise ParameterError(f"outputs: expected 'mu', found {outputs!r}; {limit}")
    return channels
