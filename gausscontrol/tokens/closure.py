"""The moment system of a layer with a nonlinear feed-forward part, closed (Theory 8.1).

    x' = A x + b + f(x) + attention,    f(x) -> A_eq(mu, Sigma) x + b_eq(mu, Sigma)

    mu'    = (A + A_eq + T(Sigma) + Vbar) mu + sum_h V_h Sigma k_h + b + b_eq
    Sigma' = M Sigma + Sigma M^T,       M = A + A_eq + T(Sigma)

At every state this is the moment system of the model frozen there, and its Jacobian is that of
the frozen model plus what A_eq and b_eq change by. Since A_eq is the mean of Df, dA_eq mu + db_eq
has no part in dmu; the rest is closed form (see `gausscontrol.tokens.units`). In discrete depth
D = I + dt M and Sigma+ = D Sigma D^T: the token that moves is the one closed by the affine map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.model.moments import MomentField
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import point_of, signal_vector
from gausscontrol.systems.iosys import MomentSystem, linear_system
from gausscontrol.tokens.feedforward import FeedForward, check_partners
from gausscontrol.tokens.units import UnitMoments

__all__ = ["ClosureSystem", "closure_system"]


class ClosureSystem(ct.NonlinearIOSystem):
    """Moment system with a statistically linearised part.

    Made by `closure_system`, which says more.

    Parameters
    ----------
    model : GaussianTransformer
        The layer without the part.
    feedforward : FeedForward
    name : str, optional
    repr_format : str, optional
        As in python-control.
    **kwargs
        Keywords of `moment_system`.

    Attributes
    ----------
    model : GaussianTransformer
    feedforward : FeedForward
    form : {"covariance", "factor"}
    channels : tuple of str
        Parameters that are inputs, in input order.
    rank, dim : int
        Columns of the factor in the factor form, d otherwise; token dimension d.

    Raises
    ------
    ShapeError, ParameterError, TypeError
        As `closure_system` does.

    Notes
    -----
    Theory 8.1. Not a `MomentSystem`, since A depends on the state: `moment_response` refuses it,
    and `ct.input_output_response` integrates it.
    """

    def __init__(
        self,
        model: GaussianTransformer,
        feedforward: FeedForward,
        *,
        name: str | None = None,
        repr_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_partners(model, feedforward)
        plain = MomentSystem(model, name=name, **kwargs)
        self._plain, self.feedforward = plain, feedforward
        self.model, self.dim, self.form = plain.model, plain.dim, plain.form
        self.channels, self.rank = plain.channels, plain.rank
        self._field = plain.field()
        super().__init__(
            self._update,
            self._read_out,
            name=plain.name,
            inputs=plain.input_labels,
            outputs=plain.output_labels,
            states=plain.state_labels,
            dt=plain.dt,
            **({} if repr_format is None else {"repr_format": repr_format}),
        )

    # -- evaluation by python-control -------------------------------------------------------------

    def _update_params(self, params: Mapping[str, Any] | None) -> None:
        super()._update_params(params)
        self._field = self._parameters(params)

    def _parameters(self, params: Mapping[str, Any] | None) -> MomentField:
        return self._plain.field(self.params | dict(params or {}))

    def _update(self, t, x, u, params) -> np.ndarray:
        return self._rate(self._parameters(params), x, u)

    def _read_out(self, t, x, u, params) -> np.ndarray:
        return self._plain._out(t, x, u)

    def _rhs(self, t, x, u) -> np.ndarray:
        return self._rate(self._field, np.asarray(x, dtype=float), u)

    def _out(self, t, x, u) -> np.ndarray:
        return self._plain._out(t, x, u)

    def _rate(self, field: MomentField, x, u) -> np.ndarray:
        field = self._frozen(self._plain.offset_field(field, np.asarray(u)), x)
        return field.covariance_form(x) if self.form == "covariance" else field.factor_form(x)

    def _frozen(self, field: MomentField, x: np.ndarray) -> MomentField:
        A_eq, b_eq = self.feedforward.affine(*self._moments(x))
        return field.offset(A=A_eq, b=b_eq)

    def _moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dim = self.dim
        if self.form == "covariance":
            return x[:dim], x[dim:].take(vech_index(dim).full).reshape(dim, dim)
        L = x[dim:].reshape(dim, self.rank)
        return x[:dim], L @ L.T

    def __str__(self) -> str:
        head = ct.InputOutputSystem.__str__(self)
        return f"{head}\nForm: {self.form}\nModel: {self.model!r}\nPart: {self.feedforward!r}"

    # -- the user's side --------------------------------------------------------------------------

    def state_vector(self, mean: ArrayLike, covariance: ArrayLike) -> np.ndarray:
        """Return the state of this system with the given moments.

        Parameters
        ----------
        mean : (d,) array_like
            [x]
        covariance : (d, d) array_like
            Positive semidefinite; of rank at most `rank` in the factor form. [x]^2

        Returns
        -------
        (nstates,) ndarray

        Raises
        ------
        ShapeError, ParameterError
            If the moments are invalid, or the covariance has a higher rank than the factor.
        """
        return self._plain.state_vector(mean, covariance)

    def input_vector(self, **offsets: ArrayLike) -> np.ndarray:
        """Return the input u of the given offsets, zero elsewhere.

        Parameters
        ----------
        **offsets : array_like
            As in `MomentSystem.input_vector`.

        Returns
        -------
        (ninputs,) or (ninputs, N) ndarray

        Raises
        ------
        ShapeError, ParameterError, TypeError
            As `MomentSystem.input_vector` does.
        """
        return self._plain.input_vector(**offsets)

    def moments(self, x: np.ndarray) -> np.ndarray:
        """Return the packed (mu, vech Sigma) of a state of either form.

        Parameters
        ----------
        x : (nstates,) or (nstates, N) array_like
            State; time on the last axis.

        Returns
        -------
        (d + d(d+1)/2,) or (d + d(d+1)/2, N) ndarray
        """
        return self._plain.moments(x)

    def linearize(
        self,
        x0: Any,
        u0: ArrayLike | None = None,
        t: float = 0,
        params: Mapping[str, Any] | None = None,
        eps: float | None = None,
        copy_names: bool = False,
        **kwargs: Any,
    ) -> ct.StateSpace:
        """Linearise exactly at a state and input, A_eq and b_eq included.

        Parameters
        ----------
        x0 : (nstates,) array_like or ct.OperatingPoint
            State, or operating point with state and input.
        u0 : (ninputs,) array_like, optional
            Input offsets, zero by default.
        t : float, optional
            Ignored: the right side does not depend on depth.
        params : dict, optional
            Parameter values that override the nominal ones.
        eps : float, optional
            Ignored: nothing is differenced. Accepted since python-control's own method has it.
        copy_names : bool, optional
            Give the linear system the signal names of this one.
        **kwargs
            name, inputs, outputs, states, as in `ct.linearize`.

        Returns
        -------
        ct.StateSpace

        Raises
        ------
        ShapeError
            If x0 or u0 has the wrong length.
        ParameterError
            If x0 is an operating point that was not found, a number is not finite, or a ReLU unit
            has no variance and sits on its kink: there the closure has no derivative.
        TypeError
            If a keyword is unknown.

        Notes
        -----
        Theory 8.1, 2.1. `ct.linearize` calls this method. A variance that is zero, or negative
        since the state is no covariance, has the one-sided derivative.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> model = gct.GaussianTransformer(-1, 1, 0)
        >>> part = gct.tokens.FeedForward([[1.0]], None, [[2.0]], None)
        >>> linear = gct.tokens.closure_system(model, part).linearize([0, 1])
        >>> bool(np.allclose(linear.A, [[0, 1 / np.sqrt(2 * np.pi)], [2 * 0.7978846, 0]]))
        True
        """
        x0, u0 = point_of(x0, u0)
        x = signal_vector(x0, "x0", self.nstates)
        u = signal_vector(u0, "u0", self.ninputs)
        field = self._frozen(self._plain.offset_field(self._parameters(params), u), x)
        A, B, C = self._plain._derivatives(field, x)
        A = A + self._closure_jacobian(field, x)
        return linear_system(self, A, B, C, copy_names=copy_names, **kwargs)

    # -- what A_eq and b_eq change by -------------------------------------------------------------

    def _closure_jacobian(self, field: MomentField, x: np.ndarray) -> np.ndarray:
        dim, units, W2 = self.dim, self.feedforward.units, self.feedforward.W2
        mean, S = self._moments(x)
        moments = units.moments(mean, S, 3)
        self._check_kinks(moments)
        a, b = moments.a, moments.b
        gain = field.dt or 1.0
        by_v, by_kappa = self._variances(x)
        # dA_eq = W2 (diag(dq) W_g + diag(da) W_u), q = b_1 and a = a_0.
        dq = np.concatenate([b[2][:, None] * units.W_g, b[3][:, None] / 2 * by_v], axis=1)
        mean_rows = b[2][:, None] / 2 * by_v
        acting = self._acting(field, S, x)
        blocks = [(self._second_rows(W2, units.W_g @ acting), dq)]
        if units.W_u is not None:
            dq[:, :dim] += a[1][:, None] * units.W_u
            dq[:, dim:] += a[2][:, None] * by_kappa
            mean_rows = mean_rows + a[1][:, None] * by_kappa
            da = np.concatenate([a[1][:, None] * units.W_g, a[2][:, None] / 2 * by_v], axis=1)
            blocks.append((self._second_rows(W2, units.W_u @ acting), da))
        out = np.zeros((x.size, x.size))
        out[:dim, dim:] = gain * (W2 @ mean_rows)
        out[dim:] = gain * sum(left @ right for left, right in blocks)
        return out

    def _check_kinks(self, moments: UnitMoments) -> None:
        if self.feedforward.units.activation.kinked and (stuck := moments.v == 0).any():
            stuck &= moments.m == 0
            if stuck.any():
                raise ParameterError(
                    f"x0: expected a state with a derivative, found relu unit {stuck.argmax()} on "
                    "its kink without variance; move the mean or give the covariance full rank"
                )

    def _acting(self, field: MomentField, S: np.ndarray, x: np.ndarray) -> np.ndarray:
        # What a change of A_eq multiplies: Sigma, Sigma D^T or L.
        if self.form == "factor":
            return x[self.dim :].reshape(self.dim, self.rank)
        return S @ (np.eye(self.dim) + field.dt * field.drift(S)).T if field.dt else S

    def _second_rows(self, W2: np.ndarray, acted: np.ndarray) -> np.ndarray:
        # Change of the second block of x' with each unit's slope: vech(w y^T + y w^T), or w y^T.
        if self.form == "factor":
            return np.einsum("im,ma->iam", W2, acted).reshape(-1, W2.shape[1])
        index = vech_index(self.dim)
        y = acted.T
        return W2[index.rows] * y[index.columns] + y[index.rows] * W2[index.columns]

    def _variances(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        # dv and dkappa by the second block of the state, (m, entries).
        units, dim = self.feedforward.units, self.dim
        G, U = units.W_g, units.W_u
        if self.form == "factor":
            L = x[dim:].reshape(dim, self.rank)
            by_v = 2 * np.einsum("mp,ma->mpa", G, G @ L).reshape(len(G), -1)
            if U is None:
                return by_v, None
            both = np.einsum("mp,ma->mpa", G, U @ L) + np.einsum("mp,ma->mpa", U, G @ L)
            return by_v, both.reshape(len(G), -1)
        index = vech_index(dim)
        rows, columns = index.rows, index.columns
        by_v = 2 * index.half * G[:, rows] * G[:, columns]
        if U is None:
            return by_v, None
        return by_v, index.half * (G[:, rows] * U[:, columns] + G[:, columns] * U[:, rows])


def closure_system(
    model: GaussianTransformer,
    feedforward: FeedForward,
    *,
    name: str | None = None,
    **kwargs: Any,
) -> ClosureSystem:
    """Wrap a layer with a nonlinear part as a moment system.

    x' = A x + b + f(x) + attention, f replaced by its affine closure at the current Gaussian.
    States, inputs and outputs are those of `moment_system`: ``mu[i]``, ``Sigma[k]``, ``b[i]``.

    Parameters
    ----------
    model : GaussianTransformer
        The layer without the part; its dt is the system's timebase.
    feedforward : FeedForward
        f, added to the model's own A x + b.
    name : str, optional
        System name; the model's name by default.
    **kwargs
        Keywords of `moment_system`: inputs, outputs, form, rank, params, input_prefix and so on.

    Returns
    -------
    ClosureSystem
        A `ct.NonlinearIOSystem` with an exact ``linearize``.

    Raises
    ------
    ShapeError
        If the token dimensions differ.
    ParameterError
        If an argument is none of its kind.
    TypeError
        If a keyword is unknown.

    See Also
    --------
    FeedForward.frozen : The closure at one Gaussian, as a model.
    gap_estimate : How far the true law may have moved from the Gaussian.

    Notes
    -----
    Theory 8.1. In continuous depth the derivatives of mean and covariance are exact at a Gaussian.
    In discrete depth the mean is exact and the covariance lacks dt^2 times the covariance of
    f(x) - A_eq x, whose trace is dt^2 gap^2.

    Examples
    --------
    >>> import control as ct
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0, 1, -0.5, name="layer")
    >>> part = gct.tokens.FeedForward([[2.0]], None, [[1.0]], None, "tanh")
    >>> system = gct.tokens.closure_system(model, part)
    >>> system.state_labels
    ['mu[0]', 'Sigma[0]']
    >>> point = ct.find_operating_point(system, [0, 1], [0])
    >>> bool(ct.linearize(system, point).poles().real.max() < 0)
    True
    """
    return ClosureSystem(model, feedforward, name=name, **kwargs)
