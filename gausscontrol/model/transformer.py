"""The parameters (A, B, V, b, k, dt) of a Gaussian Transformer (Theory 1).

    mu'    = (M(Sigma) + Vbar) mu + sum_h V_h Sigma k_h + b
    Sigma' = M(Sigma) Sigma + Sigma M(Sigma)^T,   M(S) = A + T(S),  T(S) = sum_h V_h S B_h

`GaussianTransformer` is immutable and validated once, so that everything downstream may trust it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_matrix, real_vector
from gausscontrol.linalg.symmetric import covariance_matrix, whitening
from gausscontrol.model import notation
from gausscontrol.model.heads import DenseHeads, Heads
from gausscontrol.model.parameters import (
    read_heads,
    read_label,
    read_layer_depth,
    read_tilts,
    read_weights,
    split_heads,
)

__all__ = ["GaussianTransformer"]

PARAMETERS = ("A", "B", "V", "b", "k", "dt", "name")
# What an instance holds; B and V are those of the heads.
PARTS = ("A", "heads", "b", "k", "dt", "name")

# A coordinate change whose condition number exceeds this loses all digits.
CONDITION_LIMIT = 1e13


class GaussianTransformer:
    """Parameters of a Transformer layer acting on Gaussian tokens.

    A token distribution N(mu, Sigma) moves along the depth t by::

        mu'    = (M(Sigma) + Vbar) mu + sum_h V_h Sigma k_h + b
        Sigma' = M(Sigma) Sigma + Sigma M(Sigma)^T,    M(S) = A + sum_h V_h S B_h

    with Vbar = sum_h V_h. With dt > 0 it is a residual network instead: D = I + dt M(Sigma),
    mu+ = mu + dt mu', Sigma+ = D Sigma D^T.

    Parameters
    ----------
    A : (d, d) array_like
        Feed-forward matrix. [1/t]
    B : (d, d) or (h, d, d) array_like
        Key-query matrix of each head. [1/x^2]
    V : (d, d) or (h, d, d) array_like
        Value matrix of each head. [1/t]
    b : (d,) array_like, optional
        Feed-forward bias, zero by default. [x/t]
    k : (d,) or (h, d) array_like, optional
        Tilt of each head, from a query bias; zero by default. [1/x]
    dt : float, optional
        0 (default) for continuous depth, the depth of one layer otherwise. [t]
    name : str, optional
        A label for reports.

    Attributes
    ----------
    A : (d, d) ndarray
    B, V : (h, d, d) ndarray
    b : (d,) ndarray
    k : (h, d) ndarray
    dt : float
    name : str or None
    dim, n_heads : int

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ParameterError
        If an entry is not a finite real number, or dt is negative.

    Notes
    -----
    Theory 1.1 to 1.4; with one head and k = 0 this is system (1) of Alcalde, Ji and Zuazua,
    arXiv 2606.07600. All arrays are read-only copies; `replace` makes a changed model.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> bool(np.allclose(model.drift(2 * np.eye(2)), 0))
    True
    """

    def __init__(
        self,
        A: ArrayLike,
        B: ArrayLike,
        V: ArrayLike,
        b: ArrayLike | None = None,
        *,
        k: ArrayLike | None = None,
        dt: float = 0,
        name: str | None = None,
    ) -> None:
        A = real_matrix(A, "A")
        dim = A.shape[0]
        B, V = read_heads(B, "B", dim), read_heads(V, "V", dim)
        if B.shape != V.shape:
            raise ShapeError(
                f"V: expected {B.shape[0]} head(s) as in B, found {V.shape[0]}; "
                "pass one V for each B"
            )
        self._set(
            A,
            DenseHeads(V, B),
            np.zeros(dim) if b is None else real_vector(b, "b", dim),
            read_tilts(k, B.shape[0], dim),
            read_layer_depth(dt),
            read_label(name),
        )

    @classmethod
    def from_weights(
        cls,
        W_Q: ArrayLike,
        W_K: ArrayLike,
        W_V: ArrayLike,
        W_O: ArrayLike,
        *,
        b_Q: ArrayLike | None = None,
        b_V: ArrayLike | None = None,
        b_O: ArrayLike | None = None,
        A: ArrayLike | None = None,
        b: ArrayLike | None = None,
        scale: float | None = None,
        n_heads: int | None = None,
        dt: float = 0,
        name: str | None = None,
    ) -> GaussianTransformer:
        """Make a model from the weights of an attention block.

        V_h = W_O W_V, B_h = s W_K^T W_Q, k_h = s W_K^T b_Q; W_O b_V and b_O add to b, and a key
        bias drops out of the softmax. The factors are kept, so that all heads together cost what
        one dense head costs.

        Parameters
        ----------
        W_Q, W_K : (h, dk, d) array_like
            Query and key projections; grouped keys are repeated by the caller.
        W_V : (h, dv, d) array_like
            Value projections.
        W_O : (h, d, dv) array_like
            Output projection, one block per head.
        b_Q : (h, dk) array_like, optional
            Query bias.
        b_V : (h, dv) array_like, optional
            Value bias.
        b_O : (d,) array_like, optional
            Output bias.
        A : (d, d) array_like, optional
            Feed-forward matrix, zero by default. [1/t]
        b : (d,) array_like, optional
            Feed-forward bias, zero by default. [x/t]
        scale : float, optional
            Logit scale s, 1/sqrt(dk) by default.
        n_heads : int, optional
            Says that the heads stand side by side, as frameworks store them: W_Q, W_K and W_V are
            (h dk, d), W_O is (d, h dv), b_Q and b_V are (h dk,).
        dt : float, optional
            0 for continuous depth, the depth of one layer otherwise. [t]
        name : str, optional
            A label for reports.

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ShapeError, ParameterError
            If the weights do not agree or are not finite real numbers.

        Notes
        -----
        Theory 1.3. Layer-norm gains and LayerScale can be folded into the weights beforehand; the
        normalisation itself cannot. Without `n_heads` a two-dimensional array counts as one head,
        which the (d, d) weights of h heads that stand side by side cannot be told from.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> W = np.eye(4).reshape(2, 2, 4)
        >>> model = gct.GaussianTransformer.from_weights(W, W, W, W.transpose(0, 2, 1))
        >>> bool(np.allclose(model.V.sum(axis=0), np.eye(4)))
        True
        """
        if n_heads is not None:
            side_by_side = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "b_Q": b_Q, "b_V": b_V}
            W_Q, W_K, W_V, b_Q, b_V = (
                split_heads(value, name, n_heads) for name, value in side_by_side.items()
            )
            W_O = split_heads(W_O, "W_O", n_heads, columns=True)
        heads, k, bias = read_weights(W_Q, W_K, W_V, W_O, b_Q=b_Q, b_V=b_V, b_O=b_O, scale=scale)
        dim = heads.dim
        matrix = np.zeros((dim, dim)) if A is None else real_matrix(A, "A", (dim, dim))
        if b is not None:
            bias = bias + real_vector(b, "b", dim)
        return cls._of(matrix, heads, bias, k, read_layer_depth(dt), read_label(name))

    def _set(
        self,
        A: np.ndarray,
        heads: Heads,
        b: np.ndarray,
        k: np.ndarray,
        dt: float,
        name: str | None,
    ) -> None:
        for array in (A, *heads.arrays, b, k):
            array.flags.writeable = False
        self.__dict__.update(A=A, heads=heads, b=b, k=k, dt=dt, name=name)

    @classmethod
    def _of(cls, *parts: Any) -> GaussianTransformer:
        # Of arrays that have been validated, by the constructor or here.
        model = object.__new__(cls)
        model._set(*parts)
        return model

    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError(
            f"{attribute}: a GaussianTransformer is immutable; use model.replace({attribute}=...)"
        )

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"{attribute}: a GaussianTransformer is immutable; nothing is deleted")

    def __reduce__(self):
        return GaussianTransformer._of, tuple(getattr(self, part) for part in PARTS)

    @property
    def B(self) -> np.ndarray:
        """Key-query matrices, (h, d, d). [1/x^2]."""
        return self.heads.B

    @property
    def V(self) -> np.ndarray:
        """Value matrices, (h, d, d). [1/t]."""
        return self.heads.V

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.A.shape[0]

    @property
    def n_heads(self) -> int:
        """Number of heads h."""
        return self.heads.n_heads

    def attention(self, S: ArrayLike) -> np.ndarray:
        """Return the attention operator T(S) = sum_h V_h S B_h.

        Parameters
        ----------
        S : (d, d) array_like
            Any matrix, usually a covariance. [x]^2

        Returns
        -------
        (d, d) ndarray
            [1/t]

        Raises
        ------
        ShapeError, ParameterError
            If S is not a real d x d matrix.
        """
        return self.heads.attention(real_matrix(S, "S", (self.dim, self.dim)))

    def drift(self, S: ArrayLike) -> np.ndarray:
        """Return the token drift matrix M(S) = A + T(S).

        Parameters
        ----------
        S : (d, d) array_like
            Any matrix, usually a covariance. [x]^2

        Returns
        -------
        (d, d) ndarray
            [1/t]

        Raises
        ------
        ShapeError, ParameterError
            If S is not a real d x d matrix.
        """
        return self.A + self.attention(S)

    def transform(self, R: ArrayLike) -> GaussianTransformer:
        """Return the model in the coordinates R x.

        A -> R A R^-1, V -> R V R^-1, B -> R^-T B R^-1, b -> R b, k -> R^-T k; then mu -> R mu and
        Sigma -> R Sigma R^T.

        Parameters
        ----------
        R : (d, d) array_like
            Invertible.

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ParameterError
            If R is singular to working precision, or so large or small that a parameter overflows.

        Notes
        -----
        Theory 1.7.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> model = gct.GaussianTransformer(np.diag([1.0, 2.0]), np.eye(2), -np.eye(2))
        >>> moved = model.transform([[0.0, 1.0], [1.0, 0.0]])
        >>> bool(np.allclose(moved.A, np.diag([2.0, 1.0])))
        True
        """
        R = real_matrix(R, "R", (self.dim, self.dim))
        condition = np.linalg.cond(R)
        if not condition < CONDITION_LIMIT:
            raise ParameterError(
                f"R: expected an invertible matrix, found condition number {condition:.2g}; "
                "pass a coordinate change of full rank"
            )
        return self.in_coordinates(R, np.linalg.inv(R), "R")

    def in_coordinates(
        self, R: np.ndarray, R_inverse: np.ndarray, name: str = "R"
    ) -> GaussianTransformer:
        """Return `transform(R)`, given the inverse too.

        Parameters
        ----------
        R, R_inverse : (d, d) ndarray
            A coordinate change and its inverse; not validated.
        name : str, optional
            The argument's name, for the message about overflow.

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ParameterError
            If a new parameter overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._like(
                name,
                A=R @ self.A @ R_inverse,
                heads=self.heads.transform(R, R_inverse),
                b=R @ self.b,
                k=self.k @ R_inverse,
            )

    def whiten(self, Sigma: ArrayLike) -> GaussianTransformer:
        """Return the model in coordinates where Sigma becomes I.

        Parameters
        ----------
        Sigma : (d, d) array_like
            Positive definite. [x]^2

        Returns
        -------
        GaussianTransformer
            `transform(Sigma^(-1/2))`.

        Raises
        ------
        ParameterError
            If Sigma is not symmetric positive definite.

        Notes
        -----
        Theory 1.7.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
        >>> white = model.whiten(2 * np.eye(2))
        >>> bool(np.allclose(gct.find_equilibrium(white).covariance, np.eye(2)))
        True
        """
        Sigma = covariance_matrix(Sigma, "Sigma", self.dim)
        return self.in_coordinates(*whitening(Sigma, "Sigma"), "Sigma")

    def reversed(self) -> GaussianTransformer:
        """Return the model that runs (1) backwards.

        (A, V, b) -> (-A, -V, -b).

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ParameterError
            If the depth is discrete, where a layer has no such inverse.

        Notes
        -----
        Theory 1.7. Stable equilibria become unstable ones and the reverse.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
        >>> bool(np.allclose(model.reversed().drift(3), -model.drift(3)))
        True
        """
        if self.dt:
            raise ParameterError(
                f"dt: reversal needs continuous depth, found dt = {self.dt:g}; "
                "use model.replace(dt=0).reversed()"
            )
        ones = np.ones(self.n_heads)
        return self._like("self", A=-self.A, heads=self.heads.scaled(-ones, ones), b=-self.b)

    def rescale_heads(self, scale: ArrayLike) -> GaussianTransformer:
        """Return the model under a change of head gauge.

        (V_h, B_h, k_h) -> (c_h V_h, B_h / c_h, k_h / c_h). Sigma' is unchanged; mu' changes through
        Vbar = sum_h V_h, so covariance verdicts are gauge invariant and mean verdicts are not.

        Parameters
        ----------
        scale : float or (h,) array_like
            Nonzero factors c_h.

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ShapeError
            If there is neither one factor nor one for each head.
        ParameterError
            If a factor is zero, or so large or small that a parameter overflows.

        Notes
        -----
        Theory 1.7.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
        >>> scaled = model.rescale_heads(4)
        >>> bool(np.allclose(scaled.drift(3), model.drift(3))), scaled.V.item()
        (True, -1.0)
        """
        factors = real_array(scale, "scale")
        if factors.shape not in ((), (self.n_heads,)):
            raise ShapeError(
                f"scale: expected a number or {self.n_heads} numbers, found shape "
                f"{factors.shape}; pass one factor per head"
            )
        if (factors == 0).any():
            raise ParameterError("scale: expected nonzero factors, found 0; drop that head instead")
        factors = np.broadcast_to(factors, (self.n_heads,))
        with np.errstate(over="ignore", invalid="ignore"):
            heads = self.heads.scaled(factors, 1 / factors)
            return self._like("scale", heads=heads, k=self.k / factors[:, None])

    def replace(self, **changes: Any) -> GaussianTransformer:
        """Return a copy with some of A, B, V, b, k, dt, name replaced.

        Parameters
        ----------
        **changes
            New values, validated as in the constructor; b and k may be left out when they are
            zero, whatever the new dimension or number of heads.

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        TypeError
            If a keyword is not one of the parameters.
        """
        unknown = sorted(set(changes) - set(PARAMETERS))
        if unknown:
            raise TypeError(
                f"unrecognized keyword(s): {', '.join(unknown)}; "
                f"replace takes {', '.join(PARAMETERS)}"
            )
        values = {key: getattr(self, key) for key in PARAMETERS if key not in "BV"}
        if not {"B", "V"} & set(changes):
            return self._with_same_heads(values | changes)
        for key in ("b", "k"):
            if not values[key].any():
                values[key] = None
        return GaussianTransformer(**({"B": self.B, "V": self.V} | values | changes))

    def _with_same_heads(self, values: dict[str, Any]) -> GaussianTransformer:
        # Keeps factored heads factored.
        dim, b = self.dim, values["b"]
        return GaussianTransformer._of(
            real_matrix(values["A"], "A", (dim, dim)),
            self.heads,
            np.zeros(dim) if b is None else real_vector(b, "b", dim),
            read_tilts(values["k"], self.n_heads, dim),
            read_layer_depth(values["dt"]),
            read_label(values["name"]),
        )

    def _like(self, argument: str, **changes: Any) -> GaussianTransformer:
        # Internal copies come from validated arrays: only overflow can spoil them.
        model = GaussianTransformer._of(*(changes.get(part, getattr(self, part)) for part in PARTS))
        changed = dict(zip(model.heads.parts, model.heads.arrays, strict=True))
        changed |= {"A": model.A, "b": model.b, "k": model.k}
        for key, array in changed.items():
            if not np.isfinite(array).all():
                raise ParameterError(
                    f"{argument}: expected finite new parameters, found overflow in {key}; "
                    "use a scale closer to 1"
                )
        return model

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaussianTransformer):
            return NotImplemented
        return (
            self.dt == other.dt
            and self.name == other.name
            and all(
                np.array_equal(getattr(self, key), getattr(other, key))
                for key in ("A", "B", "V", "b", "k")
            )
        )

    def __hash__(self) -> int:
        # Adding 0.0 turns -0.0 into 0.0: equal models must have equal hashes.
        return hash((self.dim, self.n_heads, self.dt, self.name, (self.A + 0.0).tobytes()))

    def __repr__(self) -> str:
        label = f"{self.name!r}, " if self.name else ""
        depth = f"layers of depth {self.dt:g}" if self.dt else "continuous depth"
        heads = "1 head" if self.n_heads == 1 else f"{self.n_heads} heads"
        extras = [key for key in ("b", "k") if getattr(self, key).any()]
        tail = f", with {' and '.join(extras)}" if extras else ""
        norms = ", ".join(
            f"|{key}| = {np.linalg.norm(getattr(self, key), 2, axis=(-2, -1)).max():.3g}"
            for key in ("A", "B", "V")
        )
        return f"<GaussianTransformer {label}d = {self.dim}, {heads}, {depth}{tail}; {norms}>"

    def _repr_html_(self) -> str:
        return notation.model_html(self)

    def _repr_latex_(self) -> str:
        return notation.model_latex(self)
