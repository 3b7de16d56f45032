"""A sum-of-squares bound on the region of attraction (Theory 4.6, 4.8).

    -V'/level = sigma(y) (1 - |y|^2) + tr(S(y) Sigma) + z^T G z + alpha |y|^2,   z = (y, y (x) y)

in coordinates y where the set {V < level} is the unit ball, |y|^2 = V/level. If the Gram matrices
of sigma, S and G are positive semidefinite, V' <= -alpha V there. The largest level is a root of
alpha, each value of which is one semidefinite programme. The check needs no solver: both sides are
compared monomial by monomial in NumPy, and what does not match, what the Gram matrices lack and
what rounding may hide is subtracted from alpha.

Assumptions: continuous depth; svec(E) = scale C y for the whitened E = Sigma - Sigma* around the
exact equilibrium, where scale^2 is the level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.errors import SolverError
from gausscontrol.linalg.lmi import Program
from gausscontrol.linalg.lmi import svec as svec_of
from gausscontrol.linalg.polynomials import Polynomial, monomials, product_map
from gausscontrol.linalg.sos import Identity, gram_map, matrix_gram_map
from gausscontrol.linalg.symmetric import smat, svec, symmetric_size, vech_index
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "LARGEST_DIM",
    "LARGEST_PROGRAM",
    "LocalField",
    "Witness",
    "certified_decay",
    "explicit",
    "level_identity",
    "search",
]

EPS = float(np.finfo(float).eps)
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


@dataclass(frozen=True, eq=False)
class Witness:
    """The ingredients of an identity; the check trusts none of them.

    Attributes
    ----------
    coordinates : (n, n) ndarray
        C, with C^T P C = I.
    multiplier : (n, n) ndarray
        Gram matrix of sigma on y.
    cone : (n d, n d) ndarray
        Gram matrix of S, S(y)_jk = sum_ab y_a y_b cone[a d + j, b d + k].
    gram : (N, N) ndarray
        G on z = (y, svec(y y^T)), N = n + n(n + 1)/2.
    rate : float
        alpha. [1/t]
    """

    coordinates: np.ndarray
    multiplier: np.ndarray
    cone: np.ndarray
    gram: np.ndarray
    rate: float

    @property
    def unknowns(self) -> np.ndarray:
        """All of them as the vector that `level_identity` takes."""
        pieces = [svec(matrix) for matrix in (self.multiplier, self.cone, self.gram)]
        return np.concatenate([*pieces, [self.rate]])


class LocalField:
    """The covariance equation around the exact equilibrium, in coordinates y.

        y' = J y + scale N(y),   N quadratic

    Parameters
    ----------
    point : WhitenedPoint
    radius : float
        Whitened distance within which the exact equilibrium lies.
    coordinates : (n, n) ndarray
        C, invertible.

    Attributes
    ----------
    J : (n, n) ndarray
        [1/t]
    N : (n, n, n) ndarray
        N(y)_i = sum_jk N_ijk y_j y_k, symmetric in j and k. [1/t]
    matrices : (d, d, n) ndarray
        smat of the columns of C.
    errors : (float, float)
        Bounds on |J - exact| and on |N(y) - exact| for |y| = 1; infinite if C is singular to
        working precision.
    """

    def __init__(self, point: WhitenedPoint, radius: float, coordinates: np.ndarray) -> None:
        self.coordinates = C = coordinates
        self.radius, self.dim = radius, point.white.dim
        inverse = np.linalg.inv(C)
        J, N = dense_operator(point.white), quadratic_part(point.white)
        self.J = inverse @ J @ C
        self.N = np.einsum("ia,abc,bj,ck->ijk", inverse, N, C, C, optimize=True)
        self.matrices = smat(C)
        self.size = size = float(np.linalg.norm(C))
        stretch = size * float(np.linalg.norm(inverse))
        unit = 8 * len(C) * EPS
        lost = float(np.linalg.norm(inverse @ C - np.eye(len(C)))) + unit * stretch
        lost = lost / (1 - lost) if lost < 0.5 else np.inf
        # J changes by at most 4 sum_h |V_h| |B_h| radius on the way to the exact equilibrium.
        moved = 4 * (point.bound + point.attention_error) * radius
        moved += 2 * (point.drift_error + point.attention_error)
        error_J = moved + (lost + unit) * float(np.linalg.norm(J))
        # The terms of N may cancel; each is at most the sum of |V_h| |B_h|.
        terms = float(np.linalg.norm(N)) + 2 * point.bound
        error_N = 2 * point.attention_error + (lost + len(C) * unit) * terms
        self.errors = stretch * (1 + lost) * error_J, stretch * size * (1 + lost) * error_N


def quadratic_part(white: GaussianTransformer) -> np.ndarray:
    """Return N (n, n, n) with svec(T(E) E + E T(E)^T)_i = sum_jk N_ijk e_j e_k, e = svec(E)."""
    basis = np.moveaxis(smat(np.eye(white.dim * (white.dim + 1) // 2)), -1, 0)
    images = np.stack([white.attention(E) for E in basis])
    products = np.einsum("jab,kbc->acjk", images, basis)
    products = products + products.transpose(0, 1, 3, 2)
    return svec((products + products.transpose(1, 0, 2, 3)) / 2)


def level_identity(field: LocalField, scale: float) -> Identity:
    """Return the identity of this module at one scale, level = scale^2.

    Parameters
    ----------
    field : LocalField
    scale : float

    Returns
    -------
    Identity
        Unknowns svec of the Gram matrices of sigma, S and G, then alpha; one row for every
        monomial of degree 2 to 4.
    """
    n, d = len(field.J), field.dim
    linear, both = monomials(n, 1, 1), monomials(n, 1, 2)
    norm = Polynomial.quadratic(np.eye(n))
    ball = Polynomial.constant(n, 1.0) - norm
    Sigma = [
        [Polynomial.linear(scale * field.matrices[j, k], float(j == k)) for k in range(d)]
        for j in range(d)
    ]
    decay = Polynomial.quadratic(-field.J - field.J.T)
    for row, N in zip(np.eye(n), field.N, strict=True):
        decay = decay - 2 * scale * (Polynomial.linear(row) * Polynomial.quadratic(N))
    maps = [
        product_map(ball, 2) @ gram_map(linear),
        matrix_gram_map(linear, Sigma),
        gram_map(both),
        norm.coefficients,
    ]
    return Identity(n, maps, decay)


def certified_decay(field: LocalField, scale: float, witness: Witness) -> float:
    """Check an identity: return a rate alpha > 0 with V' <= -alpha V where V < scale^2.

    Parameters
    ----------
    field : LocalField
        In the coordinates of the witness.
    scale : float
    witness : Witness

    Returns
    -------
    float
        For the exact model around its exact equilibrium; at most zero if the check fails. [1/t]

    Notes
    -----
    Theory 4.6, 9.1. On |y| <= 1 every form of degree 2 or more is at most its norm times |y|^2,
    so that alpha pays for mismatches. A Gram matrix may lack a little, too: no matrix has to be
    positive definite.
    """
    identity, unknowns = level_identity(field, scale), witness.unknowns
    # The entries of the identity are products of a few rounded factors.
    residual = np.abs(identity.residual(unknowns)) + 8 * identity.rounding(unknowns)
    degrees = monomials(len(field.J), 0, 4).exponents.sum(axis=1)[identity.positions]
    mismatch = sum(np.linalg.norm(residual[degrees == k]) for k in (2, 3, 4))

    lack_sigma, lack_S, lack_G = (
        _shortfall(matrix) for matrix in (witness.multiplier, witness.cone, witness.gram)
    )
    d, n = field.dim, len(field.J)
    # tr Sigma on the ball, and tr S(y) / |y|^2; S meets I + E where Sigma is Sigma* + E.
    trace = d + np.sqrt(d) * (field.radius + scale * field.size)
    weight = np.einsum("aibi->ab", witness.cone.reshape(n, d, n, d))
    shift = field.radius * (max(float(np.linalg.eigvalsh(weight)[-1]), 0.0) + 2 * d * lack_S)
    error_J, error_N = field.errors
    loss = mismatch + lack_sigma + lack_S * trace + 2 * lack_G + shift
    return float(witness.rate - loss - 2 * (error_J + scale * error_N))


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


def _shortfall(matrix: np.ndarray) -> float:
    """Bound how far a symmetric matrix is from positive semidefinite."""
    rounding = 8 * len(matrix) * EPS * float(np.linalg.norm(matrix))
    return max(-float(np.linalg.eigvalsh(matrix)[0]), 0.0) + rounding
