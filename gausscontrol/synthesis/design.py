"""Parameters that make a target Gaussian attract every Gaussian (Theory 7a).

    given (mu*, Sigma*), find A, V_h, B_h and b with
    M(Sigma*) Sigma* skew,  q(E) < 0 for symmetric E != 0,  M(Sigma*) + Vbar Hurwitz

What a solver proposes is moved onto the equality by least squares and certified in the original
coordinates, apart from the solver; what is returned has passed that check, and what is refused
is refused for a reason that was checked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gausscontrol.errors import InfeasibleDesign, SolverError
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.synthesis.design_completion import complete
from gausscontrol.synthesis.design_problem import ConvexDesign
from gausscontrol.synthesis.design_reasons import check_necessary, explain
from gausscontrol.synthesis.design_request import Request, read_request
from gausscontrol.synthesis.design_result import RATE_TOLERANCE, Design
from gausscontrol.synthesis.lifted import design_heads
from gausscontrol.synthesis.nearest import designs_near, distance_from

__all__ = ["Design", "design"]

# How often a rate that was missed by rounding is asked for again.
ATTEMPTS = 3
# A given rate is certified up to this, relative; closer to the optimum than RATE_TOLERANCE, where
# nothing more can be asked for, up to that.
ROUNDING = 1e-9


def design(
    target: Any,
    *,
    A: Any = None,
    B: Any = None,
    V: Any = None,
    free: Any = ("V",),
    decay_rate: float | None = None,
    mean_decay_rate: float | None = None,
    norm_bound: Any = None,
    n_heads: int | None = None,
    dt: float = 0,
    constraints: Any = None,
    objective: Any = None,
    initial: GaussianTransformer | None = None,
    solver: str | None = None,
    verbose: bool = False,
) -> Design:
    """Design parameters that attract every Gaussian to a target.

    In coordinates where Sigma* is I: sym(A + T(I)) = 0, so that it is an equilibrium; q(E) =
    <E, T(E)> <= -alpha |E|^2 for symmetric E, so that it attracts every covariance at the rate
    2 alpha; sym(Vbar) <= -gamma I and a suitable b for the mean. A design exists for some heads
    if and only if tr A > 0, and 2 alpha <= 2 tr A / d.

    Parameters
    ----------
    target : (mean, covariance)
        (d,) [x] and (d, d) [x]^2 array_like, the covariance positive definite; or an `Equilibrium`.
    A : (d, d) array_like, optional
        Given unless it is free. [1/t]
    B, V : (d, d) or (h, d, d) array_like, optional
        Given unless free, [1/x^2] and [1/t]; what is missing is taken from `initial`.
    free : tuple of str, optional
        ("V",), ("B",), ("A", "V"), ("A", "B"), each one convex problem, or ("V", "B").
    decay_rate : float, optional
        2 alpha that must be certified, to 1e-9 relative (1e-6 at the optimum itself), with the
        smallest norms that do; by default it is as large as `norm_bound` allows. [1/t]
    mean_decay_rate : float, optional
        gamma that must be reached; by default the mean is merely made stable. [1/t]
    norm_bound : float or dict, optional
        Bound on the spectral norms of the free matrices in original coordinates, for example
        {"V": 2}. By default, with A given, 100 in whitened coordinates.
    n_heads : int, optional
        For free=("V", "B"): how many heads; by default the fewest that do, or as many as
        `initial` has where that is nearer to it. A head V = -g I, B = 0 that is added for the
        mean does not count.
    dt : float, optional
        For residual layers the design is balanced, A + T(I) = 0, and the layer contracts. [t]
    constraints : callable, optional
        Takes a dict with "A", "V", "B" as cvxpy expressions in original coordinates (lists of
        them for several heads) and "alpha", and returns a list of cvxpy constraints.
    objective : callable, optional
        Takes the same dict and returns a convex cvxpy expression to minimise instead; without
        decay_rate the rate must then reach 1% of the optimum.
    initial : GaussianTransformer, optional
        A model to stay near: among designs of equal rate the one at the smallest Frobenius
        distance is taken instead of the one of smallest norms. Its tilts and name are kept. For
        free=("V", "B"), which is not convex, what is returned is the nearest of three: what a
        search from its heads finds, and the designs at that rate that change V alone or B alone.
        A head that only one side has counts as zero on the other; an `objective` takes the place
        of the distance.
    solver : str, optional
        A name that cvxpy knows, of a solver for semidefinite programmes.
    verbose : bool, optional
        Let the solver print.

    Returns
    -------
    Design

    Raises
    ------
    InfeasibleDesign
        If there is no design; the message says whether tr A, a norm bound, the decay rate, the
        constraints or a fixed matrix is in the way.
    SolverError
        If a solver failed, so that it is not known whether there is one.
    ParameterError, ShapeError
        If an argument makes no sense, a solver that is not installed among them.

    Notes
    -----
    Theory 4.1 to 4.4, 7a to 7d. b puts the mean at the target whatever else is asked for. Where V
    and B both change, the squared distance is sum_h |V_h - V0_h|^2 + w^2 |B_h - B0_h|^2 with
    w = |V0| tr(Sigma*) / d, |V0| the mean spectral norm.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> target = ([1.0, 0.0], [[2.0, 0.5], [0.5, 1.0]])
    >>> des = gct.design(target, A=[[1.0, 0.3], [-0.2, 0.5]], B=np.eye(2))
    >>> des.verify(), des.certificate.scope
    (True, 'covariance and mean')
    >>> bool(np.allclose(gct.find_equilibrium(des.model).covariance, target[1]))
    True
    """
    request = read_request(
        target,
        A=A,
        B=B,
        V=V,
        free=free,
        decay_rate=decay_rate,
        mean_decay_rate=mean_decay_rate,
        norm_bound=norm_bound,
        n_heads=n_heads,
        dt=dt,
        constraints=constraints,
        objective=objective,
        initial=initial,
        solver=solver,
        verbose=verbose,
    )
    check_necessary(request)
    asked = request
    for _ in range(ATTEMPTS):
        found = _design_both(asked) if request.free == ("V", "B") else _design_convex(asked)
        if request.decay_rate is None or found.decay_rate >= _least_rate(request):
            return found
        # What certifying subtracts for rounding grows with the norms; it is asked for on top.
        rate = asked.decay_rate * request.decay_rate / found.decay_rate * (1 + RATE_TOLERANCE)
        asked = replace(request, decay_rate=rate)
        if request.best_alpha is not None and asked.alpha > request.best_alpha:
            break
    raise InfeasibleDesign(
        f"decay_rate: the point found is certified at {found.decay_rate:.6g} per unit depth, less "
        f"than the {request.decay_rate:g} asked for, since its norms are large; ask for a little "
        "less, or give another norm_bound or more heads"
    )


def _least_rate(request: Request) -> float:
    """Return the certified rate up to which what was asked for counts as reached."""
    best = request.best_alpha
    at_the_optimum = best is not None and request.alpha > (1 - RATE_TOLERANCE) * best
    return (1 - (RATE_TOLERANCE if at_the_optimum else ROUNDING)) * request.decay_rate


# -- one convex problem ---------------------------------------------------------------------------


def _design_convex(request: Request) -> Design:
    unknown, other = ("V", "B") if "V" in request.free else ("B", "V")
    given = request.whitened(other)
    failure: SolverError | None = None
    # Where V cannot carry the mean too, a head of its own does.
    for mean in (True, False) if unknown == "V" else (False,):
        try:
            found = ConvexDesign(request, given, unknown, mean=mean).solve()
        except SolverError as error:
            failure = error
        else:
            return complete(request, found)
    raise explain(request, given, unknown, failure) from failure


# -- both V and B ---------------------------------------------------------------------------------


def _design_both(request: Request) -> Design:
    """Return what the search finds, or a nearer design that changes one of V and B alone."""
    initial = request.initial
    near = initial is not None and request.n_heads in (None, initial.n_heads)
    if not near or request.objective is not None:
        return _design_heads(request)
    found: list[Design] = []
    refusal: InfeasibleDesign | None = None
    try:
        found.append(_design_heads(request))
    except InfeasibleDesign as error:
        refusal = error
    if request.decay_rate is None and found:
        # The search says which rate can be reached.
        request = replace(request, decay_rate=found[0].decay_rate * (1 - RATE_TOLERANCE))
    found += designs_near(request)
    if not found:
        raise refusal
    if request.decay_rate is not None:
        least = _least_rate(request)
        found = [des for des in found if des.decay_rate >= least] or found
    return min(found, key=lambda des: distance_from(initial, des.model, request.covariance))


def _design_heads(request: Request) -> Design:
    """Return the fewest heads that are certified; very large norms leave no digits for that."""
    refusal: InfeasibleDesign | None = None
    candidates = design_heads(request)
    while True:
        try:
            found = next(candidates)
        except InfeasibleDesign as error:
            raise (refusal or error) from None
        try:
            return complete(request, found)
        except InfeasibleDesign as error:
            # That of the fewest heads is what there is to say if no more will do.
            refusal = refusal or error
