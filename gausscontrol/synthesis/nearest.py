"""Designs of V and B that stay near a model (Theory 7b).

    distance^2 = sum_h |V_h - V0_h|_F^2 + w^2 |B_h - B0_h|_F^2,   w = |V0| tr(Sigma*) / d

with |V0| the mean spectral norm of the model's value matrices, so that both terms have the unit
of V. In V and B together the problem is not convex; with one of them kept at the model's it is,
and these two designs are what a search has to beat.

Assumption: a head that only one side has counts as V = 0, B = 0 on the other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gausscontrol.errors import InfeasibleDesign, SolverError
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.synthesis.design_completion import complete
from gausscontrol.synthesis.design_problem import ConvexDesign
from gausscontrol.synthesis.design_reasons import check_constraints
from gausscontrol.synthesis.design_request import Request
from gausscontrol.synthesis.design_result import Design

__all__ = ["designs_near", "distance_from"]


def designs_near(request: Request) -> list[Design]:
    """Return the nearest designs that change V alone and B alone.

    Parameters
    ----------
    request : Request
        With free=("V", "B") and an `initial` model.

    Returns
    -------
    list of Design
        Those of the two that exist and are certified.
    """
    found = [_change(request, unknown) for unknown in ("V", "B")]
    return [des for des in found if des is not None]


def distance_from(
    initial: GaussianTransformer, model: GaussianTransformer, Sigma: np.ndarray
) -> float:
    """Return the distance of this module between two models.

    Parameters
    ----------
    initial, model : GaussianTransformer
    Sigma : (d, d) ndarray
        The target covariance. [x]^2

    Returns
    -------
    float
        [1/t]
    """
    size = float(np.linalg.norm(initial.V, 2, axis=(1, 2)).mean())
    weight = size * float(np.trace(Sigma)) / len(Sigma)
    moved = [_moved(getattr(initial, name), getattr(model, name)) for name in ("V", "B")]
    return float(np.hypot(moved[0], weight * moved[1]))


def _moved(before: np.ndarray, after: np.ndarray) -> float:
    count = max(len(before), len(after))
    both = np.zeros((2, count, *before.shape[1:]))
    both[0, : len(before)], both[1, : len(after)] = before, after
    return float(np.linalg.norm(both[1] - both[0]))


def _change(request: Request, unknown: str) -> Design | None:
    """Return the nearest design with the other matrix kept, None if none is certified."""
    kept = "B" if unknown == "V" else "V"
    value = getattr(request.initial, kept)
    bound = request.bounds.get(kept, np.inf)
    if not request.default_bounds and np.linalg.norm(value, 2, axis=(1, 2)).max() > bound:
        return None
    part = replace(
        request,
        free=(unknown,),
        fixed={**request.fixed, kept: value},
        bounds={name: bound for name, bound in request.bounds.items() if name == unknown},
        n_heads=None,
    )
    # Where V cannot carry the mean too, a head of its own does.
    for mean in (True, False) if unknown == "V" else (False,):
        try:
            candidate = ConvexDesign(part, part.whitened(kept), unknown, mean=mean).solve()
            check_constraints(request, candidate)
            des = complete(part, candidate)
        except (SolverError, InfeasibleDesign):
            continue
        return replace(des, free=request.free, bounds=request.bounds)
    return None
