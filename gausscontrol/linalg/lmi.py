"""Semidefinite programmes: the one room in which cvxpy is used (Theory 7a, 7d, 9.1).

    minimise f(x)   subject to   F_i(x) >= m_i I,   a_j(x) = 0

Strict inequalities carry an explicit margin m_i > 0; callers normalise their data so that a margin
means something. A solver's status is advice: every inequality and equality is evaluated again in
NumPy at the point that was returned, and a point that does not keep its strict inequalities is
refused whatever the status says. Clarabel is tried first, SCS where Clarabel fails or the largest
block is beyond it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from gausscontrol.errors import ParameterError, SolverError
from gausscontrol.linalg.deferred import Deferred
from gausscontrol.linalg.symmetric import vech_index

if TYPE_CHECKING:
    import cvxpy as cp
else:
    # It takes a second to import, and most of the package does without.
    cp = Deferred("cvxpy")

__all__ = [
    "Program",
    "Solution",
    "bordered",
    "check_solver",
    "constant",
    "equality_rows",
    "frobenius_norm",
    "linear_image",
    "nuclear_norm",
    "spectral_norm",
    "stacked",
    "sum_squares",
    "svec",
    "trace",
]

# Share of a strict margin that must be left when the inequality is evaluated in NumPy.
KEPT = 0.5
# Largest violation of an equality, over the size of the point, that counts as solved.
EQUALITY_TOLERANCE = 1e-5
# Beyond this block an interior-point method takes minutes, and SCS goes first.
LARGEST_BLOCK = 120
OPTIONS: dict[str, dict[str, Any]] = {
    "CLARABEL": {},
    "SCS": {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 50_000},
}
# Statuses as cvxpy spells them.
USABLE = ("optimal", "optimal_inaccurate", "user_limit")
INFEASIBLE = ("infeasible", "infeasible_inaccurate")
UNBOUNDED = ("unbounded", "unbounded_inaccurate")


@dataclass(frozen=True, eq=False)
class Solution:
    """A point that a solver returned and that was checked in NumPy.

    Attributes
    ----------
    status : str
        What the solver says of itself, such as "optimal".
    value : float
        Objective at the point.
    solver : str
    seconds : float
    margin : float
        Smallest of lambda_min(F_i) / m_i over the strict inequalities; at least 1/2, and infinite
        without any.
    defect : float
        Largest violation of an equality or of an inequality without a margin.
    """

    status: str
    value: float
    solver: str
    seconds: float
    margin: float
    defect: float
    _values: dict[int, np.ndarray] = field(repr=False)

    def __getitem__(self, variable: cp.Variable) -> np.ndarray:
        """Return the value of a variable; symmetric ones are exactly symmetric."""
        return self._values[variable.id]


class Program:
    """A semidefinite programme under construction.

    Expressions are cvxpy's, combined with `@`, `+`, `.T` and the functions of this module.

    Examples
    --------
    >>> import numpy as np
    >>> M = np.array([[-1.0, 2.0], [0.0, -3.0]])
    >>> program = Program("Lyapunov inequality")
    >>> P = program.symmetric(2)
    >>> program.above(P, 1.0)
    >>> program.below(M.T @ P + P @ M, 1e-3)
    >>> solution = program.solve(minimise=trace(P))
    >>> bool(np.linalg.eigvalsh(solution[P])[0] > 0.9)
    True
    """

    def __init__(self, name: str = "programme") -> None:
        self.name = name
        self.problem: cp.Problem | None = None
        self._constraints: list[cp.Constraint] = []
        self._strict: list[tuple[cp.Expression, float]] = []
        self._weak: list[cp.Constraint] = []
        self._posed: tuple[Any, Any, int] | None = None  # what `problem` was made of

    def symmetric(self, size: int, name: str | None = None) -> cp.Variable:
        """Return a symmetric matrix variable."""
        return cp.Variable((size, size), symmetric=True, name=name)

    def gram(self, size: int, name: str | None = None, margin: float = 0.0) -> cp.Variable:
        """Return a symmetric matrix variable G >= margin I."""
        G = self.symmetric(size, name)
        self.above(G, margin)
        return G

    def matrix(self, rows: int, columns: int, name: str | None = None) -> cp.Variable:
        """Return a matrix variable."""
        return cp.Variable((rows, columns), name=name)

    def vector(self, size: int, name: str | None = None) -> cp.Variable:
        """Return a vector variable."""
        return cp.Variable(size, name=name)

    def scalar(self, name: str | None = None, nonnegative: bool = False) -> cp.Variable:
        """Return a scalar variable."""
        return cp.Variable(name=name, nonneg=nonnegative)

    def parameter(self, shape: Any = (), name: str | None = None, **attributes: Any) -> Any:
        """Return a parameter: a constant whose `.value` may change between two solutions."""
        return cp.Parameter(shape, name=name, **attributes)

    def above(self, expression: cp.Expression, margin: float = 0.0) -> None:
        """Require F(x) >= margin I; with a margin it is checked to be kept."""
        size = expression.shape[0] if expression.ndim else 1
        if size == 1:
            constraint = cp.sum(expression) >= margin
        else:
            constraint = (expression + expression.T) / 2 >> margin * np.eye(size)
        self._constraints.append(constraint)
        if margin > 0:
            self._strict.append((expression, margin))
        else:
            self._weak.append(constraint)

    def below(self, expression: cp.Expression, margin: float = 0.0) -> None:
        """Require F(x) <= -margin I."""
        self.above(-expression, margin)

    def equal(self, expression: cp.Expression, value: Any = 0.0, symmetric: bool = False) -> None:
        """Require a(x) = value; for symmetric matrices on the upper triangle only."""
        difference = expression - value
        if symmetric and difference.ndim == 2:
            difference = _triangle(difference)
        self.add([difference == 0])

    def spectral_bound(self, expression: cp.Expression, bound: Any) -> None:
        """Require |X|_2 <= bound."""
        self.add([cp.sigma_max(expression) <= bound])

    def add(self, constraints: Iterable[cp.Constraint]) -> None:
        """Add constraints as they are."""
        for constraint in constraints:
            if not isinstance(constraint, cp.Constraint):
                raise ParameterError(
                    f"constraints: expected cvxpy constraints, found {type(constraint).__name__}; "
                    "return a list such as [variables['V'] >= -1]"
                )
            self._constraints.append(constraint)
            self._weak.append(constraint)

    def solve(
        self,
        *,
        minimise: Any = None,
        maximise: Any = None,
        solver: str | None = None,
        verbose: bool = False,
        options: dict[str, Any] | None = None,
    ) -> Solution:
        """Solve and check the point in NumPy.

        Parameters
        ----------
        minimise, maximise : cvxpy expression, optional
            One of them, or neither for a feasibility problem. Solving again with the same
            expression and other parameter values reuses the compiled problem.
        solver : str, optional
            A name that cvxpy knows; default: Clarabel, then SCS.
        verbose : bool, optional
            Let the solver print.
        options : dict, optional
            Passed to the solver, when it is named.

        Returns
        -------
        Solution

        Raises
        ------
        SolverError
            If no solver returns a point that keeps its strict inequalities; `status` is
            "infeasible", "unbounded", "refused" or "failed".
        """
        self._pose(minimise, maximise)
        failure: SolverError | None = None
        for name in [solver.upper()] if solver else self._order():
            try:
                return self._attempt(name, verbose, OPTIONS.get(name, {}) | (options or {}))
            except SolverError as error:
                if error.status == "infeasible" and name == "CLARABEL":
                    raise
                failure = failure or error
        raise failure

    def _pose(self, minimise: Any, maximise: Any) -> None:
        """Build the cvxpy problem unless the last one was the same."""
        sense = cp.Minimize if maximise is None else cp.Maximize
        asked = minimise if maximise is None else maximise
        count = len(self._constraints)
        if self._posed is not None:
            known_sense, known, known_count = self._posed
            if known_sense is sense and known is asked and known_count == count:
                return
        self._posed = sense, asked, count
        self.problem = cp.Problem(sense(0 if asked is None else asked), self._constraints)

    def _order(self) -> Sequence[str]:
        blocks = [c.args[0].shape[0] for c in self._constraints if isinstance(c, cp.PSD)]
        large = max(blocks, default=0) > LARGEST_BLOCK
        return ("SCS", "CLARABEL") if large else ("CLARABEL", "SCS")

    def _attempt(self, solver: str, verbose: bool, options: dict[str, Any]) -> Solution:
        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                # Inaccurate points are judged by their values, below.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                self.problem.solve(solver=solver, verbose=verbose, **options)
        except (cp.SolverError, ValueError, ArithmeticError) as error:
            raise self._error("failed", solver, f"it stopped: {error}") from error
        values = self._point(solver)
        margin, defect = self._checked(solver, values)
        seconds, value = time.perf_counter() - started, float(self.problem.value)
        return Solution(self.problem.status, value, solver, seconds, margin, defect, values)

    def _point(self, solver: str) -> dict[int, np.ndarray]:
        """Return the values of the variables, refusing what is no point."""
        status, variables = self.problem.status, self.problem.variables()
        if status in INFEASIBLE:
            raise self._error("infeasible", solver, "no point meets the constraints")
        if status in UNBOUNDED:
            raise self._error("unbounded", solver, "the objective has no bound")
        if status not in USABLE or any(v.value is None for v in variables):
            raise self._error("failed", solver, f"it returned status {status!r} without a point")
        values = {v.id: _value(v) for v in variables}
        if not all(np.isfinite(value).all() for value in values.values()):
            raise self._error("failed", solver, "it returned numbers that are not finite")
        return values

    def _checked(self, solver: str, values: dict[int, np.ndarray]) -> tuple[float, float]:
        """Return margin and defect, refusing a point that does not keep its constraints."""
        status, margin, defect = self.problem.status, self._margin(), self._defect()
        if margin < KEPT:
            found = f"a strict inequality keeps {margin:.3g} of its margin"
            raise self._error("refused", solver, f"it says {status!r}, but {found}")
        size = 1 + max((np.abs(value).max(initial=0.0) for value in values.values()), default=0.0)
        if defect > EQUALITY_TOLERANCE * size:
            found = f"a constraint is violated by {defect:.3g}"
            raise self._error("refused", solver, f"it says {status!r}, but {found}")
        return margin, defect

    def _margin(self) -> float:
        shares = [_lowest(F.value) / margin for F, margin in self._strict]
        return min(shares, default=np.inf)

    def _defect(self) -> float:
        return max((float(np.max(c.violation())) for c in self._weak), default=0.0)

    def _error(self, status: str, solver: str, found: str) -> SolverError:
        sizes, kinds = self.problem.size_metrics, (cp.constraints.Equality, cp.constraints.Zero)
        variables = _counted(sizes.num_scalar_variables, "variable", "variables")
        equalities = _counted(sizes.num_scalar_eq_constr, "equality", "equalities")
        inequalities = _counted(
            sum(not isinstance(c, kinds) for c in self._constraints), "inequality", "inequalities"
        )
        return SolverError(
            f"{self.name}: {solver} found no usable point for {variables}, {equalities} and "
            f"{inequalities} ({self._scaling()}): {found}",
            status=status,
        )

    def _scaling(self) -> str:
        """Say how widely the data spread, the usual cause of trouble."""
        entries = [np.abs(np.ravel(_dense(c.value))) for c in self.problem.constants()]
        entries = np.concatenate([e[e > 0] for e in entries] or [np.ones(1)])
        if not entries.size:
            return "no data"
        return f"data from {entries.min():.1e} to {entries.max():.1e}"


def check_solver(name: Any) -> str:
    """Return the name of a solver that can be used, in capitals.

    Parameters
    ----------
    name : str
        As cvxpy spells it, in any case.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        If it is not installed, or not able to solve semidefinite programmes.
    """
    usable = [solver for solver in cp.installed_solvers() if _solves_semidefinite(solver)]
    wanted = f"expected one of {', '.join(usable)}"
    if not isinstance(name, str):
        raise ParameterError(f"solver: {wanted}, found {name!r}; pass a name, or leave it out")
    found = name.upper()
    if found not in cp.installed_solvers():
        raise ParameterError(
            f"solver: {wanted}, found {name!r}, which is not installed; install it, or name another"
        )
    if found not in usable:
        raise ParameterError(
            f"solver: {wanted}, found {name!r}, which solves no semidefinite programmes; "
            "name another"
        )
    return found


def trace(expression: cp.Expression) -> cp.Expression:
    """Return tr X."""
    return cp.trace(expression)


def spectral_norm(expression: cp.Expression) -> cp.Expression:
    """Return |X|_2, convex in X."""
    return cp.sigma_max(expression)


def nuclear_norm(expression: cp.Expression) -> cp.Expression:
    """Return the sum of the singular values, convex in X."""
    return cp.normNuc(expression)


def frobenius_norm(expression: cp.Expression) -> cp.Expression:
    """Return |X|_F, convex in X."""
    return cp.norm(expression, "fro") if expression.ndim == 2 else cp.norm(expression)


def sum_squares(expression: cp.Expression) -> cp.Expression:
    """Return |X|_F^2, convex in X."""
    return cp.sum_squares(expression)


def bordered(matrix: cp.Expression, vector: cp.Expression, corner: cp.Expression) -> cp.Expression:
    """Return [[X, x], [x^T, c]]."""
    column = cp.reshape(vector, (vector.size, 1), order="C")
    return cp.bmat([[matrix, column], [column.T, cp.reshape(corner, (1, 1), order="C")]])


def constant(value: Any) -> cp.Expression:
    """Return an array as an expression, for constraints that may or may not hold a variable."""
    return cp.Constant(value)


def linear_image(operator: Any, expression: cp.Expression, shape: tuple[int, ...]) -> cp.Expression:
    """Return L vec X in a given shape, everything row-major."""
    return cp.reshape(operator @ cp.vec(expression, order="C"), shape, order="C")


def stacked(expressions: Sequence[cp.Expression]) -> cp.Expression:
    """Return vectors one after the other."""
    return cp.hstack(expressions)


def svec(expression: cp.Expression) -> cp.Expression:
    """Return svec X of a symmetric expression: <svec X, svec Y> = tr X Y."""
    index = vech_index(expression.shape[0])
    picked = cp.vec(expression, order="C")[index.low]
    return cp.multiply(index.weight, picked)


def equality_rows(
    constraints: Iterable[cp.Constraint], variables: Sequence[cp.Variable]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the equalities a(x) = 0 among constraints as rows in the given variables.

    Parameters
    ----------
    constraints : iterable of cvxpy constraints
        Inequalities are passed over. Variables have values.
    variables : sequence of cvxpy variables
        x, each row-major, one after the other; every other variable counts as fixed.

    Returns
    -------
    (m, N) ndarray, (m,) ndarray
        The Jacobian of a and a(x) at the present values.
    """
    equalities = [c for c in constraints if isinstance(c, cp.Zero | cp.constraints.zero.Equality)]
    size = sum(variable.size for variable in variables)
    rows, values = [np.zeros((0, size))], [np.zeros(0)]
    for expression in (c.expr for c in equalities):
        gradient = expression.grad
        blocks = [_row_major(gradient.get(v), v, expression.size) for v in variables]
        rows.append(np.hstack(blocks))
        values.append(np.ravel(_dense(expression.value), order="F"))
    return np.vstack(rows), np.concatenate(values)


def _solves_semidefinite(solver: str) -> bool:
    conic = cp.reductions.solvers.defines.SOLVER_MAP_CONIC.get(solver)
    # Some take the whole matrix (PSD), some its triangle (SvecPSD).
    return conic is not None and any("PSD" in c.__name__ for c in conic.SUPPORTED_CONSTRAINTS)


def _triangle(expression: cp.Expression) -> cp.Expression:
    return cp.vec(expression, order="C")[vech_index(expression.shape[0]).high]


def _row_major(gradient: Any, variable: cp.Variable, rows: int) -> np.ndarray:
    """Turn cvxpy's gradient, (entries column by column) x (rows), into (rows, entries by rows)."""
    if gradient is None:
        return np.zeros((rows, variable.size))
    dense = gradient.toarray() if scipy.sparse.issparse(gradient) else np.asarray(gradient)
    dense = np.reshape(dense, (variable.size, rows))
    order = np.arange(variable.size).reshape(variable.shape, order="F").reshape(-1)
    return dense[order].T


def _counted(number: int, one: str, more: str) -> str:
    return f"{number or 'no'} {one if number == 1 else more}"


def _value(variable: cp.Variable) -> np.ndarray:
    value = np.array(variable.value, dtype=float)
    if variable.attributes.get("symmetric") or variable.attributes.get("PSD"):
        return (value + value.T) / 2
    return value


def _lowest(value: Any) -> float:
    value = np.atleast_2d(np.asarray(value, dtype=float))
    return float(np.linalg.eigvalsh((value + value.T) / 2)[0])


def _dense(value: Any) -> np.ndarray:
    return value.data if scipy.sparse.issparse(value) else np.asarray(value)
