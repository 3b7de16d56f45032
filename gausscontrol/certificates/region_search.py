"""The search for the largest level of a region by sums of squares (Theory 4.6, 4.8).

    maximise level   over   sigma, S, G >= 0   with   alpha > 0

in the identity of `region_identity`. The largest level is a root of alpha, each value of which is
one semidefinite programme; for a simple kind of sigma, with S = 0, it is known in closed form.
Nothing here is taken on trust: what is returned has passed `certified_decay`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse

from gausscontrol.certificates.region_identity import (
    LocalField,
    Witness,
    certified_decay,
    level_identity,
)
from gausscontrol.errors import SolverError
from gausscontrol.linalg.lmi import Program
from gausscontrol.linalg.lmi import svec as svec_of
from gausscontrol.linalg.polynomials import monomials
from gausscontrol.linalg.symmetric import svec, symmetric_size, vech_index

__all__ = ["LARGEST_DIM", "LARGEST_PROGRAM", "explicit", "search"]

# G has 65 rows at d = 4, 135 at d = 5, where a search takes minutes, and 702 at d = 8.
LARGEST_PROGRAM = 5
LARGEST_DIM = 8
# From this size on a first-order method is faster: 1 s against 12 s for one programme at d = 4.
# The check says whether it was accurate enough.
SPLITTING_DIM = 4
SPLITTING = {"eps_abs": 1e-6, "eps_rel": 1e-6, "max_iters": 20_000}
# Share of the largest alpha, that near the equilibrium, which is left at the level returned.
RESERVE = 1e-3
# A scale this small against |E| = 1, where matrices become singular, is none.
SMALLEST = 1e-9
# The scale is found to this relative accuracy.
ACCURACY = 0.01
# Where the check needs more than the reserve, the scale gives way by this factor, a few times.
RETREAT = 0.97
RETREATS = 6


def search(field: LocalField) -> tuple[float, Witness] | None:
    """Search the largest scale at which an identity is found and passes its check.

    Parameters
    ----------
    field : LocalField

    Returns
    -------
    (float, Witness) or None
        None if no scale passes.
    """
    solve = _compiled(field)
    local = solve(0.0)
    if local is None or not local.rate > 0:
        return None
    goal = RESERVE * local.rate
    lower, upper = 0.0, _touching_scale(field.coordinates)
    above, below = local.rate - goal, -np.inf
    best, moves = local, [True, False]
    while upper > (1 + ACCURACY) * lower:
        # The secant moves one end only where alpha bends; every third time the bracket is halved.
        stalled = moves[-1] == moves[-2]
        trial = _between(lower, upper, above, -np.inf if stalled else below)
        found = solve(trial)
        passes = found is not None and found.rate > goal
        if passes:
            lower, above, best = trial, found.rate - goal, found
        else:
            upper, below = trial, found.rate - goal if found else -np.inf
        moves = [True, False] if stalled else [*moves, passes]
        if upper < SMALLEST:
            return None
    for _ in range(RETREATS):
        if best is not None and certified_decay(field, lower, best) > 0:
            return lower, best
        lower *= RETREAT
        best = solve(lower)
    return None


def explicit(field: LocalField) -> tuple[float, Witness] | None:
    """Return a scale and an identity in closed form: sigma = mu |y|^2 and S = 0.

    With K the symmetric tensor of y^T N(y) as an n x n(n+1)/2 matrix it needs

        -J - J^T - (mu + alpha) I >= (scale^2 / mu) K K^T

    and the mu that allows the largest scale is found by trying some.

    Parameters
    ----------
    field : LocalField

    Returns
    -------
    (float, Witness) or None
        None if no scale passes.
    """
    n, d = len(field.J), field.dim
    pairs = vech_index(n)
    orders = ((0, 1, 2), (1, 0, 2), (1, 2, 0))  # N is symmetric in its last two subscripts
    tensor = sum(field.N.transpose(order) for order in orders) / 3
    K = tensor[:, pairs.rows, pairs.columns] * pairs.weight
    values, vectors = np.linalg.eigh(-field.J - field.J.T)
    if not values[0] > 0:
        return None
    alpha, turned = RESERVE * float(values[0]), vectors.T @ K

    def reach(mu: float) -> float:
        rows = turned / np.sqrt(values - mu - alpha)[:, None]
        return float(np.sqrt(mu) / np.linalg.norm(rows, 2))

    mu = max(values[0] * np.linspace(0.02, 0.98, 49), key=reach)
    scale = (1 - 1e-6) * reach(mu)
    for _ in range(RETREATS):
        corner = -field.J - field.J.T - (mu + alpha) * np.eye(n)
        gram = np.block([[corner, -scale * K], [-scale * K.T, mu * np.eye(K.shape[1])]])
        empty = np.zeros((n * d, n * d))
        witness = Witness(field.coordinates, mu * np.eye(n), empty, gram, alpha)
        if certified_decay(field, scale, witness) > 0:
            return scale, witness
        scale *= RETREAT
    return None


def _between(lower: float, upper: float, above: float, below: float) -> float:
    """Return the scale where the secant of alpha vanishes, or the middle if `below` is -inf."""
    if not np.isfinite(below):
        return float(np.sqrt(lower * upper)) if lower > 0 else upper / 4
    secant = lower + (upper - lower) * above / (above - below)
    # Half the accuracy away from both ends, so that a good secant closes the bracket at once.
    step = 1 + ACCURACY / 2
    return float(np.clip(secant, lower * step, upper / step))


def _touching_scale(coordinates: np.ndarray) -> float:
    """Bound from above the scale at which {V < level} meets singular matrices.

    No identity exists beyond. u^T (I + E) u = 0 happens first at |C^T svec(u u^T)| scale = 1, for
    any unit vector u.
    """
    d = symmetric_size(len(coordinates))
    units = np.random.default_rng(0).standard_normal((64 * d, d))
    units /= np.linalg.norm(units, axis=1)[:, None]
    squares = svec(np.einsum("ki,kj->ijk", units, units))
    return float(1 / np.linalg.norm(coordinates.T @ squares, axis=0).max())


# maximise  alpha   over Gram matrices  sigma >= 0, S >= 0, G >= 0
# subject to, for every monomial of y,
#     -y^T (J + J^T) y - 2 scale y^T N(y)
#         = sigma(y) (1 - |y|^2) + tr(S(y) (I + scale smat(C y))) + z^T G z + alpha |y|^2
def _compiled(field: LocalField) -> Callable[[float], Witness | None]:
    """Return the function scale -> solution, compiled once: the identity is affine in the scale."""
    n, d = len(field.J), field.dim
    base, unit = level_identity(field, 0.0), level_identity(field, 1.0)
    program = Program("region of attraction")
    scale = program.parameter(nonneg=True)
    matrices = [program.gram(size) for size in (n, n * d, len(monomials(n, 1, 2)))]
    alpha = program.vector(1)
    unknowns = [*(svec_of(matrix) for matrix in matrices), alpha]
    pieces = np.split(np.arange(sum(base.sizes)), np.cumsum(base.sizes)[:-1])

    def defect(matrix: scipy.sparse.csr_array, target: np.ndarray):
        matrix = scipy.sparse.csc_matrix(matrix)
        terms = (matrix[:, piece] @ x for piece, x in zip(pieces, unknowns, strict=True))
        return sum(terms) - target

    slope = defect(unit.matrix - base.matrix, unit.target - base.target)
    program.equal(defect(base.matrix, base.target) + scale * slope)
    objective = alpha[0]
    solver, options = ("SCS", SPLITTING) if d >= SPLITTING_DIM else ("CLARABEL", None)

    def solve(value: float) -> Witness | None:
        scale.value = value
        try:
            found = program.solve(maximise=objective, solver=solver, options=options)
        except SolverError:
            # Without a usable point a scale counts as too large.
            return None
        grams = (found[X] for X in matrices)
        return Witness(field.coordinates, *grams, rate=float(found[alpha][0]))

    return solve
