"""Two-layer feed-forward parts and their affine closures under Gaussian tokens (Theory 8.1).

    f(x) = W2 act(W1 x + c1) + c2            or            W2 (act(W_g x + c_g) * (W1 x + c1)) + c2

For x ~ N(mu, Sigma) the affine map nearest to f in mean square has the slope A_eq = E Df(x) and
the offset b_eq = E f - A_eq mu; with them mean and covariance of an affine layer move exactly as
those of f do at that instant. How far f is from this map is the gap (Theory 8.2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_matrix, real_vector
from gausscontrol.linalg.bures import equilibrated_factor
from gausscontrol.model.packing import read_moments
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.tokens.activations import ACTIVATIONS
from gausscontrol.tokens.gap import Gap, closure_gap
from gausscontrol.tokens.units import Units

__all__ = ["Closure", "FeedForward"]

# Hidden values held at once when f is applied to many tokens.
CHUNK = 4_000_000
# Condition number beyond which a coordinate change loses all digits.
CONDITION_LIMIT = 1e13


class Closure(NamedTuple):
    """Affine closure of a feed-forward part at a Gaussian.

    Parameters
    ----------
    A_eq : (d, d) ndarray
        E Df(x). [1/t]
    b_eq : (d,) ndarray
        E f(x) - A_eq mu. [x/t]
    gap : float
        Root of E |f(x) - A_eq x - b_eq|^2. [x/t]
    """

    A_eq: np.ndarray
    b_eq: np.ndarray
    gap: float


class FeedForward:
    """Two-layer feed-forward part of a Transformer layer.

    f(x) = W2 act(W1 x + c1) + c2, or with a gate W2 (act(W_g x + c_g) * (W1 x + c1)) + c2.

    Parameters
    ----------
    W1 : (m, d) array_like
        Weights into the m hidden units.
    c1 : (m,) array_like or None
        Their bias; None is zero.
    W2 : (d, m) array_like
        Weights out of them.
    c2 : (d,) array_like or None
        Output bias; None is zero. [x/t]
    activation : {"relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "identity"}, optional
        "gelu" is z Phi(z), "gelu_tanh" its usual approximation by tanh.
    gate : tuple, optional
        (W_g, c_g), of the shapes of W1 and c1. The activation then acts on the gate: "silu" gives
        SwiGLU, "gelu" GEGLU, "relu" ReGLU, "sigmoid" GLU, "identity" a bilinear part.

    Attributes
    ----------
    W1, c1, W2, c2 : ndarray
    activation : str
    gate : tuple of ndarray or None
    dim, width : int
        d and m.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ParameterError
        If an entry is not a finite real number, or the activation is unknown.

    Notes
    -----
    Theory 8.1. All arrays are read-only copies. Calling the object applies f to tokens (N, d) or to
    one token (d,).

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> part = gct.tokens.FeedForward([[1.0]], None, [[2.0]], None)
    >>> print(part([3.0]), part([-3.0]))
    [6.] [0.]
    >>> closure = part.closure([0.0], [[1.0]])
    >>> bool(np.allclose(closure.A_eq, 1)), bool(np.allclose(closure.b_eq, 2 / np.sqrt(2 * np.pi)))
    (True, True)
    """

    def __init__(
        self,
        W1: ArrayLike,
        c1: ArrayLike | None,
        W2: ArrayLike,
        c2: ArrayLike | None,
        activation: str = "relu",
        *,
        gate: tuple[ArrayLike, ArrayLike | None] | None = None,
    ) -> None:
        W1 = real_matrix(W1, "W1", (None, None))
        width, dim = W1.shape
        W2 = real_matrix(W2, "W2", (dim, width))
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise ParameterError(
                f"activation: expected one of {', '.join(ACTIVATIONS)}, found {activation!r}; "
                "use gelu_tanh for the tanh approximation of gelu"
            )
        self._set(
            W1, _bias(c1, "c1", width), W2, _bias(c2, "c2", dim), activation, _gate(gate, W1.shape)
        )

    def _set(self, W1, c1, W2, c2, activation, gate) -> None:
        for array in (W1, c1, W2, c2, *(gate or ())):
            array.flags.writeable = False
        act = ACTIVATIONS[activation]
        units = Units(act, W1, c1, None, None) if gate is None else Units(act, *gate, W1, c1)
        self.__dict__.update(
            W1=W1, c1=c1, W2=W2, c2=c2, activation=activation, gate=gate, units=units
        )

    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError(
            f"{attribute}: a FeedForward is immutable; make another with changed weights"
        )

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"{attribute}: a FeedForward is immutable; nothing is deleted")

    def __reduce__(self):
        return _rebuild, (self.W1, self.c1, self.W2, self.c2, self.activation, self.gate)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, FeedForward):
            return NotImplemented
        if self.activation != other.activation or (self.gate is None) != (other.gate is None):
            return False
        return all(map(np.array_equal, self._arrays, other._arrays))

    def __hash__(self) -> int:
        return hash((self.activation, *(array.tobytes() for array in self._arrays)))

    def __repr__(self) -> str:
        gated = "" if self.gate is None else ", gated"
        return f"FeedForward(d = {self.dim}, width = {self.width}, {self.activation}{gated})"

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (self.W1, self.c1, self.W2, self.c2, *(self.gate or ()))

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.W1.shape[1]

    @property
    def width(self) -> int:
        """Number of hidden units m."""
        return self.W1.shape[0]

    def __call__(self, tokens: ArrayLike) -> np.ndarray:
        """Apply f to tokens.

        Parameters
        ----------
        tokens : (N, d) or (d,) array_like
            [x]

        Returns
        -------
        (N, d) or (d,) ndarray
            [x/t]

        Raises
        ------
        ShapeError, ParameterError
            If they are not real tokens of dimension d.
        """
        x = real_array(tokens, "tokens")
        if x.ndim not in (1, 2) or x.shape[-1] != self.dim:
            raise ShapeError(
                f"tokens: expected shape (N, {self.dim}) or ({self.dim},), found {x.shape}; "
                "put one token in each row"
            )
        rows = x.reshape(-1, self.dim)
        out = np.empty_like(rows)
        size = max(1, CHUNK // self.width)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            out[part] = self.units(rows[part]) @ self.W2.T + self.c2
        return out.reshape(x.shape)

    def closure(self, mean: ArrayLike, covariance: ArrayLike) -> Closure:
        """Return the affine closure at a Gaussian, and its gap.

        A_eq = E Df(x), b_eq = E f(x) - A_eq mu, gap^2 = E |f(x) - A_eq x - b_eq|^2.

        Parameters
        ----------
        mean : (d,) array_like
            [x]
        covariance : (d, d) array_like
            Positive semidefinite; a singular one, zero included, is exact too. [x]^2

        Returns
        -------
        Closure
            A_eq, b_eq, gap.

        Raises
        ------
        ShapeError, ParameterError
            If the moments are invalid.

        See Also
        --------
        gap : The gap alone, with a bound on its error.
        frozen : The model whose affine part this closure is.

        Notes
        -----
        Theory 8.1, 8.2. A_eq and b_eq are exact to rounding for every activation.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> part = gct.tokens.FeedForward(np.eye(2), None, -np.eye(2), None, "tanh")
        >>> A_eq, b_eq, gap = part.closure([0.0, 0.0], np.eye(2))
        >>> bool(np.allclose(A_eq, -0.6057055 * np.eye(2)))
        True
        """
        mean, S = read_moments((mean, covariance), "Gaussian", self.dim)
        A_eq, b_eq = self.affine(mean, S)
        gap = closure_gap(self.units, self.W2, mean, equilibrated_factor(S))
        return Closure(A_eq, b_eq, gap.value)

    def gap(self, mean: ArrayLike, covariance: ArrayLike) -> Gap:
        """Return the gap of the closure with a bound on its error.

        Parameters
        ----------
        mean : (d,) array_like
            [x]
        covariance : (d, d) array_like
            Positive semidefinite. [x]^2

        Returns
        -------
        Gap

        Raises
        ------
        ShapeError, ParameterError
            If the moments are invalid.

        Notes
        -----
        Theory 8.2.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> part = gct.tokens.FeedForward([[1.0]], None, [[1.0]], None)
        >>> gap = part.gap([0.0], [[1.0]])
        >>> bool(np.allclose(gap.value, np.sqrt(0.25 - 0.5 / np.pi)))
        True
        """
        mean, S = read_moments((mean, covariance), "Gaussian", self.dim)
        return closure_gap(self.units, self.W2, mean, equilibrated_factor(S))

    def affine(self, mean: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A_eq and b_eq without validation, for any symmetric S.

        Parameters
        ----------
        mean : (d,) ndarray
            [x]
        S : (d, d) ndarray
            [x]^2

        Returns
        -------
        (d, d) ndarray, (d,) ndarray
        """
        moments = self.units.moments(mean, S, 1)
        A_eq = self.units.mean_slopes(self.W2, moments)
        return A_eq, self.W2 @ moments.b[0] + self.c2 - A_eq @ mean

    def frozen(
        self, model: GaussianTransformer, mean: ArrayLike, covariance: ArrayLike
    ) -> GaussianTransformer:
        """Return the model with this part replaced by its closure.

        A -> A + A_eq, b -> b + b_eq, so that every analysis, design and certificate applies.

        Parameters
        ----------
        model : GaussianTransformer
            The layer without this part: x' = A x + b + f(x) + attention.
        mean : (d,) array_like
            [x]
        covariance : (d, d) array_like
            Positive semidefinite. [x]^2

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ShapeError, ParameterError
            If the model is of another dimension, or the moments are invalid.

        Notes
        -----
        Theory 8.1. What is said of the frozen model is said of the closure at this one Gaussian.
        Its linearisation is not that of `closure_system`, whose A_eq moves with the moments.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> part = gct.tokens.FeedForward(np.eye(2), None, np.eye(2), None)
        >>> model = gct.GaussianTransformer(np.zeros((2, 2)), np.eye(2), -0.25 * np.eye(2))
        >>> frozen = part.frozen(model, [0, 0], 2 * np.eye(2))
        >>> bool(np.allclose(frozen.drift(2 * np.eye(2)), 0))
        True
        """
        check_partners(model, self)
        mean, S = read_moments((mean, covariance), "Gaussian", self.dim)
        A_eq, b_eq = self.affine(mean, S)
        return model.replace(A=model.A + A_eq, b=model.b + b_eq)

    def transform(self, R: ArrayLike) -> FeedForward:
        """Return the part in the token coordinates R x, x -> R f(R^-1 x).

        Parameters
        ----------
        R : (d, d) array_like
            Invertible.

        Returns
        -------
        FeedForward

        Raises
        ------
        ShapeError, ParameterError
            If R is not an invertible d x d matrix.

        Notes
        -----
        Theory 1.7, 8.1. Goes with `GaussianTransformer.transform`.
        """
        R = real_matrix(R, "R", (self.dim, self.dim))
        condition = np.linalg.cond(R)
        if not condition < CONDITION_LIMIT:
            raise ParameterError(
                f"R: expected an invertible matrix, found condition number {condition:.2g}; "
                "pass a coordinate change of full rank"
            )
        inverse = np.linalg.inv(R)
        gate = None if self.gate is None else (self.gate[0] @ inverse, self.gate[1])
        return FeedForward(
            self.W1 @ inverse, self.c1, R @ self.W2, R @ self.c2, self.activation, gate=gate
        )


def check_partners(model: Any, feedforward: Any) -> None:
    """Raise unless a model and a feed-forward part go together."""
    check_single_model(model)
    if not isinstance(feedforward, FeedForward):
        raise ParameterError(
            f"feedforward: expected a FeedForward, found {type(feedforward).__name__}; "
            "make one with gausscontrol.tokens.FeedForward(W1, c1, W2, c2)"
        )
    if model.dim != feedforward.dim:
        raise ShapeError(
            f"feedforward: expected token dimension {model.dim} as in the model, found "
            f"{feedforward.dim}; W1 is (m, d) and W2 is (d, m)"
        )


def _rebuild(*parts) -> FeedForward:
    part = object.__new__(FeedForward)
    part._set(*parts)
    return part


def _bias(value: ArrayLike | None, name: str, size: int) -> np.ndarray:
    return np.zeros(size) if value is None else real_vector(value, name, size)


def _gate(gate: Any, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray] | None:
    if gate is None:
        return None
    if not isinstance(gate, (tuple, list)) or len(gate) != 2:
        raise ParameterError(
            f"gate: expected a pair (W_g, c_g), found {type(gate).__name__}; "
            "pass (W_g, None) for a gate without bias"
        )
    return real_matrix(gate[0], "gate W_g", shape), _bias(gate[1], "gate c_g", shape[0])
