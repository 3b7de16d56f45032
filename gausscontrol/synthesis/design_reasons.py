"""Why a design does not exist, each reason backed by a check (Theory 4.2, 4.4, 7a).

    q(Sigma*) = sum_h tr(V_h Sigma* B_h) = -tr A   =>   tr A > 0,  alpha <= tr A / d,
    tr A <= sum_h |V_h|_2 |Sigma* B_h|_*           =>   a lower bound on norms

What these do not settle is settled by solving again without the norm bounds, without the user's
constraints, or for the fastest rate there is. That a solver failed says nothing of the problem, and
is told as what it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gausscontrol.errors import GausscontrolError, InfeasibleDesign, SolverError
from gausscontrol.linalg.lmi import constant
from gausscontrol.synthesis.design_point import Candidate
from gausscontrol.synthesis.design_problem import ConvexDesign
from gausscontrol.synthesis.design_request import Request
from gausscontrol.synthesis.design_terms import Variables, violated

__all__ = ["check_constraints", "check_necessary", "explain"]

# A trace this small against the matrix is zero.
ZERO_TRACE = 1e-12
# How far a rate may exceed the optimum before it is refused, relative.
ROUNDING = 1e-9
# Share of the best rate at which the norms that a design needs are measured.
SLOW = 1e-3


def check_necessary(request: Request) -> None:
    """Refuse what no head can do.

    Raises
    ------
    InfeasibleDesign
        Because of tr A, or a norm bound below what tr A needs.
    """
    if "A" not in request.fixed:
        return
    best, d = request.best_alpha, request.dim
    if not best * d > ZERO_TRACE * np.linalg.norm(request.fixed["A"]):
        raise InfeasibleDesign(
            f"tr A = {best * d:.4g}, and tr A > 0 is necessary: the attention form has "
            "q(Sigma*) = -tr A at every equilibrium (Theory 4.4); free A too, or shift it by a "
            "multiple of I"
        )
    if request.dt and not request.dt * best < 1:
        raise InfeasibleDesign(
            f"dt: tr A = {best * d:.4g} needs dt < d / tr A = {1 / best:.4g}, found "
            f"{request.dt:g}: a larger linearised layer overshoots along Sigma* itself; use "
            "smaller layers"
        )
    if request.alpha is not None and request.alpha > best * (1 + ROUNDING):
        raise InfeasibleDesign(
            f"decay_rate: tr A = {best * d:.4g} allows at most {request.alpha_to_rate(best):.6g} "
            f"per unit depth, found {request.decay_rate:g} (Theory 4.2); ask for less, or free A"
        )
    _check_given(request)
    needed = _norm_from_trace(request)
    if needed is not None and needed[1] > needed[2] * (1 + ROUNDING):
        name, least, bound = needed
        raise InfeasibleDesign(
            f"norm bound: tr A = -sum_h tr(V_h Sigma* B_h) = {best * d:.4g} needs |{name}| >= "
            f"{least:.4g}{_where(request)}, found the bound {bound:g} (Theory 4.4); raise "
            "norm_bound"
        )


def _check_given(request: Request) -> None:
    """Refuse a given V or B without any head that acts on the covariance."""
    for name in ("V", "B"):
        if name in request.fixed and not request.fixed[name].any():
            raise InfeasibleDesign(
                f"{name}: expected a head that is not zero, found none: {name} = 0 leaves the "
                "covariance to A alone, and tr A = -sum_h tr(V_h Sigma* B_h) > 0 cannot hold "
                f"(Theory 4.4); pass another {name}, or use free=('V', 'B')"
            )


def check_constraints(request: Request, found: Candidate) -> None:
    """Refuse a point at which the user's constraints do not all hold.

    Raises
    ------
    InfeasibleDesign
    """
    if request.constraints is None:
        return
    values: dict[str, Any] = Variables({"A": constant(request.restore("A", found.A))})
    for name, heads in (("V", found.V), ("B", found.B)):
        listed = [constant(request.restore(name, M)) for M in heads]
        values[name] = listed[0] if len(listed) == 1 else listed
    values["alpha"] = constant(found.alpha)
    reason = violated(request.constraints(values))
    if reason is not None:
        raise InfeasibleDesign(
            f"constraints: {reason} at the heads found by solving for V and B in turn, which is no "
            "proof that none exist; pass a model that meets them as initial, or fix B and use "
            "free=('V',)"
        )


def _norm_from_trace(request: Request) -> tuple[str, float, float] | None:
    """Return (name, least norm, bound) by tr A <= sum_h |X_h| |given_h|_*, if X has a bound."""
    names = [name for name in ("V", "B") if name in request.free]
    if len(names) != 1 or names[0] not in request.bounds:
        return None
    [name] = names
    other = "B" if name == "V" else "V"
    if request.default_bounds:
        weights = request.whitened(other)
    elif name == "V":
        weights = request.covariance @ request.fixed["B"]
    else:
        weights = request.fixed["V"] @ request.covariance
    size = float(np.linalg.norm(weights, "nuc", axis=(1, 2)).sum())
    trace = request.best_alpha * request.dim
    return name, trace / size if size > 0 else np.inf, request.bounds[name]


def _where(request: Request) -> str:
    return " in whitened coordinates" if request.default_bounds else ""


def explain(
    request: Request, given: np.ndarray, unknown: str, error: SolverError
) -> GausscontrolError:
    """Say why the convex problem has no solution, by solving it again without its parts.

    Where a solver failed, so that nothing is known, that is a `SolverError`.
    """
    try:
        return _explained(request, given, unknown, error)
    except SolverError as another:
        return _unknown(f"no design was found, and none was excluded ({another})", another)


def _unknown(message: str, error: SolverError) -> SolverError:
    advice = "loosen what is asked for a little, or name another solver"
    return SolverError(f"{message}; {advice}", status=error.status)


def _explained(
    request: Request, given: np.ndarray, unknown: str, error: SolverError
) -> GausscontrolError:
    fixed = "B" if unknown == "V" else "V"
    known = error.status == "infeasible"
    whatever = _largest_alpha(request, given, unknown, constrained=False, bounded=False)
    if not whatever > 0:
        return InfeasibleDesign(_no_matrix(request, fixed, unknown, error))
    if not _enough(request, whatever):
        return InfeasibleDesign(
            f"decay_rate: with this {fixed} at most {request.alpha_to_rate(whatever):.6g} per unit "
            f"depth can be certified, whatever the norms, found {request.decay_rate:g}; ask for "
            f"less, or free {fixed}"
        )
    if request.constraints is not None:
        relaxed = _largest_alpha(request, given, unknown, constrained=False)
        if _enough(request, relaxed):
            without = (
                "constraints: without them the design exists, with rate "
                f"{request.alpha_to_rate(relaxed):.4g} per unit depth, with them"
            )
            if known:
                return InfeasibleDesign(f"{without} it does not; relax them ({error})")
            return _unknown(
                f"{without} none was found, which is no proof that none exists ({error})", error
            )
    reason = _norm_reason(request, given, unknown) if request.bounds else None
    if reason is not None:
        return reason
    if not known and request.constraints is None and not request.bounds:
        raise error
    found = (
        f"{fixed}: the design exists without bounds and constraints, but no solver finds a point "
        f"under them with this {fixed}"
    )
    if known:
        return InfeasibleDesign(f"{found}; loosen them a little, or name another solver ({error})")
    return _unknown(f"{found}, which is no proof that none exists ({error})", error)


def _no_matrix(request: Request, fixed: str, unknown: str, error: SolverError) -> str:
    if request.dt:
        return (
            f"{fixed}: no {unknown} makes one layer of depth {request.dt:g} balanced and "
            f"contracting at the target with this {fixed}, whatever its norm; use more heads, "
            f"smaller layers, or free {fixed} ({error})"
        )
    return (
        f"{fixed}: no {unknown} makes the attention form negative definite at the target with this "
        f"{fixed}, whatever its norm; use another {fixed}, more heads, or free=('V', 'B') ({error})"
    )


def _norm_reason(request: Request, given: np.ndarray, unknown: str) -> InfeasibleDesign | None:
    """Return the norms that a design needs, if that is known and more than the bounds."""
    problem = ConvexDesign(request, given, unknown, mean=False, bounded=False)
    best = request.best_alpha
    least = request.alpha or SLOW * (problem.scale if best is None else best)
    try:
        _, ratio = problem.lower_norms(least)
    except SolverError as error:
        if error.status != "infeasible":
            raise
        return None
    if not ratio > 1:
        return None
    wanted = ", ".join(
        f"|{name}| = {ratio * bound:.4g} beside {bound:g}" for name, bound in request.bounds.items()
    )
    rate = "" if request.alpha is None else f" at decay_rate {request.decay_rate:g}"
    return InfeasibleDesign(
        f"norm bound: without it the design exists{rate}, and needs about {wanted}"
        f"{_where(request)}; raise norm_bound{' or ask for less' if rate else ''}"
    )


def _largest_alpha(
    request: Request, given: np.ndarray, unknown: str, constrained: bool, bounded: bool = True
) -> float:
    """Return the largest alpha of a relaxed problem, zero if it is known to have no solution.

    Where A is free and nothing bounds alpha, the alpha asked for if it can be reached. A solver
    that fails is an error.
    """
    problem = ConvexDesign(
        request, given, unknown, mean=False, bounded=bounded, constrained=constrained
    )
    endless = "A" in request.free and not (bounded and request.bounds)
    try:
        if endless:
            return problem.reach(request.alpha or problem.scale).alpha
        return problem.fastest().alpha
    except SolverError as error:
        if error.status != "infeasible":
            raise
        return 0.0


def _enough(request: Request, alpha: float) -> bool:
    return alpha > 0 if request.alpha is None else alpha >= request.alpha * (1 - 1e-6)
