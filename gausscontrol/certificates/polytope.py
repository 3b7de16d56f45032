"""One Lyapunov matrix for a polytope of parameters (Theory 4.5, 7.1a).

    P > 0,   J_ijk^T P + P J_ijk < 0   for every triple (A_i, V_j, B_k)

J_ijk is the covariance linearisation at one fixed Sigma*. It is affine in A, in the stack of all
V_h and in the stack of all B_h, so the inequality at the triples of vertices is the inequality for
every A, V and B in the three convex hulls. Coordinates are svec, whitened at Sigma*; continuous
depth.

What this says of the nonlinear system depends on Sigma*. F and T are affine in the same sense, so
their norms over the polytope are bounded by those at the triples, and Newton and Kantorovich's
theorem may prove an equilibrium near Sigma* for every model of the polytope at once. Where it does,
and P has enough margin for the way there, each of these equilibria is locally exponentially stable.
Otherwise only the linearisations at Sigma* are spoken of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.base import at_most
from gausscontrol.certificates.linearisation import in_whitened_svec, lyapunov_solution
from gausscontrol.errors import NotCertified, ParameterError, SolverError
from gausscontrol.linalg.arrays import symmetric_matrix
from gausscontrol.linalg.lmi import Program
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "PolytopeEvidence",
    "check_polytope",
    "common_lyapunov",
    "given_lyapunov",
    "polytope_statement",
    "polytope_triples",
]

# Triples beyond which a common P is not looked for.
LARGEST_POLYTOPE = 64
# Size of the linearisation up to which the semidefinite programme is posed; d = 6.
LARGEST_SIZE = 21
# Lyapunov equations of weighted means that are solved before it.
ROUNDS = 30
# Whitened distance from Sigma* up to which equilibria of the polytope are looked for.
LARGEST_SHIFT = 0.5


class PolytopeEvidence(NamedTuple):
    """What a check of one P over a polytope found; it holds if the margin is positive.

    `margin` is the decay left, per unit depth with |P| = 1, at the worst triple. With `equilibria`
    every model of the polytope is proven to have one equilibrium within `radius` of Sigma*
    (whitened Frobenius norm), locally exponentially stable; without it only the linearisations at
    Sigma* are meant.
    """

    margin: float
    equilibria: bool
    radius: float
    data: dict[str, Any]


def polytope_triples(
    model: GaussianTransformer, vertices: Sequence[GaussianTransformer]
) -> list[GaussianTransformer]:
    """Return the model and the models of all triples (A_i, V_j, B_k).

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    vertices : sequence of GaussianTransformer
        Of the same dimension, and the same number of heads among themselves; b and k play no part.

    Returns
    -------
    list of GaussianTransformer
        Equal A, V or B are counted once.

    Raises
    ------
    ParameterError
        If `vertices` are no such models, depth is discrete, where the linearisation is not affine
        in the parameters, or there are more than 64 triples.
    """
    try:
        vertices = list(vertices)
    except TypeError:
        vertices = [vertices]
    if not vertices or not all(isinstance(v, GaussianTransformer) for v in vertices):
        others = (v for v in vertices if not isinstance(v, GaussianTransformer))
        found = sorted({type(v).__name__ for v in others}) or ["nothing"]
        raise ParameterError(
            f"vertices: expected at least one GaussianTransformer, found {', '.join(found)}; "
            "pass a list such as [model.replace(A=A1), model.replace(A=A2)]"
        )
    for vertex in vertices:
        shape = (vertex.dim, vertex.n_heads)
        if shape != (model.dim, vertices[0].n_heads):
            raise ParameterError(
                f"vertices: expected d = {model.dim} and {vertices[0].n_heads} heads each, found "
                f"d = {shape[0]} and {shape[1]} heads; add heads of zeros where some are missing"
            )
    if any(m.dt for m in (model, *vertices)):
        raise ParameterError(
            "vertices: expected continuous depth, dt = 0, found dt > 0, where the linearisation is "
            "not affine in the parameters; certify each model by itself"
        )
    A, V, B = (_distinct([getattr(v, key) for v in vertices]) for key in "AVB")
    count = len(A) * len(V) * len(B)
    if count > LARGEST_POLYTOPE:
        raise ParameterError(
            f"vertices: expected at most {LARGEST_POLYTOPE} triples of A, V and B, found "
            f"{len(A)} x {len(V)} x {len(B)} = {count}; vary fewer matrices, or bound their change "
            "with robustness_radius"
        )
    triples = [GaussianTransformer(a, b, v) for a in A for v in V for b in B]
    plain = GaussianTransformer(model.A, model.B, model.V)
    return triples if plain in triples else [plain, *triples]


def common_lyapunov(
    model: GaussianTransformer, Sigma: np.ndarray, vertices: Sequence[GaussianTransformer]
) -> tuple[np.ndarray, PolytopeEvidence]:
    """Find one P for all triples and the model itself.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Positive definite, the point of the linearisations. [x]^2
    vertices : sequence of GaussianTransformer

    Returns
    -------
    (n, n) ndarray, PolytopeEvidence
        P in whitened svec coordinates, |P| = 1, and its check, whose margin is positive.

    Raises
    ------
    NotCertified
        If there is no such P, or none was found.
    ParameterError
        As in `polytope_triples`.

    Notes
    -----
    Theory 7.1a. The Lyapunov solutions of the model and of means of all J, weighted towards the
    worst triple, are tried first; only where they fail is the semidefinite programme posed, up to
    d = 6.
    """
    models = polytope_triples(model, vertices)
    J = np.stack([dense_operator(m.whiten(Sigma)) for m in models])
    best: tuple[np.ndarray, PolytopeEvidence] | None = None
    for P in _candidates(J):
        evidence = _check(models, Sigma, P)
        if best is None or evidence.margin > best[1].margin:
            best = P, evidence
        if evidence.margin > 0:
            return P, evidence
    found = best[1] if best else None
    raise NotCertified(_shortfall(J, found), margin=found.margin if found else None)


def check_polytope(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    vertices: Sequence[GaussianTransformer],
    P: np.ndarray,
) -> PolytopeEvidence:
    """Check one P, in whitened svec coordinates, at all triples and the model itself."""
    return _check(polytope_triples(model, vertices), Sigma, P)


def polytope_statement(count: int, radius: float) -> str:
    """Say what a common P certifies for a number of vertices, with a finite radius or without."""
    if np.isfinite(radius):
        return (
            f"every model with A, V and B in the convex hulls of the {count} vertices "
            f"has an equilibrium of the covariance within {at_most(radius)} of the given one "
            "(whitened), and it attracts every covariance near it, exponentially"
        )
    return (
        "the linearisations at the given covariance of all models with A, V and B in the convex "
        f"hulls of the {count} vertices share one Lyapunov matrix; each vertex may have "
        "its equilibrium elsewhere"
    )


def given_lyapunov(value: Any, model: GaussianTransformer, Sigma: np.ndarray) -> np.ndarray:
    """Read the user's own Lyapunov matrix.

    Parameters
    ----------
    value : (n, n) array_like
        In vech coordinates, n = d(d+1)/2.
    model : GaussianTransformer
    Sigma : (d, d) ndarray
        Positive definite. [x]^2

    Returns
    -------
    (n, n) ndarray
        In whitened svec coordinates, |P| = 1.

    Raises
    ------
    NotCertified
        If it is not positive definite.
    ParameterError
        If it is no symmetric n x n matrix.
    """
    size = model.dim * (model.dim + 1) // 2
    P = in_whitened_svec(symmetric_matrix(value, "lyapunov_matrix", size), Sigma)
    norm = float(np.linalg.norm(P, 2))
    lowest = float(np.linalg.eigvalsh(P)[0]) / (norm or 1.0)
    if not lowest > 8 * size * EPS:
        raise NotCertified(
            f"lyapunov_matrix: expected a positive definite matrix, found smallest eigenvalue "
            f"{lowest:.3g} of its norm in whitened coordinates; pass P > 0 in vech coordinates",
            margin=min(lowest, 0.0),
        )
    return P / norm


def _shortfall(J: np.ndarray, evidence: PolytopeEvidence | None) -> str:
    """Say why no common P was found, for linearisations J of shape (m, n, n)."""
    worst = max(float(np.linalg.eigvals(j).real.max()) for j in J)
    mean = float(np.linalg.eigvals(J.mean(axis=0)).real.max())
    if worst >= 0:
        reason = f"a triple is unstable by itself, with abscissa {worst:.4g}"
    elif mean >= 0:
        reason = f"the mean of the triples is unstable, with abscissa {mean:.4g}"
    elif J.shape[1] > LARGEST_SIZE:
        reason = f"no Lyapunov equation gives one, and n = {J.shape[1]} is too large for the search"
    else:
        by = f"; the best found misses by {-evidence.margin:.3g}" if evidence else ""
        reason = f"each triple is stable, but no one P serves all of them{by}"
    return f"vertices: no common Lyapunov matrix: {reason}; shrink the polytope or split it"


def _distinct(arrays: list[np.ndarray]) -> list[np.ndarray]:
    kept: list[np.ndarray] = []
    for array in arrays:
        if not any(np.array_equal(array, other) for other in kept):
            kept.append(array)
    return kept


def _candidates(J: np.ndarray) -> Iterator[np.ndarray]:
    """Yield P > 0 that may serve all J, the cheap ones first."""
    P = _positive_solution(J[0])
    if P is not None:
        yield P
    if len(J) == 1 or any(np.linalg.eigvals(j).real.max() >= 0 for j in J):
        return
    weights = np.full(len(J), 1 / len(J))
    for _ in range(ROUNDS):
        P = _positive_solution(np.tensordot(weights, J, axes=1))
        if P is None:
            break
        products = P @ J
        worst = np.linalg.eigvalsh(products + products.transpose(0, 2, 1))[:, -1]
        if worst.max() < 0:
            yield P
            break
        # Multiplicative weights: what is served worst counts more in the next mean.
        weights *= np.exp((worst - worst.max()) / np.abs(worst).max())
        weights /= weights.sum()
    if J.shape[1] <= LARGEST_SIZE:
        P = _common(J)
        if P is not None:
            yield P


def _positive_solution(J: np.ndarray) -> np.ndarray | None:
    """Return the P of J^T P + P J = -I, scaled to |P| = 1, or None if it is not positive."""
    try:
        P = lyapunov_solution(J)
    except NotCertified:
        return None
    return P if np.linalg.eigvalsh(P)[0] > 0 else None


# maximise t  subject to  0 < P <= I,  J_i^T P + P J_i <= -t |J| I  for all i
def _common(J: np.ndarray) -> np.ndarray | None:
    """Return the P with the largest decay at the worst triple, |P| <= 1, or None."""
    size = len(J[0])
    scale = max(np.linalg.norm(j, 2) for j in J)
    program = Program("common Lyapunov matrix")
    P, t = program.symmetric(size), program.scalar()
    program.above(P)
    program.below(P - np.eye(size))
    for j in J / scale:
        program.below(j.T @ P + P @ j + t * np.eye(size))
    try:
        solution = program.solve(maximise=t)
    except SolverError:
        return None
    value = solution[P]
    norm = np.linalg.norm(value, 2)
    return value / norm if norm > 0 else None


def _check(models: list[GaussianTransformer], Sigma: np.ndarray, P: np.ndarray) -> PolytopeEvidence:
    """Evaluate P at all models, |P| = 1, and where their equilibria must be."""
    P = symmetrise(P) / (np.linalg.norm(P, 2) or 1.0)
    unit = 8 * len(P) * EPS
    lowest = float(np.linalg.eigvalsh(P)[0])
    points = [WhitenedPoint(m, Sigma) for m in models]
    decays, slacks = [], []
    for point in points:
        J = dense_operator(point.white)
        product = P @ J
        decays.append(-float(np.linalg.eigvalsh(product + product.T)[-1]))
        error = 2 * (point.drift_error + point.attention_error)
        slacks.append(2 * error + 2 * unit * float(np.linalg.norm(J)))
    strength = min(d - s for d, s in zip(decays, slacks, strict=True))
    data = {"triples": len(models), "lowest_eigenvalue": lowest, "decay": min(decays)}
    if not lowest > unit:
        return PolytopeEvidence(min(lowest - unit, strength), False, np.inf, data)
    if not strength > 0:
        return PolytopeEvidence(strength, False, np.inf, data)
    # On the whole polytope |L^-1| <= 2 |P| / strength.
    beta = 2 / strength
    eta = beta * max(np.linalg.norm(p.asymmetry) + 2 * p.drift_error for p in points)
    bound = max(p.bound + p.attention_error for p in points)
    product = 4 * bound * beta * eta
    if not product <= 0.5:
        return PolytopeEvidence(strength, False, np.inf, data)
    radius = float(2 * eta / (1 + np.sqrt(1 - 2 * product)))
    # Within the radius J differs by at most 4 bound radius.
    left = strength - 8 * bound * radius
    if radius < LARGEST_SHIFT and left > 0:
        offset = max(p.offset for p in points)
        return PolytopeEvidence(left, True, radius + offset, data)
    return PolytopeEvidence(strength, False, np.inf, data)
