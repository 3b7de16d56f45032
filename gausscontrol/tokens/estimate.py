"""Estimate of the distance between the token law and the closed Gaussian (Theory 8.2).

    w' = l(t) w + eps(t),  w(0) = 0:      w(t) = int_0^t exp(int_s^t l) eps(s) ds

eps is the gap of the closure along a response and l a Lipschitz constant of the token field, in the
token and in the law. A Gaussian visits no bounded region, where l could be had, so w is an estimate
of the Wasserstein distance and no bound. In layers of depth dt, w+ = (1 + dt l) w + dt eps with
1 + dt l a Lipschitz constant of the layer x + dt f(x): expansion and overshoot both raise it, where
a flow has the one-sided constant of f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import control as ct
import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.bures import equilibrated_factor
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.packing import read_moments
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.tokens.belonging import check_response
from gausscontrol.tokens.feedforward import FeedForward, check_partners
from gausscontrol.tokens.response import TokenResponse

__all__ = ["GapEstimate", "gap_estimate"]

# Tokens at which the slope of the field is evaluated, a power of two.
SAMPLES = 64


@dataclass(frozen=True, eq=False)
class GapEstimate:
    """Gap of the closure along a response, and what it adds up to.

    Parameters
    ----------
    depths : (N,) ndarray
        [t]
    gap : (N,) ndarray
        Root of E |f(x) - A_eq x - b_eq|^2. [x/t]
    lipschitz : (N,) ndarray
        The constant l that was used; in residual layers 1 + dt l is that of the layer. [1/t]
    distance : (N,) ndarray
        Estimated 2-Wasserstein distance of the token law from the Gaussian. [x]
    spread : (N,) ndarray
        Root of tr Sigma, which the distance may be compared with. [x]
    lipschitz_is_given : bool
        Whether l came from the caller.
    """

    depths: np.ndarray
    gap: np.ndarray
    lipschitz: np.ndarray
    distance: np.ndarray
    spread: np.ndarray
    lipschitz_is_given: bool

    def __repr__(self) -> str:
        return f"<GapEstimate at {self.depths.size} depths: {self.distance[-1]:.4g} [x] at the end>"

    def __str__(self) -> str:
        source = "given" if self.lipschitz_is_given else "estimated"
        t, gap, rate = self.depths, self.gap, self.lipschitz
        lines = [
            f"Closure gap over {t.size} depths from {t[0]:.6g} to {t[-1]:.6g} [t]",
            f"  gap                   {gap.min():.4g} to {gap.max():.4g} [x/t]",
            f"  Lipschitz constant    {rate.min():.4g} to {rate.max():.4g} [1/t], {source}",
            f"  distance, estimate    {self.distance[-1]:.4g} [x] at the end",
            f"  spread of the tokens  {self.spread[-1]:.4g} [x] at the end",
        ]
        return "\n".join(lines)


def gap_estimate(
    model: GaussianTransformer,
    feedforward: FeedForward,
    response: Any,
    lipschitz: float | None = None,
) -> GapEstimate:
    """Estimate how far the token law drifts from the Gaussian.

    w' = l w + eps, w(0) = 0, for the gap eps of the closure and a Lipschitz constant l.

    Parameters
    ----------
    model : GaussianTransformer
        The layer without the part.
    feedforward : FeedForward
    response : ct.TimeResponseData
        Response of `closure_system(model, feedforward)`, in either form, whose outputs are the
        moments; or a `MomentResponse` of the closure, such as `TokenResponse.gaussian`.
    lipschitz : float, optional
        Lipschitz constant l of the token field in the token and in the law; negative for a field
        that contracts. In residual layers (L - 1) / dt, L the constant of the layer x + dt f. By
        default it is itself estimated, at every depth. [1/t]

    Returns
    -------
    GapEstimate
        Infinite where the estimate overflows.

    Raises
    ------
    ShapeError, ParameterError
        If the arguments do not go together: the response is checked against the closure of this
        model, step by step.

    See Also
    --------
    gaussian_distance : The distance of tokens, measured.

    Notes
    -----
    Theory 8.2. The estimate of l is the largest eigenvalue of the symmetric part of the field's
    slope A + T(Sigma) + Df(x), over 64 tokens of the Gaussian, plus the change of the attention
    with the law, |Vbar| + 2 |Sigma|^(1/2) sum_h |V_h| (E |B_h x + k_h|^2)^(1/2). In residual layers
    the norm of I + dt (A + T(Sigma) + Df(x)) takes the place of the eigenvalue. It is an estimate
    on an estimate; a measured distance decides.

    Examples
    --------
    >>> import numpy as np
    >>> import control as ct
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(-1, 0, 0)
    >>> part = gct.tokens.FeedForward([[1.0]], None, [[0.5]], None)
    >>> system = gct.tokens.closure_system(model, part)
    >>> response = ct.input_output_response(system, np.linspace(0, 1, 11), 0, [0, 1])
    >>> estimate = gct.tokens.gap_estimate(model, part, response)
    >>> bool(0 < estimate.distance[-1] < estimate.spread[-1])
    True
    """
    check_partners(model, feedforward)
    depths, means, covariances = _read_response(response, model.dim)
    check_response(model, feedforward, response, depths, means, covariances)
    if lipschitz is not None:
        rates = np.full(depths.size, _read_lipschitz(lipschitz, model.dt))
    gaps, spreads, estimated = [], [], []
    for mean, S in zip(means, covariances, strict=True):
        mean, S = read_moments((mean, S), "response", model.dim)
        gaps.append(feedforward.gap(mean, S).value)
        spreads.append(np.sqrt(np.trace(S)))
        if lipschitz is None:
            tokens = _token_rate(model, feedforward, mean, S)
            estimated.append(tokens + _law_rate(model, mean, S))
    if lipschitz is None:
        rates = np.array(estimated)
    gap = np.array(gaps)
    distance = _accumulate(depths, gap, rates, model.dt)
    return GapEstimate(depths, gap, rates, distance, np.array(spreads), lipschitz is not None)


def _read_lipschitz(lipschitz: Any, dt: float) -> float:
    value = real_array(lipschitz, "lipschitz")
    if value.ndim:
        raise ShapeError(
            f"lipschitz: expected one number, found shape {value.shape}; pass the largest"
        )
    if 1 + dt * value < 0:
        raise ParameterError(
            f"lipschitz: expected at least {-1 / dt:.6g} in layers of dt = {dt:g}, found "
            f"{float(value):.6g}; it is (L - 1) / dt, L the Lipschitz constant of the layer"
        )
    return float(value)


def _read_response(response: Any, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # Depths, means (N, d) and covariances (N, d, d).
    if not isinstance(response, ct.TimeResponseData) or response.ntraces > 1:
        raise ParameterError(
            f"response: expected one ct.TimeResponseData, found {type(response).__name__}; "
            "use ct.input_output_response(closure_system(model, feedforward), ...)"
        )
    if isinstance(response, TokenResponse):
        raise ParameterError(
            "response: expected that of the closure, found that of tokens; pass response.gaussian"
        )
    depths = np.atleast_1d(np.asarray(response.time, dtype=float))
    if hasattr(response, "mean") and hasattr(response, "covariance"):
        means, covariances = response.mean.T, np.moveaxis(response.covariance, -1, 0)
    else:
        moments = np.asarray(response.outputs).reshape(-1, depths.size)
        if moments.shape[0] != dim + dim * (dim + 1) // 2:
            raise ShapeError(
                f"response: expected {dim + dim * (dim + 1) // 2} outputs, the moments for d = "
                f"{dim}, found {moments.shape[0]}; leave the outputs of closure_system alone"
            )
        pairs = [read_moments(column, "response", dim) for column in moments.T]
        means = np.array([mean for mean, _ in pairs])
        covariances = np.array([S for _, S in pairs])
    if means.shape[1] != dim:
        raise ShapeError(
            f"response: expected token dimension {dim} as in the model, found {means.shape[1]}; "
            "pass the response of this model"
        )
    return depths, means, covariances


def _token_rate(model, feedforward, mean, S) -> float:
    # Largest rate at which two neighbouring tokens part, over some tokens of the Gaussian.
    L, dt = equilibrated_factor(S), model.dt
    linear = model.drift(S)
    tokens = mean[None]
    if L.shape[1]:
        xi = ndtri(qmc.Sobol(L.shape[1], seed=0).random(SAMPLES))
        tokens = mean + xi @ L.T
    units, W2 = feedforward.units, feedforward.W2
    rate = -np.inf
    for x in tokens:
        gate, value = units.slopes(x)
        slope = linear + (W2 * gate) @ units.W_g
        if value is not None:
            slope = slope + (W2 * value) @ units.W_u
        if dt:
            found = (np.linalg.norm(np.eye(len(slope)) + dt * slope, 2) - 1) / dt
        else:
            found = np.linalg.eigvalsh(symmetrise(slope))[-1]
        rate = max(rate, found)
    return float(rate)


def _law_rate(model, mean, S) -> float:
    # Two laws at distance w: |dmu| <= w, |dSigma| <= 2 |Sigma|^(1/2) w to first order.
    heads = model.heads
    tilts = heads.B @ mean + model.k
    squares = np.einsum("hij,jk,hik->h", heads.B, S, heads.B, optimize=True)
    logits = np.sqrt(np.maximum(squares + (tilts**2).sum(axis=1), 0))
    sizes = np.linalg.norm(heads.V, 2, axis=(1, 2))
    largest = max(np.linalg.eigvalsh(S)[-1], 0.0)
    return float(np.linalg.norm(heads.total, 2) + 2 * np.sqrt(largest) * (sizes @ logits))


def _accumulate(depths, gap, rates, dt: float) -> np.ndarray:
    distance = np.zeros(depths.size)
    with np.errstate(over="ignore"):
        for i, step in enumerate(np.diff(depths)):
            value = distance[i]
            if dt:
                # Whole layers between two samples share what was found at the first.
                for _ in range(round(step / dt)):
                    value = _product(1 + dt * rates[i], value) + dt * gap[i]
            else:
                rate, push = (rates[i] + rates[i + 1]) / 2, (gap[i] + gap[i + 1]) / 2
                growth = rate * step
                share = step * (np.expm1(growth) / growth if growth else 1.0)
                value = _product(np.exp(growth), value) + _product(share, push)
            distance[i + 1] = value
    return distance


def _product(factor: float, value: float) -> float:
    # Nothing grows to nothing, however fast.
    return factor * value if value else 0.0
