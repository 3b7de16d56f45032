"""Rows of the benchmark table about design: seconds to a certified model, for each free set.

Beside it stands what a cvxpy user writes for the same question: one bare problem in whitened
coordinates, with no certificate, no norm bounds beyond the given one and no mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import cvxpy as cp
import numpy as np

from benchmarks.problems import settling_model
from benchmarks.table import Row
from benchmarks.timing import compare, seconds
from gausscontrol import GaussianTransformer
from gausscontrol.synthesis.design import design

__all__ = ["DESIGN_ROWS", "convex_design", "heads_design"]

SIZES = (2, 3, 4, 6, 8)
# A certified design takes two solves, a correction and a check; as a multiple of one bare solve.
MULTIPLE = 8.0
# Seconds within which V and B together should be found.
HEADS_SECONDS = {2: 1.0, 3: 2.0, 4: 5.0, 6: 20.0, 8: 60.0}
BOUND = 100.0


def convex_design() -> Iterator[Row]:
    """One of V and B free, A too where it is: certified, against one bare cvxpy problem."""
    for dim in SIZES:
        model, Sigma = settling_model(dim)
        target = (np.zeros(dim), Sigma)
        white = model.whiten(Sigma)
        for free in (("V",), ("B",), ("A", "V"), ("A", "B")):
            given = {name: getattr(model, name) for name in "ABV" if name not in free}
            rate = {"decay_rate": 0.2} if "A" in free else {}
            timed = compare(
                lambda: design(target, free=free, **given, **rate),
                lambda: plain_design(white, free),
                3 if dim < 8 else 1,
            )
            found = design(target, free=free, **given, **rate)
            note = f"{found.decay_rate / found.optimal_rate:.0%} of the optimal rate"
            if np.isnan(plain_design(white, free)):
                note += "; the bare solve fails"
            yield Row(
                f"design, {' and '.join(free)} free", dim, timed.ours, timed.theirs,
                "one bare cvxpy solve", f"<={MULTIPLE:g}x", timed.ratio >= 1 / MULTIPLE, note,
            )  # fmt: skip


def heads_design() -> Iterator[Row]:
    """V and B free: the search for few heads, against its time limit."""
    for dim in SIZES:
        _, Sigma = settling_model(dim)
        rng = np.random.default_rng(dim)
        A = rng.normal(size=(dim, dim))
        A += (0.5 - np.trace(A) / dim) * np.eye(dim)
        target = (np.zeros(dim), Sigma)
        found = design(target, A=A, free=("V", "B"))
        ours = seconds(lambda: design(target, A=A, free=("V", "B")), 1)
        limit = HEADS_SECONDS[dim]
        heads = found.model.n_heads - found.mean_heads
        note = f"{heads} heads, {found.decay_rate / found.optimal_rate:.0%} of the optimal rate"
        yield Row(
            "design, V and B free", dim, ours, limit, "time limit", f"<={limit:g} s",
            ours <= limit, note,
        )  # fmt: skip


def plain_design(white: GaussianTransformer, free: tuple[str, ...]) -> float:
    """Solve Theory 7 as one types it: every entry of the equality, one constraint per line.

    NaN where the solver fails, as it does now and then at d = 8.
    """
    dim = white.dim
    A, B, V = white.A, white.B[0], white.V[0]
    alpha = cp.Variable()
    constraints = []
    if "A" in free:
        A = cp.Variable((dim, dim))
        alpha = 0.1
    if "V" in free:
        V = cp.Variable((dim, dim))
        constraints.append(cp.sigma_max(V) <= BOUND)
    else:
        B = cp.Variable((dim, dim))
        constraints.append(cp.sigma_max(B) <= BOUND)
    drift = A + V @ B
    basis = symmetric_basis(dim)
    form = basis.T @ cp.kron(V, B.T) @ basis
    constraints += [drift + drift.T == 0, form + form.T << -2 * alpha * np.eye(basis.shape[1])]
    goal = cp.Minimize(cp.norm(A, "fro")) if "A" in free else cp.Maximize(alpha)
    problem = cp.Problem(goal, constraints)
    with warnings.catch_warnings():
        # As a bare solve ends now and then; nothing here looks at the point.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        try:
            problem.solve(solver="CLARABEL")
        except cp.SolverError:
            return np.nan
    return float(problem.value)


def symmetric_basis(dim: int) -> np.ndarray:
    """Return an orthonormal basis of the symmetric matrices as columns (d^2, n), row-major."""
    columns = []
    for i in range(dim):
        for j in range(i + 1):
            E = np.zeros((dim, dim))
            E[i, j] = E[j, i] = 1.0 if i == j else np.sqrt(0.5)
            columns.append(E.reshape(-1))
    return np.stack(columns, axis=1)


DESIGN_ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "convex-design": convex_design,
    "heads-design": heads_design,
}
