"""Equilibria of the moment system: found, checked and described (Theory 3).

    F(Sigma*) = 0,      (M(Sigma*) + Vbar) mu* = -(sum_h V_h Sigma* k_h + b)

Closed forms come first (Riccati case, balanced case), then the factor flow finished by Newton.
What is returned carries its relative residual and, where Newton-Kantorovich proves it, a radius
within which an exact equilibrium exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.enclosure import WhitenedPoint, form_evidence
from gausscontrol.analysis.newton import Root, polish, scaled_residual
from gausscontrol.analysis.search import balanced_covariance, default_starts, follow_flow
from gausscontrol.analysis.spectra import covariance_abscissa, matrix_abscissa
from gausscontrol.errors import EquilibriumNotFound, MatrixEquationError, ParameterError
from gausscontrol.linalg.arrays import real_array, real_vector
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import covariance_matrix, factor, symmetrise, whitening
from gausscontrol.model.moments import MomentField, read_moments
from gausscontrol.model.structure import common_key, riccati_gain, trace_obstruction
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.systems.iosys import MomentSystem

__all__ = [
    "Equilibrium",
    "existence_bounds",
    "find_equilibria",
    "find_equilibrium",
    "place_mean",
]

RANDOM_STARTS = 4
# Flow tolerances at which Newton is tried: near is usually enough, closer when it is not.
FLOW_TOLERANCES = (3e-2, 1e-4)
# Whitened distance below which two solutions are one.
SAME = 1e-6
# An abscissa this small against the linearisation is zero to rounding.
NEUTRAL = 1e-12
SINGULAR_MEAN = 1e-13
# Relative size below which the sign of an eigenvalue is left undecided.
NEARLY_SINGULAR = 1e-12


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """An equilibrium (mu*, Sigma*) of the moment system.

    Attributes
    ----------
    model : GaussianTransformer
    mean : (d,) ndarray or None
        None where M + Vbar is singular and the mean equation has no solution. [x]
    covariance : (d, d) ndarray
        [x]^2
    rank : int
    residual : float
        |F(Sigma*)| over the size of its terms, in whitened coordinates.
    existence_radius : float or None
        An exact equilibrium is proven to exist within this Frobenius distance of `covariance`
        (Theory 3.4), None if the test failed or was not made. [x]^2
    method : str
        "lyapunov", "balanced", "flow" or "newton".
    covariance_abscissa, mean_abscissa : float
        Largest real part of the eigenvalues of the covariance linearisation and of M + Vbar;
        with dt > 0, log(spectral radius)/dt. [1/t]
    covariance_is_stable, mean_is_stable : bool
        Whether the abscissa is negative beyond rounding.
    is_isolated : bool or None
        True when existence is proven with a unique solution nearby, None when undecided.
    mean_is_unique : bool
    """

    model: GaussianTransformer
    mean: np.ndarray | None
    covariance: np.ndarray
    rank: int
    residual: float
    existence_radius: float | None
    method: str
    covariance_abscissa: float
    mean_abscissa: float
    covariance_is_stable: bool
    mean_is_stable: bool
    is_isolated: bool | None
    mean_is_unique: bool

    @property
    def is_stable(self) -> bool:
        """Whether both mean and covariance are locally exponentially stable."""
        return self.covariance_is_stable and self.mean_is_stable

    def operating_point(self, system: MomentSystem) -> ct.OperatingPoint:
        """Return the equilibrium as an operating point of a moment system.

        Parameters
        ----------
        system : MomentSystem
            In covariance form, of the same dimension and with zero offsets at the equilibrium.

        Returns
        -------
        ct.OperatingPoint

        Raises
        ------
        ParameterError
            If the system is in factor form, where the state of an equilibrium may keep rotating,
            or of another dimension, or the mean has no equilibrium.
        """
        if system.form == "factor":
            raise ParameterError(
                "system: expected the covariance form, found the factor form, whose state keeps "
                "rotating at an equilibrium; use moment_system(model)"
            )
        if system.dim != self.model.dim:
            raise ParameterError(
                f"system: expected d = {self.model.dim}, found d = {system.dim}; "
                "pass the system of this equilibrium's model"
            )
        if self.mean is None:
            raise ParameterError(
                "mean: the mean equation has no solution, so there is no operating point; "
                "choose b with place_mean"
            )
        x = system.state_vector(self.mean, self.covariance)
        u = np.zeros(system.ninputs)
        return ct.OperatingPoint(states=x, inputs=u, outputs=system.output(0, x, u))

    def __str__(self) -> str:
        kind = f"Equilibrium, d = {self.model.dim}, rank {self.rank}, by {self.method}"
        proven = (
            "existence not proven"
            if self.existence_radius is None
            else f"proven to exist within {self.existence_radius:.1e}"
        )
        values = np.linalg.eigvalsh(self.covariance)
        lines = [
            kind,
            f"  residual             {self.residual:.1e} relative, {proven}",
            f"  mean                 {_short(self.mean)} [x]",
            f"  covariance spectrum  {values[0]:.6g} to {values[-1]:.6g} [x]^2",
            f"  covariance abscissa  {_rate(self.covariance_abscissa, self.covariance_is_stable)}",
            f"  mean abscissa        {_rate(self.mean_abscissa, self.mean_is_stable)}",
        ]
        return "\n".join(lines)


def find_equilibria(
    model: GaussianTransformer,
    *,
    starts: int | Iterable[ArrayLike] | None = None,
    seed: int = 0,
) -> list[Equilibrium]:
    """Find the positive definite equilibria that a search comes upon.

    Parameters
    ----------
    model : GaussianTransformer
    starts : int or iterable of (d, d) array_like, optional
        Covariances to start from, or how many random ones to add to the deterministic ones.
    seed : int, optional
        Of the random starts.

    Returns
    -------
    list of Equilibrium
        Every distinct one that was found, stable ones first, then by abscissa. Empty if there is
        none to be found; the search is complete in the Riccati case, and where it ends at an
        equilibrium that attracts globally, which is the only one (Theory 4.1).

    Raises
    ------
    ParameterError
        If a start is not a positive definite d x d matrix.

    Notes
    -----
    Theory 3.1 to 3.3: Riccati case by one Lyapunov equation, balanced case, then the flow forward
    and backward from every start, finished by Newton, and Newton straight from every start.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> [found] = gct.find_equilibria(model)
    >>> bool(np.allclose(found.covariance, 2 * np.eye(2)))
    True
    """
    _check_model(model)
    chosen = _read_starts(model, starts, seed)
    roots: list[tuple[Root, str]] = []
    for root, method in _candidates(model, chosen):
        if not any(_is_same(root.covariance, known.covariance) for known, _ in roots):
            roots.append((root, method))
            if _attracts_globally(model, root):
                break
    found = [_describe(model, root, method) for root, method in roots]
    return sorted(found, key=lambda e: (not e.covariance_is_stable, e.covariance_abscissa))


def find_equilibrium(model: GaussianTransformer, guess: Any = None) -> Equilibrium:
    """Find one positive definite equilibrium.

    Parameters
    ----------
    model : GaussianTransformer
    guess : (d, d) array_like, tuple or packed state, optional
        Covariance, (mean, covariance) or packed state from which Newton's method starts; it
        returns the root it finds, stable or not. By default the search of `find_equilibria`,
        stopped at its first find, stable ones being sought first.

    Returns
    -------
    Equilibrium

    Raises
    ------
    EquilibriumNotFound
        If there is none, or none was found; the message says what was tried.
    ParameterError
        If the guess is not positive definite.

    Notes
    -----
    Theory 3.1 to 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> found = gct.find_equilibrium(model)
    >>> bool(np.allclose(found.covariance, 2)), found.is_stable
    (True, True)
    """
    _check_model(model)
    if guess is not None:
        start = _read_guess(model, guess)
        root = polish(model, start)
        if root is None:
            raise EquilibriumNotFound(
                "guess: Newton's method from it reached no positive definite equilibrium; "
                "try another guess, or none"
            )
        return _describe(model, root, "newton")
    for root, method in _candidates(model, _read_starts(model, None, 0)):
        return _describe(model, root, method)
    raise EquilibriumNotFound(_why_not_found(model))


def existence_bounds(model: GaussianTransformer) -> tuple[np.ndarray, np.ndarray] | None:
    """Bound a positive definite equilibrium without solving anything.

    In the coordinates B^(1/2), with a- <= a+ the extreme eigenvalues of A + A^T and v- <= v+
    those of V + V^T: if a- > 0 and v+ < 0, the interval
    (a-/|v-|) B^-1 <= Sigma <= (a+/|v+|) B^-1 holds an equilibrium and attracts every Sigma > 0.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth, one head or heads sharing B up to real factors, B = B^T > 0.

    Returns
    -------
    (lower, upper) : tuple of (d, d) ndarray, or None
        In the original coordinates, [x]^2; None where the conditions do not hold.

    Notes
    -----
    Theory 3.7. A sign that is within 1e-12 of its matrix of being zero counts as undecided.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> lower, upper = gct.existence_bounds(gct.GaussianTransformer(0.5, 1, -0.25))
    >>> print(lower, upper)
    [[2.]] [[2.]]
    """
    _check_model(model)
    head = common_key(model)
    if head is None or model.dt:
        return None
    B, V = head
    values = np.linalg.eigvalsh(B)
    if not values[0] > NEARLY_SINGULAR * values[-1]:
        return None
    inverse_root, root = whitening(B, "B")
    a = np.linalg.eigvalsh(2 * symmetrise(root @ model.A @ inverse_root))
    v = np.linalg.eigvalsh(2 * symmetrise(root @ V @ inverse_root))
    if not (a[0] > NEARLY_SINGULAR * np.abs(a).max() and -v[-1] > NEARLY_SINGULAR * -v[0]):
        return None
    inverse = symmetrise(inverse_root @ inverse_root)
    return a[0] / -v[0] * inverse, a[-1] / -v[-1] * inverse


def place_mean(
    model: GaussianTransformer, equilibrium: Equilibrium | ArrayLike, mean: ArrayLike
) -> GaussianTransformer:
    """Return the model whose bias b puts the equilibrium mean at a target.

    b = -(M(Sigma*) + Vbar) mu* - sum_h V_h Sigma* k_h; the covariance is not affected.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    mean : (d,) array_like
        Target mu*. [x]

    Returns
    -------
    GaussianTransformer

    Raises
    ------
    ShapeError, ParameterError
        If the covariance or the mean is invalid.

    Notes
    -----
    Theory 3.6.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> moved = gct.place_mean(model, gct.find_equilibrium(model), [3.0])
    >>> bool(np.allclose(gct.find_equilibrium(moved).mean, 3))
    True
    """
    _check_model(model)
    value = equilibrium.covariance if isinstance(equilibrium, Equilibrium) else equilibrium
    Sigma = covariance_matrix(value, "equilibrium", model.dim)
    target = real_vector(mean, "mean", model.dim)
    matrix = model.A + model.heads.attention(Sigma) + model.heads.total
    return model.replace(b=-matrix @ target - model.heads.tilt(Sigma, model.k))


# -- the search -------------------------------------------------------------------------------


def _candidates(model: GaussianTransformer, starts: list[np.ndarray]) -> Iterator[tuple[Root, str]]:
    closed = _riccati_root(model)
    if closed is not None:
        if closed[0] is not None:
            yield closed[0], "lyapunov"
        return
    if not model.dt and trace_obstruction(model):
        return
    balanced = _balanced_root(model)
    if balanced is not None:
        yield balanced, "balanced"
    for start in starts:
        yield from _flow_roots(model, start, reverse=False)
    if not model.dt:
        for start in starts:
            yield from _flow_roots(model, start, reverse=True)
    for start in starts:
        root = polish(model, start)
        if root is not None:
            yield root, "newton"


def _riccati_root(model: GaussianTransformer) -> tuple[Root | None] | None:
    """Return (root,) or (None,) when the Lyapunov equation decides, None when it does not."""
    gain = None if model.dt else riccati_gain(model)
    if gain is None:
        return None
    try:
        X = solve_lyapunov(model.A.T, gain)
    except MatrixEquationError:
        return None
    values, vectors = np.linalg.eigh(X)
    if abs(values[0]) <= NEARLY_SINGULAR * np.abs(values).max():
        return None
    if values[0] < 0:
        return (None,)
    Sigma = symmetrise(vectors / values @ vectors.T)
    return (polish(model, Sigma) or _root_at(model, Sigma),)


def _balanced_root(model: GaussianTransformer) -> Root | None:
    Sigma = balanced_covariance(model)
    if Sigma is None or np.linalg.norm(Sigma - Sigma.T) > 1e-10 * np.linalg.norm(Sigma):
        return None
    Sigma = symmetrise(Sigma)
    if not np.linalg.eigvalsh(Sigma)[0] > 1e-13 * np.linalg.norm(Sigma):
        return None
    return polish(model, Sigma)


def _root_at(model: GaussianTransformer, Sigma: np.ndarray) -> Root:
    return Root(Sigma, scaled_residual(model.whiten(Sigma))[1])


def _flow_roots(
    model: GaussianTransformer, start: np.ndarray, *, reverse: bool
) -> Iterator[tuple[Root, str]]:
    flowing = model.reversed() if reverse else model
    L = factor(start)
    for tolerance in FLOW_TOLERANCES:
        arrival = follow_flow(flowing, L, tolerance)
        if not arrival.settled:
            return
        L = arrival.factor
        root = polish(model, symmetrise(L @ L.T))
        if root is not None:
            yield root, "flow"
            return


def _attracts_globally(model: GaussianTransformer, root: Root) -> bool:
    # Then no other positive definite equilibrium exists (Theory 4.1), and the search is over.
    return not model.dt and form_evidence(WhitenedPoint(model, root.covariance)).margin > 0


def _is_same(first: np.ndarray, second: np.ndarray) -> bool:
    R, _ = whitening(second)
    return bool(np.linalg.norm(R @ (first - second) @ R) < SAME * np.sqrt(len(R)))


# -- describing what was found --------------------------------------------------------------------


def _describe(model: GaussianTransformer, root: Root, method: str) -> Equilibrium:
    Sigma = root.covariance
    point = WhitenedPoint(model, Sigma)
    white = point.white
    abscissa = covariance_abscissa(white)
    mean, unique = _mean_solution(point)
    mean_matrix = MomentField.of(white)._mean_by_mean(np.eye(model.dim))
    mean_abscissa = matrix_abscissa(mean_matrix, model.dt)
    proven = bool(np.isfinite(point.radius))
    drift_size = np.linalg.norm(white.A) + point.bound
    mean_size = drift_size + np.linalg.norm(white.heads.total)
    return Equilibrium(
        model=model,
        mean=mean,
        covariance=Sigma,
        rank=model.dim,
        residual=root.residual,
        existence_radius=point.distance(point.radius) if proven else None,
        method=method,
        covariance_abscissa=abscissa,
        mean_abscissa=mean_abscissa,
        covariance_is_stable=bool(abscissa < -NEUTRAL * drift_size),
        mean_is_stable=bool(mean_abscissa < -NEUTRAL * mean_size),
        is_isolated=True if proven else None,
        mean_is_unique=unique,
    )


def _mean_solution(point: WhitenedPoint) -> tuple[np.ndarray | None, bool]:
    """Solve the mean equation in whitened coordinates, where "singular" has no unit."""
    white, identity = point.white, np.eye(point.white.dim)
    forcing = white.heads.tilt(identity, white.k) + white.b
    sizes = (white.A, point.drift, white.heads.total)
    U, values, Wt = np.linalg.svd(point.drift + white.heads.total)
    large = values > SINGULAR_MEAN * white.dim * max(np.linalg.norm(M, 2) for M in sizes)
    weights = U.T @ -forcing
    mean = point.root @ (Wt[large].T @ (weights[large] / values[large]))
    if large.all():
        return mean, True
    missed = np.linalg.norm(weights[~large]) > 1e-10 * np.linalg.norm(forcing)
    return None if missed else mean, False


# -- arguments and words --------------------------------------------------------------------------


def _check_model(model: Any) -> None:
    if not isinstance(model, GaussianTransformer):
        raise ParameterError(
            f"model: expected a GaussianTransformer, found {type(model).__name__}; "
            "make one with gausscontrol.GaussianTransformer(A, B, V)"
        )


def _read_starts(model: GaussianTransformer, starts: Any, seed: Any) -> list[np.ndarray]:
    if not _is_count(seed):
        raise ParameterError(f"seed: expected an integer of at least 0, found {seed!r}; pass one")
    if starts is None or _is_count(starts):
        count = RANDOM_STARTS if starts is None else int(starts)
        return list(default_starts(model, count, int(seed)))
    if isinstance(starts, str) or not isinstance(starts, Iterable) or np.ndim(starts) == 0:
        raise ParameterError(
            f"starts: expected covariances or a count of at least 0, found {starts!r}; "
            "pass a list of positive definite matrices"
        )
    return [_positive_definite(start, f"starts[{i}]", model.dim) for i, start in enumerate(starts)]


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 0


def _read_guess(model: GaussianTransformer, guess: Any) -> np.ndarray:
    dim = model.dim
    if isinstance(guess, Equilibrium):
        return _positive_definite(guess.covariance, "guess", dim)
    is_pair = isinstance(guess, tuple) and len(guess) == 2
    array = None if is_pair else real_array(guess, "guess")
    if is_pair or array.shape == (dim + dim * (dim + 1) // 2,):
        return _positive_definite(read_moments(guess, "guess", dim)[1], "guess", dim)
    return _positive_definite(array, "guess", dim)


def _positive_definite(value: ArrayLike, name: str, dim: int) -> np.ndarray:
    covariance = covariance_matrix(value, name, dim)
    whitening(covariance, name)
    return covariance


def _why_not_found(model: GaussianTransformer) -> str:
    head = "model: no positive definite equilibrium"
    if not model.dt:
        decided = _riccati_root(model)
        if decided is not None and decided[0] is None:
            return (
                f"{head}: the Lyapunov equation A^T X + X A = -G has a unique solution X and it "
                "is not positive definite, so none exists"
            )
        obstruction = trace_obstruction(model)
        if obstruction:
            return f"{head}: {obstruction}"
    return (
        f"{head} found: tried the closed forms, the flow forward and backward and Newton's method "
        f"from {len(_read_starts(model, None, 0))} starts; pass a guess, or "
        "find_equilibria(model, starts=...)"
    )


def _rate(abscissa: float, stable: bool) -> str:
    return f"{abscissa:.6g} per unit depth, {'stable' if stable else 'not stable'}"


def _short(vector: np.ndarray | None) -> str:
    if vector is None:
        return "none: the mean equation has no solution"
    shown = ", ".join(f"{value:.6g}" for value in vector[:6])
    return f"({shown}{', ...' if vector.size > 6 else ''})"
