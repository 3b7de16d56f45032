"""The convex design problem: V_h free or B_h free, A free or given (Theory 7a, 7c).

In whitened coordinates, with T(E) = sum_h V_h E B_h and q(E) = <E, T(E)>:

    maximise alpha, or minimise norms at a given alpha, subject to
    sym(A + T(I)) = 0                      the target is an equilibrium
    q(E) <= -alpha |E|^2 for symmetric E   it attracts every covariance (4.1)
    sym(Vbar) <= -gamma I                  and the mean (2.4), where V is free
    |V_h|_2, |B_h|_2, |A|_2 <= bounds      in original coordinates

For layers of depth dt > 0 the first is A + T(I) = 0, and the second |I + dt L| <= 1 - 2 dt alpha,
which implies it.

Assumptions: matrices are normalised before a solver sees them: the given V_h or B_h to spectral
norm one (head gauge) and time by the size of A.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gausscontrol.errors import SolverError
from gausscontrol.linalg.lmi import (
    Program,
    Solution,
    constant,
    linear_image,
    spectral_norm,
    sum_squares,
)
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.synthesis.design_operators import attention_rows, form_rows, symmetric_rows
from gausscontrol.synthesis.design_point import Candidate, move_onto
from gausscontrol.synthesis.design_request import Request
from gausscontrol.synthesis.design_terms import (
    Variables,
    convex_constraints,
    convex_objective,
    violated,
)

__all__ = ["GIVEN_UP", "ConvexDesign"]

# What is asked for beyond alpha and below a bound, relative, so that it holds after rounding.
MARGIN = 1e-6
# At the fastest rate this share is given up for smaller norms.
GIVEN_UP = 1e-6
# Rates below this share of the problem's scale count as none.
LEAST_SHARE = 1e-6
# With an objective of the user's and no rate, this share of the scale is what alpha must reach.
OBJECTIVE_SHARE = 1e-2
# The mean contracts at least at this share of the scale.
MEAN_SHARE = 1e-3
# In these dimensions Clarabel is told to expect dense blocks; beyond them SCS goes first.
LARGE_DIM, LARGEST_DIM = 6, 12


class ConvexDesign:
    """The design problem with one of V and B given in whitened coordinates.

    Parameters
    ----------
    request : Request
    given : (h, d, d) ndarray
        The heads' other matrices, whitened.
    unknown : {"V", "B"}
    mean : bool
        Whether V must make the mean stable.
    bounded, constrained : bool, optional
        Whether the norm bounds and the user's constraints count.
    bounds : dict, optional
        Norm bounds in whitened coordinates to take instead of those asked for.
    """

    def __init__(
        self,
        request: Request,
        given: np.ndarray,
        unknown: str,
        *,
        mean: bool,
        bounded: bool = True,
        constrained: bool = True,
        bounds: dict[str, float] | None = None,
    ) -> None:
        self.bounds = request.bounds if bounds is None else bounds
        self.in_white = request.default_bounds if bounds is None else True
        self.request, self.given, self.unknown = request, given, unknown
        self.heads, self.dim = given.shape[0], given.shape[-1]
        sizes = np.linalg.norm(given, 2, axis=(1, 2))
        self.sizes = np.where(sizes > 0, sizes, 1.0)
        self.scale = self._scale()
        self.normal = given / self.sizes[:, None, None]
        self.units = self.scale / self.sizes
        self.program = Program("design")
        self.X = self.program.matrix(self.heads * self.dim, self.dim, unknown)
        self.free_A = "A" in request.free
        self.A = self.program.matrix(self.dim, self.dim, "A") if self.free_A else None
        self.alpha = self.program.scalar("alpha")
        self.variables = self._in_original_coordinates()
        self.user: list[Any] = []
        self._balance()
        self._decay()
        if mean:
            self._mean()
        if bounded:
            self._bound()
        if constrained and request.constraints is not None:
            self._constrain()

    # -- scaling and coordinates ------------------------------------------------------------------

    def _scale(self) -> float:
        """Return the size of A~ per unit depth, or what stands for it where A is free."""
        request = self.request
        if "A" in request.fixed:
            A = request.whitened("A")
            size = float(np.linalg.norm(A if request.dt else (A + A.T) / 2, 2))
            return size or 1.0
        if request.alpha is not None:
            return request.alpha
        sizes = [request.bounds[n] for n in ("A",) if n in request.bounds]
        if self.unknown in request.bounds:
            # |T| <= sum |V_h| |B_h|, norms in whitened coordinates being of the order of these.
            area = 1.0 if self.unknown == "V" else np.trace(request.covariance) / self.dim
            sizes.append(request.bounds[self.unknown] * area * float(self.sizes.max()))
        return min(sizes)

    def _blocks(self) -> list[Any]:
        d = self.dim
        return [self.X[h * d : (h + 1) * d, :] for h in range(self.heads)]

    def _restored(self, name: str, white: Any) -> Any:
        left = self.request.R if name == "B" else self.request.root
        return left @ white @ self.request.R

    def _in_original_coordinates(self) -> dict[str, Any]:
        """Return what the user's functions are given."""
        request, unknown = self.request, self.unknown
        other = "B" if unknown == "V" else "V"
        heads = [
            unit * self._restored(unknown, X)
            for unit, X in zip(self.units, self._blocks(), strict=True)
        ]
        given = request.fixed.get(other)
        if given is None:
            given = np.stack([request.restore(other, M) for M in self.given])
        if self.free_A:
            A = self.scale * self._restored("A", self.A)
        else:
            A = constant(request.fixed["A"])
        fixed = [constant(M) for M in given]
        return {
            "A": A,
            unknown: heads[0] if self.heads == 1 else heads,
            other: fixed[0] if self.heads == 1 else fixed,
            "alpha": self.scale * self.alpha,
        }

    # -- constraints ------------------------------------------------------------------------------

    def _balance(self) -> None:
        d, request = self.dim, self.request
        P = attention_rows(self.normal, self.unknown)
        self._T = P
        drift = linear_image(P, self.X, (d, d))
        drift = drift + (self.A if self.free_A else request.whitened("A") / self.scale)
        # The symmetric part has its upper triangle posted only; a balanced drift has no symmetry.
        if request.dt:
            self.program.equal(drift)
        else:
            self.program.equal((drift + drift.T) / 2, symmetric=True)

    def _decay(self) -> None:
        G = form_rows(self.normal, self.unknown)
        n = int(np.sqrt(G.shape[0]))
        form = linear_image(G, self.X, (n, n))
        identity = np.eye(n)
        if self.request.dt:
            step = self.request.dt * self.scale
            factor = 1 - 2 * step * self.alpha
            self.program.add([spectral_norm(identity + 2 * step * form) <= factor])
        else:
            self.program.below(form + self.alpha * identity)

    def _mean(self) -> None:
        """Post sym(Vbar) <= -gamma I, in units of the largest normalised head."""
        request, smallest = self.request, float(self.sizes.min())
        weights = smallest / self.sizes
        total = sum(w * X for w, X in zip(weights, self._blocks(), strict=True))
        unit = self.scale / smallest
        gamma = MEAN_SHARE if request.gamma is None else request.gamma / unit
        gamma *= 1 + MARGIN
        if request.dt:
            step = request.dt * unit
            self.program.add([spectral_norm(np.eye(self.dim) + step * total) <= 1 - step * gamma])
        else:
            self.program.below((total + total.T) / 2 + gamma * np.eye(self.dim))

    def _bound(self) -> None:
        for X in self._ratios():
            self.program.spectral_bound(X, 1 - MARGIN)

    def _ratios(self) -> list[Any]:
        """Return what has spectral norm at most one where the bounds hold."""
        names = [name for name in ("A", self.unknown) if name in self.bounds]
        names = [name for name in names if name != "A" or self.free_A]
        return [
            (X if self.in_white else self._restored(name, X)) / (self.bounds[name] / unit)
            for name in names
            for unit, X in self._parts(name)
        ]

    def _constrain(self) -> None:
        self.user = convex_constraints(self.request.constraints(Variables(self.variables)))
        self.program.add(self.user)

    # -- solving ----------------------------------------------------------------------------------

    def solve(self) -> Candidate:
        """Solve for the fastest rate, the smallest norms or the user's objective.

        Raises
        ------
        SolverError
            If there is no point; `status` is "infeasible" where that is what is known.
        """
        request = self.request
        if request.objective is not None:
            objective = request.objective(Variables(self.variables))
            least = self._asked() or OBJECTIVE_SHARE * self._reachable()
            return self._minimise(convex_objective(objective), least)
        if request.alpha is not None:
            return self._minimise(self.norms(), self._asked())
        fastest = self.fastest()
        try:
            return self._minimise(self.norms(), fastest.alpha / self.scale * (1 - GIVEN_UP))
        except SolverError:
            # Smaller norms are a courtesy; the rate is what was asked for.
            return fastest

    def fastest(self) -> Candidate:
        """Return the point of largest alpha."""
        solution = self._run(maximise=self.alpha)
        if not solution[self.alpha] > LEAST_SHARE:
            raise SolverError(
                "design: the attention form cannot be made negative definite; its largest "
                f"eigenvalue is at least {-self.scale * float(solution[self.alpha]):.3g}",
                status="infeasible",
            )
        return self._candidate(solution)

    def raise_alpha(self) -> Candidate:
        """Return the point of largest alpha, negative though it may be."""
        return self._candidate(self._run(maximise=self.alpha))

    def reach(self, alpha: float) -> Candidate:
        """Return the point of smallest norms at a given alpha."""
        return self._minimise(self.norms(), alpha / self.scale)

    def lower_norms(self, alpha: float) -> tuple[Candidate, float]:
        """Return the point of smallest max(norm / bound) at a given alpha, and that ratio."""
        self.program.above(self.alpha - alpha / self.scale)
        ratio = self.program.scalar("ratio")
        self.program.add([spectral_norm(X) <= ratio for X in self._ratios()])
        solution = self._run(minimise=ratio)
        return self._candidate(solution), float(solution[ratio])

    def norms(self) -> Any:
        """Return the sum of spectral norms, or the distance from the initial model."""
        names = ["A"] if self.free_A else []
        names.append(self.unknown)
        area = float(np.trace(self.request.covariance)) / self.dim
        weight = {"A": 1.0, "V": 1.0, "B": area}
        initial = self.request.initial
        if initial is None:
            return sum(
                spectral_norm(weight[name] * self._restored(name, X))
                for name in names
                for _, X in self._parts(name)
            )
        squares = 0.0
        for name in names:
            near = initial.A[None] if name == "A" else getattr(initial, name)
            for (unit, X), M in zip(self._parts(name), near, strict=True):
                size = weight[name] * float(self.sizes.mean() if name == "B" else 1) / self.scale
                squares = squares + sum_squares(size * (unit * self._restored(name, X) - M))
        return squares

    def _parts(self, name: str) -> list[tuple[float, Any]]:
        if name == "A":
            return [(self.scale, self.A)]
        return list(zip(self.units, self._blocks(), strict=True))

    def _reachable(self) -> float:
        """Return a normalised alpha that is of the order of the best."""
        best = self.request.best_alpha
        return 1.0 if best is None else best / self.scale

    def _asked(self) -> float | None:
        """Return the normalised alpha to ask for: a little more, but not beyond tr A / d."""
        alpha, best = self.request.alpha, self.request.best_alpha
        if alpha is None:
            return None
        wanted = alpha * (1 + MARGIN)
        if best is not None:
            wanted = min(wanted, max(alpha, best * (1 - MARGIN / 10)))
        return wanted / self.scale

    def _minimise(self, objective: Any, least: float) -> Candidate:
        self.program.above(self.alpha - least)
        return self._candidate(self._run(minimise=objective))

    def _run(self, **sense: Any) -> Solution:
        request = self.request
        if request.solver is not None or not LARGE_DIM <= self.dim <= LARGEST_DIM:
            return self.program.solve(solver=request.solver, verbose=request.verbose, **sense)
        # The default factorisation of Clarabel takes minutes on dense blocks of this size.
        options = {"direct_solve_method": "faer"}
        try:
            return self.program.solve(
                solver="CLARABEL", options=options, verbose=request.verbose, **sense
            )
        except SolverError as error:
            if error.status == "infeasible":
                raise
            return self.program.solve(solver="SCS", verbose=request.verbose, **sense)

    # -- the point --------------------------------------------------------------------------------

    def _candidate(self, solution: Solution) -> Candidate:
        """Move the point onto the equalities by the smallest step, and leave normalised units."""
        self._project()
        X = np.asarray(self.X.value).reshape(self.heads, self.dim, self.dim)
        heads = X * self.units[:, None, None]
        request = self.request
        A = self.scale * self.A.value if self.free_A else request.whitened("A")
        V, B = (heads, self.given) if self.unknown == "V" else (self.given, heads)
        alpha = self.scale * float(solution[self.alpha])
        return Candidate(A, V, B, alpha, solution.status, self.program.problem)

    def _project(self) -> None:
        """Correct X and A so that balance and the user's equalities hold to rounding."""
        d, request = self.dim, self.request
        variables = [self.X, self.A] if self.free_A else [self.X]
        A = np.zeros((d, d)) if self.free_A else request.whitened("A") / self.scale
        rows = np.hstack([self._T, np.eye(d * d)]) if self.free_A else self._T
        if not request.dt:
            rows, A = symmetric_rows(rows, d), (A + A.T) / 2
            target = -A.reshape(-1)[vech_index(d).low]
        else:
            target = -A.reshape(-1)
        move_onto(variables, rows, target, self.user)
        reason = violated(self.user)
        if reason is not None:
            raise SolverError(
                f"constraints: {reason} at the point that was found", status="refused"
            )
