"""The Gaussian system beside tokens: the same layers, started at the sample moments (Theory 8.3).

    mu' = (M + Vbar) mu + sum_h V_h Sigma k_h + b,   L' = M L,   M = A + A_eq(mu, Sigma) + T(Sigma)

A feed-forward part enters by its affine closure (Theory 8.1), layer after layer of a stack.
Starting at the sample moments takes the error of sampling the start out of the comparison; what is
left is what softmax over finitely many tokens, and tokens that are not Gaussian, do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from gausscontrol.errors import BlowUpWarning, IntegrationError
from gausscontrol.linalg.bures import equilibrated_factor
from gausscontrol.linalg.symmetric import factor
from gausscontrol.model.moments import MomentField
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.iosys import moment_system
from gausscontrol.systems.response import MomentResponse, build_response, moment_response
from gausscontrol.systems.trajectory import Solution, Task
from gausscontrol.tokens.feedforward import FeedForward
from gausscontrol.tokens.march import Stopped, layers_of, march, pieces_of

__all__ = ["gaussian_companion"]

RTOL = 1e-8


def gaussian_companion(
    model: GaussianTransformer | LayerStack,
    parts: Sequence,
    depths: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
) -> MomentResponse | str:
    """Return the moments of the Gaussian system from given ones.

    Parameters
    ----------
    model : GaussianTransformer or LayerStack
    parts : sequence
        Feed-forward part of each layer, or None.
    depths : (T,) ndarray
        [t]
    mean : (d,) ndarray
        [x]
    covariance : (d, d) ndarray
        [x]^2

    Returns
    -------
    MomentResponse or str
        It ends before a finite escape, without a warning: the tokens themselves go on, and
        `blow_up_time` says where. Why there is none, where a part is a callable without a closure
        or the moments cannot be integrated.
    """
    if not all(part is None or isinstance(part, FeedForward) for part in parts):
        return "the feed-forward part has no closure"
    try:
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            warnings.simplefilter("ignore", BlowUpWarning)
            if any(part is not None for part in parts):
                return _closed_response(model, parts, depths, mean, covariance)
            return moment_response(model, depths, (mean, covariance), rtol=RTOL)
    except IntegrationError as error:
        # Tokens can be followed where their moments cannot; the response says so.
        return f"it cannot be integrated ({error})"


def _closed_response(model, parts, depths, mean, covariance) -> MomentResponse:
    depths, pieces = pieces_of(model, depths)
    L = equilibrated_factor(covariance)
    dim, rank = L.shape
    start = np.concatenate([mean, L.reshape(-1)])
    fields = [MomentField.of(layer.replace(dt=0)) for layer in layers_of(model)]

    def rate(i: int, x: np.ndarray) -> np.ndarray:
        field = fields[i]
        if parts[i] is not None:
            factors = x[dim:].reshape(dim, rank)
            A_eq, b_eq = parts[i].affine(x[:dim], factors @ factors.T)
            field = field.offset(A=A_eq, b=b_eq)
        return field.factor_form(x)

    size = float(np.linalg.norm(start)) or 1.0

    def run(rtol: float) -> tuple[list[np.ndarray], float | None]:
        states: list[np.ndarray] = []
        try:
            atol = 1e-3 * rtol * size
            for x in march(pieces, depths, start, rate, rtol=rtol, atol=atol):
                states.append(x)
        except Stopped as stopped:
            return states, stopped.depth
        return states, None

    states, escape = run(RTOL / 10)
    table = np.stack(states, axis=-1)
    factors = table[dim:].reshape(dim, rank, table.shape[1])
    solution = Solution(
        table[:dim], np.einsum("irt,jrt->ijt", factors, factors), factors, None, "factor"
    )
    if escape is not None:
        rough = run(RTOL)[1]
        solution.blow_up_time = escape - depths[0]
        solution.blow_up_error = abs(escape - (depths[-1] if rough is None else rough))
    system = moment_system(layers_of(model)[0].replace(name=None), name="closure")
    task = Task(
        system,
        fields[0],
        depths,
        np.zeros((system.ninputs, depths.size)),
        mean,
        covariance,
        factor(covariance),
        rank,
        transition=False,
    )
    return build_response(task, solution, depths, None)
