"""What a design is asked for: reading and checking the arguments (Theory 7a).

Whitened coordinates R = Sigma*^(-1/2) take the target covariance to I:

    A~ = R A R^-1,   V~ = R V R^-1,   B~ = R^-1 B R^-1

Assumptions: the target covariance is positive definite; matrices that are not free are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_matrix, real_vector
from gausscontrol.linalg.bures import moment_pair
from gausscontrol.linalg.lmi import check_solver
from gausscontrol.linalg.symmetric import covariance_matrix, symmetrise, whitening
from gausscontrol.model.parameters import read_heads, read_layer_depth
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["FREE", "Request", "read_request"]

# What may be free together.
FREE = (("V",), ("B",), ("A", "V"), ("A", "B"), ("V", "B"))
# Spectral norm that whitened heads may have where A is fixed and nothing else is said.
WHITENED_BOUND = 100.0
ADVICE = "give decay_rate or norm_bound, since with A free the rate has no upper bound"


@dataclass(frozen=True, eq=False)
class Request:
    """A design problem in words of arrays.

    Attributes
    ----------
    mean, covariance : ndarray
        The target.
    R, root : (d, d) ndarray
        Sigma*^(-1/2) and Sigma*^(1/2).
    fixed : dict
        The given ones among A (d, d), V and B (h, d, d), in original coordinates.
    free : tuple of str
    n_heads : int or None
    decay_rate, mean_decay_rate : float or None
    bounds : dict
        Spectral norms for free matrices, in original coordinates; whitened if `default_bounds`.
    """

    mean: np.ndarray
    covariance: np.ndarray
    R: np.ndarray
    root: np.ndarray
    fixed: dict[str, np.ndarray]
    free: tuple[str, ...]
    n_heads: int | None
    decay_rate: float | None
    mean_decay_rate: float | None
    bounds: dict[str, float]
    default_bounds: bool
    dt: float
    constraints: Callable[[dict[str, Any]], Iterable[Any]] | None
    objective: Callable[[dict[str, Any]], Any] | None
    initial: GaussianTransformer | None
    solver: str | None
    verbose: bool

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.mean.size

    def whitened(self, name: str) -> np.ndarray:
        """Return a fixed matrix in whitened coordinates."""
        return self.whiten(name, self.fixed[name])

    def whiten(self, name: str, value: np.ndarray) -> np.ndarray:
        """Carry A, V or B to whitened coordinates."""
        left = self.root if name == "B" else self.R
        return left @ value @ self.root

    def restore(self, name: str, white: np.ndarray) -> np.ndarray:
        """Carry A, V or B back to original coordinates; entries that are rounding become zero."""
        left = self.R if name == "B" else self.root
        value = left @ white @ self.R
        size = np.abs(left) @ np.abs(white) @ np.abs(self.R)
        level = 4 * self.dim * np.finfo(float).eps * size
        return np.where(np.abs(value) <= level, 0.0, value)

    @property
    def best_alpha(self) -> float | None:
        """Return tr A / d, which alpha cannot exceed; None where A is free (Theory 4.2)."""
        return float(np.trace(self.fixed["A"])) / self.dim if "A" in self.fixed else None

    @property
    def alpha(self) -> float | None:
        """The alpha of Theory 4.2 that the decay rate asks for."""
        return None if self.decay_rate is None else self.rate_to_alpha(self.decay_rate)

    def rate_to_alpha(self, rate: float) -> float:
        """Return alpha: 2 alpha = rate, or (1 - 2 dt alpha) = exp(-dt rate)."""
        return -np.expm1(-self.dt * rate) / (2 * self.dt) if self.dt else rate / 2

    def alpha_to_rate(self, alpha: float) -> float:
        """Return the decay rate that belongs to alpha, infinite if one layer is enough."""
        if not self.dt:
            return 2 * alpha
        left = 1 - 2 * self.dt * alpha
        return -np.log(left) / self.dt if left > 0 else np.inf

    @property
    def gamma(self) -> float | None:
        """What the mean's decay rate asks of sym(Vbar), per unit depth."""
        rate = self.mean_decay_rate
        if rate is None or not self.dt:
            return rate
        return -np.expm1(-self.dt * rate) / self.dt


def read_request(
    target: Any,
    *,
    A: Any,
    B: Any,
    V: Any,
    free: Any,
    decay_rate: Any,
    mean_decay_rate: Any,
    norm_bound: Any,
    n_heads: Any,
    dt: Any,
    constraints: Any,
    objective: Any,
    initial: Any,
    solver: Any,
    verbose: Any,
) -> Request:
    """Check the arguments of `design`, whose docstring says what they mean.

    Returns
    -------
    Request

    Raises
    ------
    ParameterError, ShapeError
        If an argument makes no sense; the message names it.
    """
    mean, Sigma = _read_target(target)
    R, root = whitening(Sigma, "target")
    names = _read_free(free)
    initial = _read_initial(initial, mean.size)
    fixed = _read_fixed({"A": A, "V": V, "B": B}, names, initial, mean.size)
    rate = _read_rate(decay_rate, "decay_rate")
    bounds, default = _read_bounds(norm_bound, names)
    if not bounds and "A" in names and rate is None:
        raise ParameterError(f"norm_bound: expected one, or a decay_rate, found neither; {ADVICE}")
    return Request(
        mean=mean,
        covariance=Sigma,
        R=R,
        root=root,
        fixed=fixed,
        free=names,
        n_heads=_read_n_heads(n_heads, names),
        decay_rate=rate,
        mean_decay_rate=_read_rate(mean_decay_rate, "mean_decay_rate"),
        bounds=bounds,
        default_bounds=default,
        dt=read_layer_depth(dt),
        constraints=_read_callable(constraints, "constraints", "a list of cvxpy constraints"),
        objective=_read_callable(objective, "objective", "a cvxpy expression"),
        initial=initial,
        solver=None if solver is None else check_solver(solver),
        verbose=bool(verbose),
    )


def _read_target(target: Any) -> tuple[np.ndarray, np.ndarray]:
    target = moment_pair(target, "target")
    if isinstance(target, np.ndarray) or not isinstance(target, Iterable):
        raise ParameterError(
            f"target: expected (mean, covariance), found {type(target).__name__}; pass a pair"
        )
    pair = tuple(target)
    if len(pair) != 2:
        raise ParameterError(
            f"target: expected (mean, covariance), found {len(pair)} items; pass a pair"
        )
    mean = real_vector(pair[0], "target mean")
    Sigma = covariance_matrix(pair[1], "target covariance")
    dim = len(Sigma)
    if mean.size != dim:
        raise ShapeError(
            f"target mean: expected {dim} entries, as the covariance is {dim} x {dim}, found "
            f"{mean.size}; make them agree"
        )
    whitening(Sigma, "target covariance")
    return mean, symmetrise(Sigma)


def _read_free(free: Any) -> tuple[str, ...]:
    choices = ", ".join(map(str, FREE))
    found = tuple(free) if isinstance(free, Iterable) else (free,)
    for names in FREE:
        if len(found) == len(names) and set(found) == set(names):
            return names
    raise ParameterError(f"free: expected one of {choices}, found {free!r}; choose one")


def _read_initial(initial: Any, dim: int) -> GaussianTransformer | None:
    if initial is None:
        return None
    check_single_model(initial, "initial")
    if initial.dim != dim:
        raise ShapeError(
            f"initial: expected d = {dim} as in the target, found d = {initial.dim}; "
            "make them agree"
        )
    return initial


def _read_fixed(
    given: dict[str, Any], free: tuple[str, ...], initial: GaussianTransformer | None, dim: int
) -> dict[str, np.ndarray]:
    fixed = {}
    for name, value in given.items():
        if name in free:
            if value is not None:
                raise ParameterError(
                    f"{name}: expected nothing, since free={free!r} leaves it to the design, found "
                    "a value; drop it, or pass it in initial= to stay near it"
                )
            continue
        if value is None and initial is not None:
            value = getattr(initial, name)
        if value is None:
            raise ParameterError(
                f"{name}: expected a matrix, since it is not among free={free!r}, found none; "
                f"pass {name}=..., or free it"
            )
        if name == "A":
            fixed[name] = real_matrix(value, "A", (dim, dim))
        else:
            fixed[name] = read_heads(value, name, dim)
    other = "B" if "V" in free else "V"
    if initial is not None and other in fixed and len(fixed[other]) != initial.n_heads:
        raise ShapeError(
            f"initial: expected {len(fixed[other])} head(s) as in {other}, found "
            f"{initial.n_heads}; make them agree"
        )
    return fixed


def _read_rate(value: Any, name: str) -> float | None:
    return None if value is None else _positive(value, name, "a positive rate per unit depth")


def _positive(value: Any, name: str, wanted: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | np.ndarray):
        raise ParameterError(f"{name}: expected {wanted}, found {value!r}; pass a number")
    number = real_array(value, name)
    if number.size != 1 or not number > 0:
        raise ParameterError(f"{name}: expected {wanted}, found {value!r}; pass a number above 0")
    return float(number.reshape(()))


def _read_bounds(norm_bound: Any, free: tuple[str, ...]) -> tuple[dict[str, float], bool]:
    if norm_bound is None:
        if "A" in free:
            return {}, False
        return dict.fromkeys(free, WHITENED_BOUND), True
    if not isinstance(norm_bound, Mapping):
        return dict.fromkeys(free, _positive(norm_bound, "norm_bound", "a positive norm")), False
    if not norm_bound:
        raise ParameterError("norm_bound: expected at least one bound, found {}; leave it out")
    for name in norm_bound:
        if name not in free:
            raise ParameterError(
                f"norm_bound: expected bounds on {' and '.join(free)}, which are free, found one "
                f"on {name!r}; drop it"
            )
    wanted = "a positive norm"
    return {n: _positive(v, f"norm_bound[{n!r}]", wanted) for n, v in norm_bound.items()}, False


def _read_n_heads(n_heads: Any, free: tuple[str, ...]) -> int | None:
    if n_heads is None:
        return None
    if not isinstance(n_heads, Integral) or isinstance(n_heads, bool) or n_heads < 1:
        raise ParameterError(f"n_heads: expected a positive integer, found {n_heads!r}; pass one")
    if free != ("V", "B"):
        fixed = "B" if "V" in free else "V"
        raise ParameterError(
            f"n_heads: expected nothing, since {fixed} says how many heads there are, found "
            f"{n_heads}; drop it, or use free=('V', 'B')"
        )
    return int(n_heads)


def _read_callable(value: Any, name: str, result: str) -> Any:
    if value is not None and not callable(value):
        raise ParameterError(
            f"{name}: expected a function of the variables that returns {result}, found "
            f"{type(value).__name__}; pass a function such as lambda variables: ..."
        )
    return value
