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

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
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
    listed,
    replaced,
    selection,
    signal_vector,
)
from gausscontrol.systems.system_report import system_html

__all__ = ["MomentSystem", "covariance_label", "moment_system"]

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


def covariance_label(n: int, d: int) -> str:
    """Name the n-th entry of vech(Sigma) by its subscripts.

    Parameters
    ----------
    n : int
        Position in vech, from 0; the state called ``Sigma[n]``.
    d : int
        Token dimension.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        If n is not a position in the vech of a d x d matrix.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> gct.covariance_label(1, 2)
    'Sigma[1,0]'
    """
    index = vech_index(d)
    if not 0 <= n < index.rows.size:
        raise ParameterError(
            f"n: expected 0 to {index.rows.size - 1} for d = {d}, found {n}; "
            "vech stacks the lower triangle column by column"
        )
    return f"Sigma[{index.rows[n]},{index.columns[n]}]"


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
        check_parameters(params)
        self.model, self.dim = replaced(model, params or {}), model.dim
        self.channels = selection(inputs, "inputs", INPUTS)
        self.form = choice(form, "form", FORMS)
        self.rank = factor_rank(rank, form, model.dim)
        self._sizes = {key: getattr(model, key).shape for key in self.channels}
        self._nominal = self._field = MomentField.of(self.model)
        self._selected = selection(OUTPUTS if outputs is None else outputs, "outputs", OUTPUTS)
        if not self._selected:
            raise ParameterError("outputs: expected mu or Sigma, found none; drop the argument")
        self._whole_state = self.form == "covariance" and self._selected == OUTPUTS
        self._rows = self._output_rows()
        labels = self._moment_labels()
        super().__init__(
            self._update,
            self._read_out,
            name=default_name(model) if name is None else name,
            inputs=[
                f"{input_prefix}{key}[{i}]"
                for key, shape in self._sizes.items()
                for i in range(int(np.prod(shape)))
            ],
            outputs=[output_prefix + labels[row] for row in self._rows],
            states=[state_prefix + label for label in self._state_labels()],
            dt=model.dt,
            **kwargs,
        )

    # -- labels and layout ----------------------------------------------------------------------

    def _moment_labels(self) -> list[str]:
        size = vech_index(self.dim).low.size
        return [f"mu[{i}]" for i in range(self.dim)] + [f"Sigma[{i}]" for i in range(size)]

    def _state_labels(self) -> list[str]:
        if self.form == "covariance":
            return self._moment_labels()
        factor_labels = [f"L[{i}]" for i in range(self.dim * self.rank)]
        return [f"mu[{i}]" for i in range(self.dim)] + factor_labels

    def _output_rows(self) -> np.ndarray:
        size = vech_index(self.dim).low.size
        rows = {"mu": np.arange(self.dim), "Sigma": self.dim + np.arange(size)}
        return np.concatenate([rows[key] for key in self._selected])

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
        return self.moments(x)[self._rows]

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
        return field.offset(**self._split(u)) if np.any(u) else field

    def _split(self, u: np.ndarray) -> dict[str, np.ndarray]:
        parts, start = {}, 0
        for key, shape in self._sizes.items():
            stop = start + int(np.prod(shape))
            parts[key] = u[start:stop].reshape(shape)
            start = stop
        return parts

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
        for key in offsets:
            if key not in INPUTS:
                raise TypeError(f"unrecognized keyword: {key}; input_vector takes {listed(INPUTS)}")
            if key not in self.channels:
                raise ParameterError(
                    f"{key}: expected one of this system's inputs, {listed(self.channels)}; "
                    "name it in moment_system(..., inputs=...)"
                )
        parts = {key: self._offset(key, value) for key, value in offsets.items()}
        lengths = {part.shape[1:] for part in parts.values()} - {()}
        if len(lengths) > 1:
            raise ShapeError(
                f"offsets: expected one number of time points, found {sorted(lengths)}; "
                "sample all offsets on the same grid"
            )
        tail = lengths.pop() if lengths else ()
        u = np.zeros((self.ninputs, *tail))
        start = 0
        for key, shape in self._sizes.items():
            stop = start + int(np.prod(shape))
            if key in parts:
                part = parts[key]
                u[start:stop] = part if part.ndim == 1 + len(tail) else part[:, None]
            start = stop
        return u

    def _offset(self, key: str, value: ArrayLike) -> np.ndarray:
        array, shape = real_array(value, key), self._sizes[key]
        shapes = [shape] + ([shape[1:]] if key in "VBk" and shape[0] == 1 else [])
        if self.dim == 1 and array.ndim == 0:
            array = array.reshape(shape)
        for wanted in shapes:
            if array.shape[: len(wanted)] == wanted and array.ndim - len(wanted) <= 1:
                return array.reshape(int(np.prod(shape)), *array.shape[len(wanted) :])
        raise ShapeError(
            f"{key}: expected an offset of shape {shape}, with or without a last time axis, "
            f"found {array.shape}; shape it like the model's {key}"
        )

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
        if isinstance(x0, ct.OperatingPoint):
            u0 = x0.inputs if u0 is None else u0
            x0 = x0.states
            if x0 is None:
                raise ParameterError(
                    "x0: expected an operating point with states, found none; "
                    "ct.find_operating_point returns that when it does not converge"
                )
        x = signal_vector(x0, "x0", self.nstates)
        u = signal_vector(0.0 if u0 is None else u0, "u0", self.ninputs)
        A, B, C = self._derivatives(self.offset_field(self.field(params), u), x)
        D = np.zeros((self.noutputs, self.ninputs))
        linear = ct.StateSpace(A, B, C, D, self.dt, remove_useless_states=False)
        if copy_names:
            linear._copy_names(self, prefix_suffix_name="linearized")
        return ct.StateSpace(linear, **kwargs) if kwargs else linear

    def _derivatives(self, field, x) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self.form == "covariance":
            C = np.eye(self.nstates) if self._whole_state else np.eye(self.nstates)[self._rows]
            return field.jacobian(x), field.input_jacobian(x, self.channels), C
        return (
            field.factor_jacobian(x),
            field.factor_input_jacobian(x, self.channels),
            self._moments_by_factor(x)[self._rows],
        )

    def _moments_by_factor(self, x: np.ndarray) -> np.ndarray:
        L, index = x[self.dim :].reshape(self.dim, -1), vech_index(self.dim)
        unit = np.eye(self.dim)
        # d(L L^T)_ij / dL_pa = delta_ip L_ja + delta_jp L_ia
        tensor = np.einsum("np,na->npa", unit[index.rows], L[index.columns])
        tensor += np.einsum("np,na->npa", unit[index.columns], L[index.rows])
        out = np.zeros((self.dim + index.low.size, x.size))
        out[: self.dim, : self.dim] = unit
        out[self.dim :, self.dim :] = tensor.reshape(index.low.size, -1)
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
