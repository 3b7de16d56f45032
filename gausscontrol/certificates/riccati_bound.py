"""Boundedness where every value matrix is a multiple of the identity (Theory 3.2, 5.1).

    V_h = v_h I,   G = sum_h v_h (B_h + B_h^T) <= 0,   P > 0,   P A + A^T P + G < 0
    =>   Sigma <= P^-1 from some depth on, whatever the start is

For y = lambda_max(P^(1/2) Sigma P^(1/2)) and its unit eigenvector u, in the coordinates P^(1/2) x,
y' = y u^T (A + A^T + y G) u. As G <= 0, this is at most y u^T (A + A^T + G) u where y >= 1: so y
falls below 1 at a finite depth and stays there. No margin is asked of G <= 0, which is decided with
integers: a singular G draws covariances in if A turns what it does not see into what it sees.

P^-1 = X solves the Riccati equation A X + X A^T + X G X + Q = 0 of a filter with process noise
Q > 0; the smaller Q, the nearer X is to the largest limit of Sigma.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.comparison import EPS, pencil_bounds
from gausscontrol.certificates.cone import pencil
from gausscontrol.certificates.riccati_growth import RiccatiFlow, riccati_flow
from gausscontrol.certificates.spectral import exact_riccati_decay, trace_of_inverse
from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.riccati import riccati
from gausscontrol.linalg.symmetric import is_positive_definite, symmetrise

__all__ = ["RiccatiBound", "riccati_bound", "riccati_bounds"]

# Sizes of Q that are tried, as shares of |A| |X|.
NOISES = (1e-6, 1e-4, 1e-2, 1.0)


class RiccatiBound(NamedTuple):
    """What one P shows: y' <= 2 rate y while y = lambda_max(P Sigma) is at least 1.

    `rate` is per unit of balanced depth. `bound` and `reach` bound the limsup of tr Sigma and of
    the balanced trace. P is in original coordinates.
    """

    rate: float
    bound: float
    reach: float
    P: np.ndarray


def riccati_bounds(found: Balanced) -> Iterator[RiccatiBound]:
    """Yield what filters with more and more noise show, none unless this is the Riccati case."""
    flow = riccati_flow(found) if exact_riccati_decay(found) else None
    if flow is None or not flow.G.any():
        return
    values, vectors = np.linalg.eigh(-flow.G)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    size = float(np.linalg.norm(flow.A))
    for noise in NOISES:
        Q = noise * size**2 / values[-1] * np.eye(found.dim)
        try:
            X = riccati(flow.A.T, root, Q).solution
        except MatrixEquationError:
            continue
        if is_positive_definite(X):
            shown = _evaluated(found, flow, symmetrise(np.linalg.inv(X)))
            if shown.rate < 0:
                yield shown


def riccati_bound(found: Balanced, P: np.ndarray) -> RiccatiBound | None:
    """Return what a P in original coordinates shows, or None unless this is the Riccati case."""
    flow = riccati_flow(found) if exact_riccati_decay(found) else None
    return None if flow is None else _evaluated(found, flow, flow.from_original(P))


def _evaluated(found: Balanced, flow: RiccatiFlow, P: np.ndarray) -> RiccatiBound:
    """Bound rate and traces for a P in the coordinates of the flow; infinite ones say nothing."""
    linear, _, error = pencil(P, flow.A)
    error += flow.error + EPS * float(np.linalg.norm(flow.G))
    _, high = pencil_bounds(linear + flow.G, P, error)
    bound = reach = np.inf
    if np.isfinite(high):
        bound = trace_of_inverse(P, flow.scale)
        reach = trace_of_inverse(P, flow.scale / found.scale)
    return RiccatiBound(high / 2, bound, reach, flow.to_original(P))
