"""The moment system (1) as a python-control nonlinear input/output system.

    x = (mu, vech Sigma)   form="covariance"      x = (mu, rows of L), Sigma = L L^T   form="factor"
    x' = f(x; b + u_b, A + u_A, V + u_V, B + u_B, k + u_k),      y = (mu, vech Sigma)

Inputs are offsets from the nominal parameters, so u = 0 is the nominal model. `linearize` is the
closed form of Theory 2, never a finite difference. Parameter values given at construction become
part of the model rather than of `params`, which python-control would pass on to every other
system of an interconnection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError
from gausscontrol.linalg.operators import factor_derivative
from gausscontrol.linalg.symmetric import factor, vech_index
from gausscontrol.model.moments import MomentField
from gausscontrol.model.packing import read_moments
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import (
    FORMS,
    INPUTS,
    OUTPUTS,
    check_parameters,
    choice,
    default_name,
    factor_rank,
    point_of,
    replaced,
    selection,
    signal_vector,
)
from gausscontrol.systems.inputs import InputLayout
from gausscontrol.systems.labels import factor_labels, moment_labels
from gausscontrol.systems.system_report import system_html

__all__ = ["MomentSystem", "linear_system", "moment_system"]

# What a system is made with besides the model.
KEYWORDS = (
    "inputs",
    "outputs",
    "form",
    "rank",
    "name",
    "params",
    "input_prefix",
    "output_prefix",
    "state_prefix",
    "repr_format",
)


class MomentSystem(ct.NonlinearIOSystem):
    """Nonlinear input/output system of the mean and covariance.

    Made by `moment_system`, which says more about each parameter.

    Parameters
    ----------
    model : GaussianTransformer
        Nominal parameters.
    inputs : str or tuple of str, optional
        Which of "b", "A", "V", "B", "k" are inputs.
    outputs : str or tuple of str, optional
        Which of "mu", "Sigma" are outputs; both by default.
    form : {"covariance", "factor"}, optional
    rank : int, optional
        Columns of L in the factor form, d by default.
    name : str, optional
    params : dict, optional
        Values that replace parameters of the model.
    input_prefix, output_prefix, state_prefix : str, optional
        Put before the labels.
    **kwargs
        Further keywords of `ct.NonlinearIOSystem`.

    Attributes
    ----------
    model : GaussianTransformer
        The nominal parameters.
    form : {"covariance", "factor"}
    channels : tuple of str
        Parameters that are inputs, in input order.
    rank : int
        Number of columns of L in the factor form, d otherwise.
    dim : int
        Token dimension d.
    output_rows : (noutputs,) ndarray of int
        Which entries of (mu, vech Sigma) are outputs.

    Raises
    ------
    ParameterError, TypeError
        As `moment_system` does.

    Notes
    -----
    Theory 1.1, 1.4, 1.6; Theory 2.2 for the inputs.
    """

    def __init__(
        self,
        model: GaussianTransformer,
        *,
        inputs: str | tuple[str, ...] = ("b",),
        outputs: str | tuple[str, ...] | None = None,
        form: str = "covariance",
        rank: int | None = None,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        input_prefix: str = "",
        output_prefix: str = "",
        state_prefix: str = "",
        **kwargs: Any,
    ) -> None:
        check_single_model(model)
        _check_keywords(kwargs, model)
        check_parameters(params)
        self.model, self.dim = replaced(model, params or {}), model.dim
        self.channels = selection(inputs, "inputs", INPUTS)
        self.form = choice(form, "form", FORMS)
        self.rank = factor_rank(rank, form, model.dim)
        self._layout = InputLayout(model, self.channels)
        self._nominal = self._field = MomentField.of(self.model)
        self._selected = selection(OUTPUTS if outputs is None else outputs, "outputs", OUTPUTS)
        if not self._selected:
            raise ParameterError("outputs: expected mu or Sigma, found none; drop the argument")
        self._whole_state = self.form == "covariance" and self._selected == OUTPUTS
        self.output_rows = self._selected_rows()
        moments = moment_labels(self.dim)
        states = moments if form == "covariance" else factor_labels(self.dim, self.rank)
        super().__init__(
            self._update,
            self._read_out,
            name=default_name(model) if name is None else name,
            inputs=[input_prefix + label for label in self._layout.labels()],
            outputs=[output_prefix + moments[row] for row in self.output_rows],
            states=[state_prefix + label for label in states],
            dt=model.dt,
            **kwargs,
        )

    # -- what python-control calls ----------------------------------------------------------------

    def _update_params(self, params: Mapping[str, Any] | None) -> None:
        # Parameters are turned into a field once per call here, not once per evaluation.
        super()._update_params(params)
        self._field = self.field(params)

    def _update(self, t, x, u, params) -> np.ndarray:
        return self._rate(self.field(params), x, u)

    def _read_out(self, t, x, u, params) -> np.ndarray:
        return self._out(t, x, u)

    def _rhs(self, t, x, u) -> np.ndarray:
        return self._rate(self._field, x, u)

    def _rate(self, field: MomentField, x, u) -> np.ndarray:
        in_covariance = self.form == "covariance"
        if self.channels == ("b",) and u.dtype.kind == "f":
            # b enters mu' alone and linearly: no new field is needed.
            rate = field.covariance_form(x) if in_covariance else field.factor_form(x)
            rate[: self.dim] += self.dt * u if self.dt else u
            return rate
        field = self.offset_field(field, u)
        return field.covariance_form(x) if in_covariance else field.factor_form(x)

    def _out(self, t, x, u) -> np.ndarray:
        if self._whole_state:
            return np.array(x)
        return self.moments(x)[self.output_rows]

    def field(self, params: Mapping[str, Any] | None = None) -> MomentField:
        """Return the right side for some parameter values.

        The system itself is left as it is.

        Parameters
        ----------
        params : dict, optional
            Values of A, V, B, b or k in place of the model's; other names are left alone, since
            an interconnection hands every system the parameters of all.

        Returns
        -------
        MomentField

        Raises
        ------
        ShapeError, ParameterError
            If a value does not fit the model.
        """
        values = self.params | dict(params or {})
        changes = {key: values[key] for key in INPUTS if key in values}
        return MomentField.of(replaced(self.model, changes)) if changes else self._nominal

    def offset_field(self, field: MomentField, u: np.ndarray) -> MomentField:
        """Return a field with the offsets of an input vector added.

        Parameters
        ----------
        field : MomentField
        u : (ninputs,) ndarray

        Returns
        -------
        MomentField
        """
        return field.offset(**self._layout.split(u)) if np.any(u) else field

    def __str__(self) -> str:
        head = ct.InputOutputSystem.__str__(self)
        return f"{head}\nForm: {self.form}\nModel: {self.model!r}"

    def _repr_html_(self) -> str:
        return system_html(self, self._selected)

    # -- the user's side --------------------------------------------------------------------------

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
        x = np.asarray(x)
        if self.form == "covariance":
            return np.array(x)
        L = x[self.dim :].reshape(self.dim, self.rank, *x.shape[1:])
        S = np.einsum("ir...,jr...->ij...", L, L)
        index = vech_index(self.dim)
        return np.concatenate([x[: self.dim], S[index.rows, index.columns]])

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
        mean, covariance = read_moments((mean, covariance), "initial", self.dim)
        if self.form == "covariance":
            index = vech_index(self.dim)
            return np.concatenate([mean, covariance[index.rows, index.columns]])
        needed = factor(covariance).shape[1]
        if needed > self.rank:
            raise ParameterError(
                f"covariance: expected rank at most {self.rank}, found {needed}; "
                f"make the system with rank={needed}"
            )
        return np.concatenate([mean, factor(covariance, self.rank).reshape(-1)])

    def input_vector(self, **offsets: ArrayLike) -> np.ndarray:
        """Return the input u of the given offsets, zero elsewhere.

        Parameters
        ----------
        **offsets : array_like
            Offsets of some of the parameters in `channels`, shaped like the parameter; one head
            may drop its axis. A trailing time axis is carried along.

        Returns
        -------
        (ninputs,) or (ninputs, N) ndarray

        Raises
        ------
        TypeError
            If a name is no parameter.
        ParameterError
            If a parameter is not an input of this system.
        ShapeError
            If an offset does not have its parameter's shape.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> system = gct.moment_system(gct.GaussianTransformer(1, 1, -1), inputs=("b", "V"))
        >>> print(system.input_vector(V=[[0.5]]))
        [0.  0.5]
        """
        return self._layout.vector(offsets)

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
        """Linearise exactly at a state and input.

        Parameters
        ----------
        x0 : (nstates,) array_like, ct.OperatingPoint or Equilibrium
            State, operating point with state and input, or what has an `operating_point`.
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
            If x0 or u0 has the wrong length; nothing is padded.
        ParameterError
            If x0 is an operating point that was not found, or a number is not finite.
        TypeError
            If a keyword is unknown.

        Notes
        -----
        Theory 2.1 to 2.3. `ct.linearize` calls this method.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> system = gct.moment_system(gct.GaussianTransformer(0.5, 1, -0.25), inputs=("A",))
        >>> linear = system.linearize([0, 2])
        >>> print(linear.A[1, 1], linear.B[1, 0])
        -1.0 4.0
        """
        if callable(getattr(x0, "operating_point", None)):
            x0 = x0.operating_point(self)
        x0, u0 = point_of(x0, u0)
        x = signal_vector(x0, "x0", self.nstates)
        u = signal_vector(u0, "u0", self.ninputs)
        A, B, C = self._derivatives(self.offset_field(self.field(params), u), x)
        return linear_system(self, A, B, C, copy_names=copy_names, **kwargs)

    def _selected_rows(self) -> np.ndarray:
        size = vech_index(self.dim).low.size
        rows = {"mu": np.arange(self.dim), "Sigma": self.dim + np.arange(size)}
        return np.concatenate([rows[key] for key in self._selected])

    def _derivatives(self, field, x) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self.form == "covariance":
            C = (
                np.eye(self.nstates)
                if self._whole_state
                else np.eye(self.nstates)[self.output_rows]
            )
            return field.jacobian(x), field.input_jacobian(x, self.channels), C
        return (
            field.factor_jacobian(x),
            field.factor_input_jacobian(x, self.channels),
            self._moments_by_factor(x)[self.output_rows],
        )

    def _moments_by_factor(self, x: np.ndarray) -> np.ndarray:
        derivative = factor_derivative(x[self.dim :].reshape(self.dim, -1))
        out = np.zeros((self.dim + len(derivative), x.size))
        out[: self.dim, : self.dim] = np.eye(self.dim)
        out[self.dim :, self.dim :] = derivative
        return out


def moment_system(
    model: GaussianTransformer,
    *,
    inputs: str | tuple[str, ...] = ("b",),
    outputs: str | tuple[str, ...] | None = None,
    form: str = "covariance",
    rank: int | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> MomentSystem:
    """Wrap a model as a python-control nonlinear system.

    States are ``mu[i]`` and ``Sigma[k]``, the lower triangle of Sigma column by column
    (form="covariance"), or ``mu[i]`` and ``L[k]``, the rows of a factor with Sigma = L L^T
    (form="factor"). Outputs are the moments in either form.

    Parameters
    ----------
    model : GaussianTransformer
        Nominal parameters; its dt is the system's timebase.
    inputs : str or tuple of str, optional
        Which of "b", "A", "V", "B", "k" are inputs. Each input adds to the nominal parameter;
        arrays are flattened row by row, heads first, into signals such as ``V[n]``.
    outputs : str or tuple of str, optional
        Which of "mu", "Sigma" are outputs; both by default.
    form : {"covariance", "factor"}, optional
        The state; the factor form keeps rank and positive semidefiniteness by construction.
    rank : int, optional
        Columns of L in the factor form, d by default.
    name : str, optional
        System name; the model's name by default, with "_" for the "." that python-control
        reserves.
    **kwargs
        python-control's keywords: params (replaces parameters of the model), input_prefix,
        output_prefix, state_prefix (put before the standard labels), repr_format.

    Returns
    -------
    MomentSystem

    Raises
    ------
    ParameterError
        If a selection, form or rank is not one of those above.
    TypeError
        If a keyword is unknown.

    Notes
    -----
    Theory 1.1, 1.4, 1.6, 2.2. ``params={"A": ...}`` overrides A, V, B, b or k wherever
    python-control takes params. An interconnection hands the params of each of its systems to all
    of them: there, another system's parameter called A, V, B, b or k overrides this one's too.

    Examples
    --------
    >>> import control as ct
    >>> import gausscontrol as gct
    >>> system = gct.moment_system(gct.GaussianTransformer(0.5, 1, -0.25), name="layer")
    >>> system.state_labels
    ['mu[0]', 'Sigma[0]']
    >>> linear = ct.linearize(system, [0, 2])
    >>> print(linear.A[1, 1])
    -1.0
    """
    return MomentSystem(
        model, inputs=inputs, outputs=outputs, form=form, rank=rank, name=name, **kwargs
    )


def linear_system(
    system: ct.InputOutputSystem,
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
    *,
    copy_names: bool,
    **kwargs: Any,
) -> ct.StateSpace:
    """Return a linearisation without feedthrough as `linearize` of python-control does.

    Parameters
    ----------
    system : ct.InputOutputSystem
        What was linearised.
    A, B, C : (n, n), (n, m) and (p, n) ndarray
    copy_names : bool
        Give the linear system the signal names of this one.
    **kwargs
        name, inputs, outputs, states, as in `ct.linearize`.

    Returns
    -------
    ct.StateSpace

    Raises
    ------
    TypeError
        If a keyword is unknown.
    """
    D = np.zeros((system.noutputs, system.ninputs))
    linear = ct.StateSpace(A, B, C, D, system.dt, remove_useless_states=False)
    if copy_names:
        linear._copy_names(system, prefix_suffix_name="linearized")
    return ct.StateSpace(linear, **kwargs) if kwargs else linear


def _check_keywords(kwargs: dict[str, Any], model: GaussianTransformer) -> None:
    """Refuse unknown keywords and a dt that is not the model's; take a dt that is out."""
    unknown = [key for key in kwargs if key not in ("dt", "repr_format")]
    if unknown:
        raise TypeError(
            f"unrecognized keyword: {', '.join(unknown)}; expected {', '.join(KEYWORDS)}"
        )
    if "dt" in kwargs and kwargs.pop("dt") != model.dt:
        raise ParameterError(
            f"dt: expected the model's own dt = {model.dt:g}; "
            "set it with model.replace(dt=...) instead"
        )
